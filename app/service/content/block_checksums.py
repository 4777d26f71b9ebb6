"""Checksums of stored content: the CRC-32C of each block, so that any range can be checked while it is read.

SHA-256 is the digest of content. It takes the time of sixteen CRC-32C and needs the whole content, so that reading for
a client checks the blocks, and only the scrub and `fsck` compare the digest.
"""

from collections.abc import Iterable, Iterator
from struct import Struct

from crc32c import crc32c

from app.model.errors import DamagedError

BLOCK = 1 << 20
"""The bytes of a block. The last block of content may be shorter."""

_CRC = Struct("<I")


class BlockChecksums:
    """The checksums of bytes that come one after the other."""

    def __init__(self) -> None:
        self._crcs = bytearray()
        self._crc = self._filled = 0

    def update(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes."""
        if isinstance(data, bytes) and self._filled + len(data) < BLOCK:
            self._crc, self._filled = crc32c(data, self._crc), self._filled + len(data)
            return
        rest = memoryview(data).cast("B")
        while rest:
            some = rest[: BLOCK - self._filled]
            self._crc = crc32c(some, self._crc)
            self._filled += len(some)
            rest = rest[len(some) :]
            if self._filled == BLOCK:
                self._end_block()

    def packed(self) -> bytes:
        """Return the checksums of all blocks so far, each as 4 bytes, little-endian. No bytes may follow."""
        if self._filled:
            self._end_block()
        return bytes(self._crcs)

    def _end_block(self) -> None:
        self._crcs += _CRC.pack(self._crc)
        self._crc = self._filled = 0


def blocks_of(size: int) -> int:
    """Return the number of blocks of content that has `size` bytes."""
    return -(-size // BLOCK)


def are_complete(checksums: bytes | None, size: int) -> bool:
    """Tell whether these are the checksums of all blocks of content that has `size` bytes."""
    return checksums is not None and len(checksums) == blocks_of(size) * _CRC.size


def checked(
    pieces: Iterable[memoryview], first: int, checksums: bytes, name: str | None = None
) -> Iterator[memoryview]:
    """Yield the blocks that these pieces give, from block number `first` on, each compared with its checksum.

    `checksums` belong to the whole content, and `name` is its object. Raises DamagedError for a block that differs.
    """
    for number, block in enumerate(_blocks(pieces), first):
        if crc32c(block) != _CRC.unpack_from(checksums, number * _CRC.size)[0]:
            why = f"the {len(block):,} bytes from byte {number * BLOCK:,} on do not match their checksum"
            raise DamagedError(why, name=name)
        yield block


def _blocks(pieces: Iterable[memoryview]) -> Iterator[memoryview]:
    gathered = bytearray()
    for piece in pieces:
        if len(piece) == BLOCK and not gathered:
            yield piece
            continue
        rest = piece
        while rest:
            some = rest[: BLOCK - len(gathered)]
            gathered += some
            rest = rest[len(some) :]
            if len(gathered) == BLOCK:
                yield memoryview(gathered)
                gathered = bytearray()
    if gathered:
        yield memoryview(gathered)
