"""Buffered reads of small pieces of a file, front to back."""

from adapters.disk import ReadFile, UnreadableError

CHUNK = 16 << 10


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
