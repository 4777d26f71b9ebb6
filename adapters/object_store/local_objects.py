"""Objects as files of a local folder.

obstore's own local store names a file without flushing it to disk, so that after a power failure a named object may be
empty. Here a file is written in `.partial`, flushed, renamed, and the folder flushed. A writer holds a lock on its
partial file. Opening the store deletes unlocked partial files, which killed processes have left, and their folders.

Deleting the last object of a folder removes the folder, except one directly in the store: there are few of those.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import ENOSPC
from pathlib import Path
from secrets import token_hex
from stat import S_ISREG
from typing import BinaryIO

from adapters.disk import (
    NO_SPACE,
    READ_FAILURES,
    ReadFile,
    UnreadableError,
    make_folders,
    sync_file_system,
    sync_folder,
)
from adapters.object_store.pending_objects import PendingObjects
from app.model.errors import DamagedError, GatewayError, StoreFull

PIECE = 1 << 20
BUFFER = 64 << 10
FLUSH_BYTES = 8 << 20
"""A large object is flushed to disk after this number of bytes, so that naming it need not wait for all of it."""
CACHED_BYTES = 16 << 20
"""The part of a large object that stays in the system's page cache. More would evict pages that readers use, and on a
virtual machine fresh memory costs more than the writing."""
AHEAD = 4 << 20
"""The number of bytes that the system is asked to read in advance."""

KEPT_BYTES, KEPT_PART = 16 << 20, 20
"""The free space that is left, or the twentieth part of a smaller disk: without any, a catalog on this disk could not
even record what is deleted."""

FLUSH_FILE_SYSTEM_FROM = 32
"""The number of objects from which on their whole file system is flushed, instead of each file."""

RENAMED_AT_MOST = 100
"""How often to rename a file whose folder other threads or processes remove repeatedly."""

_PARTIAL = ".partial"
_UNNAMED = re.compile(r"#\d+$")
"""What ends the name of a file that the library object_store, which writes tables, is still writing."""
_FOLDER = ".d"


class LocalObjects:
    """A `ContentStore` in a folder, for names that have been checked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._partial = self._folder / _PARTIAL
        self._outer: set[str] = set()
        """The folders directly in the store whose names are known to be durable."""
        make_folders(self._partial)
        self._sweep()

    @contextmanager
    def create(self, name: str) -> "Iterator[PartialFile]":
        path = self._folder / name
        with _explained():
            partial = PartialFile(self._partial)
        try:
            yield partial
            with _explained():
                partial.name(path)
                self._sync([name])
        finally:
            partial.close()

    @contextmanager
    def batch(self) -> Iterator[PendingObjects]:
        with _explained():
            waiting = _WaitingFiles(self._folder, self._partial)
        try:
            yield PendingObjects(self, waiting)
            with _explained():
                self._sync(waiting.name())
        finally:
            waiting.close()

    def size(self, name: str) -> int:
        with suppress(FileNotFoundError, NotADirectoryError):
            status = (self._folder / name).stat()
            if S_ISREG(status.st_mode):
                return status.st_size
        raise KeyError(name)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> Iterator[memoryview]:
        size = self.size(name)
        end = size if length is None else min(size, offset + length)
        return self._pieces(name, offset, end)

    def _pieces(self, name: str, offset: int, end: int) -> Iterator[memoryview]:
        if offset >= end:
            return
        file = LocalObjectFile(self._folder, name)
        file.will_need(offset, min(end, offset + AHEAD))
        for at in range(offset, end, PIECE):
            yield file.read(at, min(at + PIECE, end))

    def local_path(self, name: str) -> str | None:
        return str(self._folder / name)

    def open_file(self, name: str) -> "LocalObjectFile":
        self.size(name)
        return LocalObjectFile(self._folder, name)

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):
            (self._folder / name).unlink()
            for folder in _and_parents(name.rpartition("/")[0])[:-1]:
                try:
                    (self._folder / folder).rmdir()
                except OSError:  # it has other objects
                    return

    def delete_all(self, names: Sequence[str]) -> None:
        for name in names:
            self.delete(name)

    def _sync(self, names: Iterable[str]) -> None:
        """Make the names of objects durable, and the names of folders that any process may have made for them."""
        parents = {name.rpartition("/")[0] for name in names}
        folders = {folder for parent in parents for folder in _and_parents(parent)}
        new = {folder for folder in folders if "/" not in folder} - self._outer
        for folder in sorted(folders | {""} if new else folders, reverse=True):
            with suppress(FileNotFoundError):  # its objects have been deleted, and it with them
                sync_folder(self._folder / folder)
        self._outer |= new

    def names(self, prefix: str = "") -> Iterator[str]:
        for folder, folders, files in os.walk(self._folder / prefix.rpartition("/")[0]):
            if _PARTIAL in folders:
                folders.remove(_PARTIAL)
            within = Path(folder).relative_to(self._folder)
            named = (file for file in files if not _UNNAMED.search(file))
            yield from (name for file in named if (name := (within / file).as_posix()).startswith(prefix))

    def _sweep(self) -> None:
        for path in self._partial.iterdir():
            if path.suffix == _FOLDER:
                if not path.with_suffix("").exists():
                    shutil.rmtree(path, ignore_errors=True)
                continue
            with suppress(FileNotFoundError), path.open("r+b") as file, suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.with_suffix(_FOLDER), ignore_errors=True)
                path.unlink()


class LocalObjectFile:
    """An `ObjectFile` of a folder. Raises KeyError if there is none, and DamagedError if it cannot be opened."""

    def __init__(self, folder: Path, name: str) -> None:
        self._name = name
        try:
            self._file = ReadFile(folder / name)
        except (FileNotFoundError, NotADirectoryError):
            raise KeyError(name) from None
        except OSError as error:
            raise _unreadable(name, error) from error
        self.fileno, self.will_need = self._file.fileno, self._file.will_need
        self.version, self.is_cached = self._file.version, self._file.is_cached

    def read(self, start: int, end: int) -> memoryview:
        try:
            return memoryview(self._file.read(start, end))
        except UnreadableError as error:
            raise _unreadable(self._name, error) from error


class PartialFile:
    """An object being written, invisible until it is named."""

    def __init__(self, folder: Path) -> None:
        self.path, self._file = _new_locked_file(folder)
        self._named = False
        self._size = self._flushed = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        with _explained():
            self._file.write(data)
            self._size += len(data)
            if self._size - self._flushed >= FLUSH_BYTES:
                self._flush()

    def _flush(self) -> None:
        _require_room(self.path)
        self._file.flush()
        os.fdatasync(self._file.fileno())
        self._flushed = self._size
        os.posix_fadvise(self._file.fileno(), 0, max(0, self._size - CACHED_BYTES), os.POSIX_FADV_DONTNEED)

    def name(self, path: Path) -> None:
        """Make what was written durable, then visible at a path of the same file system. The name is not durable."""
        self._file.flush()
        os.fsync(self._file.fileno())
        _rename(self.path, path)
        self._named = True

    def close(self) -> None:
        """Discard what was written, unless it has been named."""
        if not self._named:
            self.path.unlink(missing_ok=True)
        with suppress(OSError):
            self._file.close()


class _WaitingFiles:
    """Small objects as files of a folder of their own. A partial file of the same name is locked by this process."""

    def __init__(self, folder: Path, partial: Path) -> None:
        self._folder = folder
        self._path, self._lock = _new_locked_file(partial)
        self._own = self._path.with_suffix(_FOLDER)
        self._files: dict[str, str] = {}
        self._made = 0
        try:
            self._own.mkdir()
        except OSError:
            self.close()
            raise

    def put(self, name: str, data: bytes) -> None:
        with _explained():
            path = f"{self._own}/{self._made}"
            self._made += 1
            # A Python file, or a Path for each, would take as long as the system's file.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
            finally:
                os.close(descriptor)
            self._files[name] = path

    def drop(self, name: str) -> None:
        self._files.pop(name, None)

    def get(self, name: str) -> bytes | None:
        path = self._files.get(name)
        return None if path is None else Path(path).read_bytes()

    def name(self) -> Iterable[str]:
        """Make all of them durable, then visible. Return their names, which are not durable yet."""
        if len(self._files) >= FLUSH_FILE_SYSTEM_FROM:
            sync_file_system(self._own)
        else:
            for path in self._files.values():
                _flush(path)
        for name, path in self._files.items():
            _rename(path, f"{self._folder}/{name}")
        return self._files

    def close(self) -> None:
        """Discard what has not been named."""
        shutil.rmtree(self._own, ignore_errors=True)
        self._path.unlink(missing_ok=True)
        self._lock.close()


def _and_parents(folder: str) -> list[str]:
    """Return a folder of the store and those around it, the innermost first."""
    parts = folder.split("/")
    return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]


def _rename(path: str | Path, target: str | Path) -> None:
    """Rename a file into a folder that may be missing, or that is removed when it becomes empty meanwhile."""
    for _ in range(RENAMED_AT_MOST):
        try:
            os.rename(path, target)  # noqa: PTH104
        except FileNotFoundError:
            with suppress(FileExistsError, FileNotFoundError):  # others make and remove the same folders
                os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
        else:
            return
    os.rename(path, target)  # noqa: PTH104


def _flush(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _require_room(place: Path) -> None:
    """Raise OSError, as a full disk does, if its last free space would be taken."""
    status = os.statvfs(place)
    if status.f_bavail < min(KEPT_BYTES // status.f_frsize, status.f_blocks // KEPT_PART):
        raise OSError(ENOSPC, f"{status.f_bavail * status.f_frsize} bytes are free, which are kept for the catalog")


def _new_locked_file(folder: Path) -> tuple[Path, BinaryIO]:
    _require_room(folder)
    while True:
        path = folder / token_hex(16)
        file = path.open("xb", buffering=BUFFER)
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return path, file
        file.close()  # another process that was opening the store deleted the file before it was locked


def _unreadable(name: str, error: OSError | UnreadableError) -> GatewayError:
    why = f"the object {name} cannot be read: {error}"
    if isinstance(error, UnreadableError) or error.errno in READ_FAILURES:
        return DamagedError(why, name=name)
    return GatewayError(why)


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise StoreFull(f"no space left for the content store: {error}") from error
        raise GatewayError(f"the content store cannot be written: {error}") from error
