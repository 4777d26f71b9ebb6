"""The storage of tables: files by path in a local folder, flushed to disk before they count, or in a bucket."""

import io
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from time import time
from typing import Any, Protocol

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from adapters.disk import NO_SPACE, make_folders, sync_folder, write_whole
from adapters.storage_places import bucket
from app.model.errors import GatewayError, StoreFull

LOG = "_delta_log"


_PARTIAL = ".partial-"
_MISREAD = re.compile(r"[%\\\x00-\x1f\x7f]")
_PART = 8 << 20
_PARTS_AT_ONCE = 4
_READ_AHEAD = 1 << 20


class TableStorage(Protocol):
    """Files by path, below the folder of all tables."""

    def folders(self) -> Iterator[str]:
        """Yield the folders that hold a table."""

    def location(self, folder: str) -> str: ...

    def create(self, path: str) -> AbstractContextManager[Any]:
        """Open a file for writing. It is durable when the block ends, and deleted when the block raises an error."""

    def size(self, path: str) -> int: ...

    def has(self, path: str) -> bool: ...

    def may_have_log(self, folder: str) -> bool:
        """Tell whether a folder may have a log. False only if that costs no request."""

    def put_new(self, path: str, data: bytes) -> bool:
        """Create a complete and durable file in one step. Return False, and change nothing, if the name exists."""

    def open(self, path: str) -> AbstractContextManager[Any]:
        """Open a file for reading at any offset."""

    def flush(self, paths: Iterable[str]) -> None:
        """Make files of other processes durable, if they still exist."""

    def files(self, folder: str) -> list[str]:
        """Return the files of a table, without its log."""

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""

    def sweep(self, folder: str, older_than: float) -> None:
        """Delete partial files older than this number of seconds, which killed processes have left in a table's log."""


@contextmanager
def as_table_errors() -> Iterator[None]:
    """Turn errors of the storage into GatewayError and StoreFull."""
    try:
        yield
    except (BaseError, OSError) as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise StoreFull(f"no space left for tables: {error}") from error
        raise GatewayError(f"the tables cannot be read or written: {error}") from error


class LocalStorage:
    """A folder, created with the first table.

    Raises ValueError for a path with a percent sign, a backslash or a control character: the library that reads logs
    would read another path.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        if _MISREAD.search(str(self._folder)):
            raise ValueError(
                f"no table store at {folder}: its path has a percent sign, a backslash or a control character"
            )

    def folders(self) -> Iterator[str]:
        with as_table_errors():
            for log in self._folder.glob(f"*/{LOG}"):
                if any(log.glob("*.json")):
                    yield log.parent.name

    def location(self, folder: str) -> str:
        return str(self._folder / folder)

    @contextmanager
    def create(self, path: str) -> Iterator[Any]:
        target = self._folder / path
        with as_table_errors():
            make_folders(target.parent)
            try:
                with target.open("xb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
            except BaseException:
                target.unlink(missing_ok=True)
                raise
            sync_folder(target.parent)

    def size(self, path: str) -> int:
        with as_table_errors():
            return (self._folder / path).stat().st_size

    def has(self, path: str) -> bool:
        return (self._folder / path).exists()

    def may_have_log(self, folder: str) -> bool:
        with as_table_errors():
            return (self._folder / folder / LOG).is_dir()

    def put_new(self, path: str, data: bytes) -> bool:
        target = self._folder / path
        partial = target.with_name(_PARTIAL + token_hex(16))
        with as_table_errors():
            make_folders(target.parent)
            try:
                write_whole(partial, [data])
                target.hardlink_to(partial)
            except FileExistsError:
                # NFS repeats a request whose answer was lost. The existing file may be this very file, linked before.
                if not target.samefile(partial):
                    return False
            finally:
                partial.unlink(missing_ok=True)
            sync_folder(target.parent)
        return True

    def open(self, path: str) -> AbstractContextManager[Any]:
        with as_table_errors():
            return (self._folder / path).open("rb")

    def flush(self, paths: Iterable[str]) -> None:
        with as_table_errors():
            for path in map(self._folder.joinpath, paths):
                with suppress(FileNotFoundError), path.open("rb") as file:
                    os.fsync(file.fileno())
                sync_folder(path.parent)

    def files(self, folder: str) -> list[str]:
        with as_table_errors():
            return [path.name for path in (self._folder / folder).iterdir() if path.is_file()]

    def delete(self, path: str) -> None:
        with as_table_errors():
            (self._folder / path).unlink(missing_ok=True)

    def sweep(self, folder: str, older_than: float) -> None:
        with as_table_errors():
            for path in (self._folder / folder / LOG).glob(f"{_PARTIAL}*"):
                with suppress(FileNotFoundError):
                    if time() - path.stat().st_mtime >= older_than:
                        path.unlink()


class BucketStorage:
    """A bucket, or a prefix of one, by URL. Credentials are in the environment."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._store = bucket(url)

    def folders(self) -> Iterator[str]:
        with as_table_errors():
            for prefix in obstore.list_with_delimiter(self._store)["common_prefixes"]:
                if next(iter(obstore.list(self._store, f"{prefix}/{LOG}", chunk_size=1)), None):
                    yield prefix

    def location(self, folder: str) -> str:
        return f"{self._url}/{folder}"

    @contextmanager
    def create(self, path: str) -> Iterator[Any]:
        with as_table_errors():
            writer = obstore.open_writer(self._store, path, buffer_size=_PART, max_concurrency=_PARTS_AT_ONCE)
            yield _Upload(writer)
            writer.close()

    def size(self, path: str) -> int:
        with as_table_errors():
            return obstore.head(self._store, path)["size"]

    def has(self, path: str) -> bool:
        with as_table_errors(), suppress(FileNotFoundError):
            obstore.head(self._store, path)
            return True
        return False

    def may_have_log(self, folder: str) -> bool:  # noqa: ARG002
        return True

    def put_new(self, path: str, data: bytes) -> bool:
        with as_table_errors():
            try:
                obstore.put(self._store, path, data, mode="create")
            except AlreadyExistsError:
                # The library repeats a request whose answer was lost. It may have written this object before.
                return bool(obstore.get(self._store, path).bytes() == data)
        return True

    @contextmanager
    def open(self, path: str) -> Iterator[Any]:
        with as_table_errors():
            yield _Download(obstore.open_reader(self._store, path, buffer_size=_READ_AHEAD))

    def flush(self, paths: Iterable[str]) -> None:
        """Do nothing: every object of a bucket is durable."""

    def files(self, folder: str) -> list[str]:
        with as_table_errors():
            found = obstore.list_with_delimiter(self._store, folder)["objects"]
        return [each["path"].rpartition("/")[2] for each in found]

    def delete(self, path: str) -> None:
        with as_table_errors(), suppress(FileNotFoundError):
            obstore.delete(self._store, path)

    def sweep(self, folder: str, older_than: float) -> None:
        """Do nothing: a bucket has no partial files."""


class _Upload(io.RawIOBase):
    """An object being uploaded, as a file object for pyarrow."""

    def __init__(self, writer: "obstore.WritableFile") -> None:
        self._writer = writer

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._writer.write(
            bytes(data)
        )  # obstore keeps the bytes that it is given, and the caller may change its buffer
        return len(data)


class _Download(io.RawIOBase):
    """An object being read, as a file object for pyarrow."""

    def __init__(self, reader: "obstore.ReadableFile") -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._reader.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._reader.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        data = memoryview(self._reader.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)
