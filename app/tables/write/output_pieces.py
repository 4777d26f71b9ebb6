"""Split output into pieces that are large enough to be sent one by one."""

import io
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

Piece = bytes | memoryview

PIECE_BYTES = 64 << 10
"""The minimum size of a piece in bytes."""

LARGEST_PIECE = 1 << 20

COMPRESSION_LEVEL = 1
"""The fastest level of zlib: the next one takes half as long again and saves a twentieth."""

BLOCK_BYTES = 2 << 20
"""The number of Arrow bytes that become text at once; the text is two or three times as large."""


def split(data: Piece) -> Iterator[memoryview]:
    """Yield bytes in pieces of at most 1 MiB."""
    view = memoryview(data)
    for at in range(0, len(view), LARGEST_PIECE):
        yield view[at : at + LARGEST_PIECE]


def blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches, cut so that none has many more than BLOCK_BYTES; empty ones are left out."""
    for batch in batches:
        rows = max(1, batch.num_rows * BLOCK_BYTES // max(batch.nbytes, 1))
        for at in range(0, batch.num_rows, rows):
            yield batch.slice(at, rows)


class OutputPieces(io.RawIOBase):
    """A writable file whose bytes are removed as they are written."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        written = bytes(data)
        self._held.append(written)
        self._size += len(written)
        return len(written)

    def taken(self, least: int = PIECE_BYTES) -> Iterator[memoryview]:
        """Yield the bytes written since the last call, if they are at least `least`."""
        if self._size >= max(least, 1):
            data = b"".join(self._held)
            self._held, self._size = [], 0
            yield from split(data)

    def rest(self) -> Iterator[memoryview]:
        """Return all bytes written since the last call."""
        return self.taken(least=1)
