"""Where tables lie: a local folder, whose files are flushed to disk before they count, or a bucket, through obstore."""

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from time import time
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import from_url

from adapters.disk import NO_SPACE, make_folders, sync_folder
from app.model.errors import OurError, StoreFull

LOG = "_delta_log"
_PARTIAL = ".partial-"
_REMOTE_SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl")
_PART = 8 << 20
_PARTS_AT_ONCE = 4


class Place(Protocol):
    """Files by path, below the folder of all tables."""

    def folders(self) -> Iterator[str]:
        """Those that hold a table."""

    def location(self, folder: str) -> str: ...

    def create(self, path: str) -> AbstractContextManager[Any]:
        """A file to write, durable when the block ends; forgotten when it raises."""

    def size(self, path: str) -> int: ...

    def put_new(self, path: str, data: bytes) -> bool:
        """Makes a file whole and durable at once; False, and nothing is done, when there is one of that name."""

    def open(self, path: str) -> AbstractContextManager[Any]:
        """A file to read, from any place."""

    def flush(self, paths: Iterable[str]) -> None:
        """Makes durable what a library has written."""

    def delete(self, path: str) -> None:
        """No error if there is none."""

    def sweep(self, folder: str, older_than: float) -> None:
        """Forgets what killed processes left in a table's log so many seconds ago."""


def place(url: str | Path) -> Place:
    """Raises ValueError for a URL of no place."""
    parts = urlsplit(str(url))
    if isinstance(url, Path) or "://" not in url:
        return LocalPlace(Path(url))
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return LocalPlace(Path(unquote(parts.path)))
    if parts.scheme in _REMOTE_SCHEMES:
        return Bucket(url)
    raise ValueError(f"no table store at {url}: expected a path, or a URL with file, s3, gs or az")


class LocalPlace:
    """A folder, made when the first table is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def folders(self) -> Iterator[str]:
        with _explained(), suppress(FileNotFoundError):
            for entry in os.scandir(self._folder):
                if (self._folder / entry.name / LOG).is_dir() and any((self._folder / entry.name / LOG).iterdir()):
                    yield entry.name

    def location(self, folder: str) -> str:
        return str(self._folder / folder)

    @contextmanager
    def create(self, path: str) -> Iterator[Any]:
        target = self._folder / path
        with _explained():
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
        with _explained():
            return (self._folder / path).stat().st_size

    def put_new(self, path: str, data: bytes) -> bool:
        target = self._folder / path
        partial = target.with_name(_PARTIAL + token_hex(16))
        with _explained():
            make_folders(target.parent)
            try:
                with partial.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                target.hardlink_to(partial)
            except FileExistsError:
                return False
            finally:
                partial.unlink(missing_ok=True)
            sync_folder(target.parent)
        return True

    def open(self, path: str) -> AbstractContextManager[Any]:
        with _explained():
            return (self._folder / path).open("rb")

    def flush(self, paths: Iterable[str]) -> None:
        with _explained():
            for path in map(self._folder.joinpath, paths):
                with path.open("rb") as file:
                    os.fsync(file.fileno())
                sync_folder(path.parent)

    def delete(self, path: str) -> None:
        with _explained():
            (self._folder / path).unlink(missing_ok=True)

    def sweep(self, folder: str, older_than: float) -> None:
        with _explained():
            for path in (self._folder / folder / LOG).glob(f"{_PARTIAL}*"):
                with suppress(FileNotFoundError):
                    if time() - path.stat().st_mtime >= older_than:
                        path.unlink()


class Bucket:
    """A bucket, or what lies below a prefix of one, by URL; credentials are in the environment."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._store = from_url(url)

    def folders(self) -> Iterator[str]:
        with _explained():
            for prefix in obstore.list_with_delimiter(self._store)["common_prefixes"]:
                if next(iter(obstore.list(self._store, f"{prefix}/{LOG}", chunk_size=1)), None):
                    yield prefix

    def location(self, folder: str) -> str:
        return f"{self._url}/{folder}"

    @contextmanager
    def create(self, path: str) -> Iterator[Any]:
        with _explained():
            writer = obstore.open_writer(self._store, path, buffer_size=_PART, max_concurrency=_PARTS_AT_ONCE)
            yield writer
            writer.close()

    def size(self, path: str) -> int:
        with _explained():
            return obstore.head(self._store, path)["size"]

    def put_new(self, path: str, data: bytes) -> bool:
        with _explained():
            try:
                obstore.put(self._store, path, data, mode="create")
            except AlreadyExistsError:
                return False
        return True

    @contextmanager
    def open(self, path: str) -> Iterator[Any]:
        with _explained():
            yield obstore.open_reader(self._store, path)

    def flush(self, paths: Iterable[str]) -> None:
        """Nothing is to be done: a bucket forgets nothing."""

    def delete(self, path: str) -> None:
        with _explained(), suppress(FileNotFoundError):
            obstore.delete(self._store, path)

    def sweep(self, folder: str, older_than: float) -> None:
        """Nothing is to be done: a bucket has no half of a file."""


def _is_visible(path: Path) -> bool:
    return not path.name.startswith(".")


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (BaseError, OSError) as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise StoreFull(f"no space left for tables: {error}") from error
        raise OurError(f"the tables cannot be read or written: {error}") from error
