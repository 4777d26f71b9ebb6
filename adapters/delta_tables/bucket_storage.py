"""Storage of tables in a bucket, through obstore."""

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError

from adapters.delta_tables.table_storage import LOG, explained
from adapters.storage_places import bucket

_PART = 8 << 20
_PARTS_AT_ONCE = 4
_READ_AHEAD = 1 << 20


class BucketStorage:
    """A bucket, or a prefix of one, by URL. Credentials are in the environment."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._store = bucket(url)

    def folders(self) -> Iterator[str]:
        with explained():
            for prefix in obstore.list_with_delimiter(self._store)["common_prefixes"]:
                if next(iter(obstore.list(self._store, f"{prefix}/{LOG}", chunk_size=1)), None):
                    yield prefix

    def location(self, folder: str) -> str:
        return f"{self._url}/{folder}"

    @contextmanager
    def create(self, path: str) -> Iterator[Any]:
        with explained():
            writer = obstore.open_writer(self._store, path, buffer_size=_PART, max_concurrency=_PARTS_AT_ONCE)
            yield _Upload(writer)
            writer.close()

    def size(self, path: str) -> int:
        with explained():
            return obstore.head(self._store, path)["size"]

    def has(self, path: str) -> bool:
        with explained(), suppress(FileNotFoundError):
            obstore.head(self._store, path)
            return True
        return False

    def may_have_log(self, folder: str) -> bool:  # noqa: ARG002
        return True

    def put_new(self, path: str, data: bytes) -> bool:
        with explained():
            try:
                obstore.put(self._store, path, data, mode="create")
            except AlreadyExistsError:
                # The library repeats a request whose answer was lost. What is there may be what it wrote before.
                return bool(obstore.get(self._store, path).bytes() == data)
        return True

    @contextmanager
    def open(self, path: str) -> Iterator[Any]:
        with explained():
            yield _Download(obstore.open_reader(self._store, path, buffer_size=_READ_AHEAD))

    def flush(self, paths: Iterable[str]) -> None:
        """Do nothing: every object of a bucket is durable."""

    def files(self, folder: str) -> list[str]:
        with explained():
            found = obstore.list_with_delimiter(self._store, folder)["objects"]
        return [each["path"].rpartition("/")[2] for each in found]

    def delete(self, path: str) -> None:
        with explained(), suppress(FileNotFoundError):
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
