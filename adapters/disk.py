"""Reading and writing of files, for all adapters."""

import ctypes
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import sleep, time_ns
from typing import TypeVar

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
READ_FAILURES = (errno.EIO,)
"""Error numbers of a disk that fails."""
_BLOCK = 4096
_PIECE = 256 << 10
_AHEAD = 16 << 10
_libc = ctypes.CDLL(None, use_errno=True)
_CLOCK_STEP = 20_000_000
"""More than the nanoseconds between two times that a file system gives to changes."""
_PAUSES = (0.01, 0.2)
"""Pauses in seconds before a failed call is repeated: a disk, or the network to it, may fail for a moment."""


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(folder: Path) -> None:
    """Make everything durable that was written to the file system of a folder. Raises OSError.

    For very many files this takes much less time than a flush of each.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _libc.syncfs(descriptor):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(folder))
    finally:
        os.close(descriptor)


def make_folders(folder: Path) -> None:
    """Create a folder and its parents where they are missing, and make their names durable."""
    if not folder.is_dir():
        make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def write_whole(path: Path, pieces: Iterable[Buffer], *, replaces: bool = False) -> None:
    """Write a file durably; its name is not durable yet. Raises OSError, and FileExistsError unless it `replaces`."""
    with path.open("wb" if replaces else "xb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())


class UnreadableError(Exception):
    """Bytes of a file cannot be read, or are past its end."""


def _tried(do: Callable[[], T]) -> T:
    """Return what a function returns. It is called again after a pause if the disk fails. Raises OSError."""
    for pause in _PAUSES:
        try:
            return do()
        except OSError as error:
            if error.errno not in READ_FAILURES:
                raise
            sleep(pause)
    return do()


class ReadFile:
    """A file open for reading. It stays open and readable as long as this object exists.

    The file is never mapped into memory: a page of a mapping that cannot be read ends the process.
    """

    def __init__(self, path: Path) -> None:
        """Open a file. Opened again after a pause if the disk fails. Raises OSError."""
        self._descriptor = -1
        self._descriptor = _tried(lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def version(self) -> tuple[int, ...]:
        """Return numbers of which one differs for each other file, and once the file has been changed.

        There are none while its last change is so recent that the next may get the same time.
        """
        status = os.fstat(self._descriptor)
        if time_ns() < status.st_ctime_ns + _CLOCK_STEP:
            return ()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def is_cached(self, start: int, end: int) -> bool:
        """Tell whether the system has the first and the last of these bytes in memory. False where it cannot tell."""
        try:
            return all(os.preadv(self._descriptor, [bytearray(1)], at, os.RWF_NOWAIT) for at in (start, end - 1))
        except OSError:  # a disk would have to be waited for, or the file system has no such calls
            return False

    def inode(self) -> int:
        return os.fstat(self._descriptor).st_ino

    def read(self, start: int, end: int) -> bytes:
        """Return bytes [start, end). Read again after a pause if the disk fails. Raises UnreadableError."""
        try:
            return _tried(lambda: self._read(start, end))
        except OSError as error:
            raise UnreadableError(f"bytes {start} to {end} cannot be read: {error.strerror}") from error

    def _read(self, start: int, end: int) -> bytes:
        data = os.pread(self._descriptor, end - start, start)
        while len(data) < end - start:
            more = os.pread(self._descriptor, end - start - len(data), start + len(data))
            if not more:
                raise UnreadableError(f"the file ends at byte {start + len(data)}, before byte {end}")
            data += more
        return data

    def read_as_is(self, start: int, end: int) -> bytes:
        """Return bytes [start, end), with zeros in place of bytes that cannot be read."""
        try:
            return self._read(start, end)
        except (OSError, UnreadableError):
            if end - start <= _BLOCK:
                return bytes(end - start)
        parts = range(start, end, _BLOCK)
        return b"".join(self.read_as_is(at, min(at + _BLOCK, end)) for at in parts)

    def pieces_as_is(self, start: int, end: int) -> Iterator[bytes]:
        """Yield bytes [start, end) in pieces, as `read_as_is` returns them."""
        return (self.read_as_is(at, min(at + _PIECE, end)) for at in range(start, end, _PIECE))

    def will_need(self, start: int, end: int) -> None:
        """Ask the system to read these bytes in the background."""
        if start < end:
            os.posix_fadvise(self._descriptor, start, end - start, os.POSIX_FADV_WILLNEED)


class ReadWindow:
    """Reads small pieces of the first `size` bytes of a file, front to back, with read-ahead."""

    def __init__(self, file: ReadFile, size: int) -> None:
        self._file, self.size = file, size
        self._start, self._data = 0, b""

    def get(self, start: int, end: int) -> bytes:
        """Return bytes [start, end), fewer at the end of the file. Raises UnreadableError."""
        end = min(end, self.size)
        if start >= end:
            return b""
        if start < self._start or end > self._start + len(self._data):
            try:
                data = self._file.read(start, max(end, min(start + _AHEAD, self.size)))
            except UnreadableError:  # perhaps only what lies behind is
                data = self._file.read(start, end)
            self._start, self._data = start, data
        return self._data[start - self._start : end - self._start]
