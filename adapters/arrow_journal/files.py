"""Reading a file so that what fails is an error: never by a mapping, whose faults would end the process."""

import os
from errno import EIO
from pathlib import Path

CHUNK = 16 << 10
BLOCK = 4096
READ_FAILURES = (EIO,)
"""What the system says of a disk that fails."""


class UnreadableError(Exception):
    """Bytes of a file that cannot be read, or are not there."""


class ReadFile:
    """A file open for reading, which stays open and readable as long as somebody holds this."""

    def __init__(self, path: Path) -> None:
        self._descriptor = -1
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, start: int, end: int) -> bytes:
        """Bytes [start, end). Raises UnreadableError."""
        try:
            data = os.pread(self._descriptor, end - start, start)
            while len(data) < end - start:
                more = os.pread(self._descriptor, end - start - len(data), start + len(data))
                if not more:
                    raise UnreadableError(f"the file ends at byte {start + len(data)}, before byte {end}")
                data += more
        except OSError as error:
            raise UnreadableError(f"bytes {start} to {end} cannot be read: {error.strerror}") from error
        return data

    def read_as_is(self, start: int, end: int) -> bytes:
        """Bytes [start, end), those that cannot be read as zeros."""
        try:
            return self.read(start, end)
        except UnreadableError:
            if end - start <= BLOCK:
                return bytes(end - start)
        parts = range(start, end, BLOCK)
        return b"".join(self.read_as_is(at, min(at + BLOCK, end)) for at in parts)

    def will_need(self, start: int, end: int) -> None:
        """Has the system read these bytes in the background."""
        if start < end:
            os.posix_fadvise(self._descriptor, start, end - start, os.POSIX_FADV_WILLNEED)


class Window:
    """Small pieces of the first `size` bytes of a file, front to back, read some at a time."""

    def __init__(self, file: ReadFile, size: int) -> None:
        self._file, self.size = file, size
        self._start, self._data = 0, b""

    def get(self, start: int, end: int) -> bytes:
        """Bytes [start, end), as far as there are. Raises UnreadableError."""
        end = min(end, self.size)
        if start >= end:
            return b""
        if start < self._start or end > self._start + len(self._data):
            self._start, self._data = start, self._read(start, end)
        return self._data[start - self._start : end - self._start]

    def _read(self, start: int, end: int) -> bytes:
        ahead = min(start + CHUNK, self.size)
        if ahead > end:
            try:
                return self._file.read(start, ahead)
            except UnreadableError:
                pass
        return self._file.read(start, end)
