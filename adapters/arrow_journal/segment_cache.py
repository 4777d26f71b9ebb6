"""Sealed segments of an object store, as files of a folder that the processes of a machine share.

A segment is written as a partial file and renamed when it is complete. The writer holds a lock on the partial file. A
second process that wants the same segment waits for the lock and then finds the segment. An unlocked partial file was
left by a killed process. A file that is deleted to make room stays readable for processes that have it open.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR
from tempfile import gettempdir

from adapters.arrow_journal.batch_columns import Bytes
from adapters.disk import NO_SPACE, ReadFile
from app.model.errors import GatewayError, StoreFull

PART = 8 << 20
PARTS_AT_ONCE = 4
_PARTIAL = ".partial"

Fetch = Callable[[int, int], Bytes]
"""A function that returns bytes [start, end) of an object."""


def own_folder(name: str) -> Path:
    """Return a folder of this user among the machine's temporary files. Raises GatewayError if another user owns it."""
    folder = Path(gettempdir()) / f"attachment-gateway-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if status.st_uid != os.getuid() or not S_ISDIR(status.st_mode):
        raise GatewayError(f"{folder} is not a folder of this user: choose another cache folder")
    return folder / name


class FileCache:
    """Keeps at most `limit` bytes, or one larger file that is in use. The least recently used file is deleted first.

    Raises GatewayError when the folder cannot be created.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GatewayError(f"the cache folder {folder} cannot be created: {error}") from error

    def open(self, name: str, size: int, fetch: Fetch) -> ReadFile:
        """Open the file of this name and size, and fetch it first if it is missing.

        Raises GatewayError when it cannot be written, and any error of `fetch`.
        """
        path = self._folder / name
        while True:
            with suppress(FileNotFoundError):
                if path.stat().st_size == size:
                    os.utime(path)
                    return ReadFile(path)
            self._fetch(path, size, fetch)

    def drop(self, name: str, file: ReadFile) -> None:
        """Delete the file of this name if it is the one that is open as `file`, and not a newer one."""
        path = self._folder / name
        with suppress(FileNotFoundError):
            if path.stat().st_ino == file.inode():
                path.unlink()

    def _fetch(self, path: Path, size: int, fetch: Fetch) -> None:
        try:
            with _locked(path.with_name(path.name + _PARTIAL)) as (partial, descriptor):
                if not path.exists() or path.stat().st_size != size:
                    self._make_room(size)
                    _write(descriptor, size, fetch)
                    partial.rename(path)
        except OSError as error:
            kind = StoreFull if error.errno in NO_SPACE else GatewayError
            raise kind(f"{path} cannot be written: {error}") from error

    def _make_room(self, wanted: int) -> None:
        found = []
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):
                status = path.stat()
                found.append((status.st_mtime_ns, status.st_size, path))
        kept = sum(size for _, size, _ in found) + wanted
        for _, size, path in sorted(found):
            if kept > self._limit and _removed(path):
                kept -= size


def _write(descriptor: int, size: int, fetch: Fetch) -> None:
    def copy(start: int) -> None:
        end = min(start + PART, size)
        data = memoryview(fetch(start, end))
        if len(data) != end - start:
            raise GatewayError(f"{len(data)} bytes were received, {end - start} were expected")
        while data:
            written = os.pwrite(descriptor, data, start)
            data, start = data[written:], start + written

    os.ftruncate(descriptor, 0)
    with ThreadPoolExecutor(PARTS_AT_ONCE) as pool:
        for _ in pool.map(copy, range(0, size, PART)):
            pass
    os.fdatasync(descriptor)


@contextmanager
def _locked(path: Path) -> Iterator[tuple[Path, int]]:
    """Open and lock a file. At the end, delete it if it still has this name."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_named(descriptor, path):
                try:
                    yield path, descriptor
                finally:
                    if _is_named(descriptor, path):
                        path.unlink()
                return
        finally:
            os.close(descriptor)


def _is_named(descriptor: int, path: Path) -> bool:
    """Tell whether an open file still has this name: another process may have renamed or deleted it."""
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def _removed(path: Path) -> bool:
    """Delete a file, and tell whether that was possible. A partial file that another process is fetching is locked and
    stays."""
    if not path.name.endswith(_PARTIAL):
        path.unlink(missing_ok=True)
        return True
    with suppress(FileNotFoundError), path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if _is_named(file.fileno(), path):
            path.unlink()
    return True
