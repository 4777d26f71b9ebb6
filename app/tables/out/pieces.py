"""Output in pieces that are worth sending one by one."""

import io
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

Piece = bytes | memoryview

PIECE_BYTES = 64 << 10
"""A piece is gathered until it has so many bytes."""

LARGEST_PIECE = 1 << 20

COMPRESSION_LEVEL = 1
"""zlib's quickest: the next one takes half as long again and saves a twentieth."""

BLOCK_BYTES = 2 << 20
"""Arrow bytes that are turned into text at once: they become two or three times as many."""


def split(data: Piece) -> Iterator[memoryview]:
    """Bytes in pieces of at most 1 MiB."""
    view = memoryview(data)
    for at in range(0, len(view), LARGEST_PIECE):
        yield view[at : at + LARGEST_PIECE]


def blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches again, cut so that none has many more than BLOCK_BYTES; empty ones are left out."""
    for batch in batches:
        rows = max(1, batch.num_rows * BLOCK_BYTES // max(batch.nbytes, 1))
        for at in range(0, batch.num_rows, rows):
            yield batch.slice(at, rows)


class Pieces(io.RawIOBase):
    """A file to write to, whose bytes are taken away as they come."""

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
        """What was written since, if it is so many bytes."""
        if self._size >= max(least, 1):
            data = b"".join(self._held)
            self._held, self._size = [], 0
            yield from split(data)

    def rest(self) -> Iterator[memoryview]:
        """What was written since."""
        return self.taken(least=1)
