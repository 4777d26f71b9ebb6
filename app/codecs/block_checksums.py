"""Checksums of bytes that are read in pieces: the CRC-32C of each block, so that any range can be checked while it is
read.

Stored content and files of tables have them. SHA-256, the digest of content, takes the time of sixteen CRC-32C and
needs the whole content: only the scrub and `fsck` compare that.
"""

from collections.abc import Iterable, Iterator
from struct import Struct

from crc32c import crc32c

from app.model.errors import DamagedError

BLOCK = 1 << 20
"""The bytes of a block of content. The last block may be shorter."""

_CRC = Struct("<I")


class BlockChecksums:
    """The checksums of bytes that come one after the other, in blocks of this size."""

    def __init__(self, block: int = BLOCK) -> None:
        self._block = block
        self._crcs = bytearray()
        self._crc = self._filled = 0

    def update(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes."""
        if isinstance(data, bytes) and self._filled + len(data) < self._block:
            self._crc, self._filled = crc32c(data, self._crc), self._filled + len(data)
            return
        rest = memoryview(data).cast("B")
        while rest:
            some = rest[: self._block - self._filled]
            self._crc = crc32c(some, self._crc)
            self._filled += len(some)
            rest = rest[len(some) :]
            if self._filled == self._block:
                self._end_block()

    def packed(self) -> bytes:
        """Return the checksums of all blocks so far, each as 4 bytes, little-endian. No bytes may follow."""
        if self._filled:
            self._end_block()
        return bytes(self._crcs)

    def _end_block(self) -> None:
        self._crcs += _CRC.pack(self._crc)
        self._crc = self._filled = 0


def blocks_of(size: int, block: int = BLOCK) -> int:
    """Return the number of blocks of `size` bytes."""
    return -(-size // block)


def are_complete(checksums: bytes | None, size: int, block: int = BLOCK) -> bool:
    """Tell whether these are the checksums of all blocks of `size` bytes."""
    return checksums is not None and len(checksums) == blocks_of(size, block) * _CRC.size


def checked(
    pieces: Iterable[memoryview], first: int, checksums: bytes, name: str | None = None
) -> Iterator[memoryview]:
    """Yield the blocks that these pieces give, from block number `first` on, each compared with its checksum.

    `checksums` belong to the whole content, and `name` is its object. Raises DamagedError for a block that differs.
    """
    for number, block in enumerate(_blocks(pieces), first):
        compare(block, number, checksums, name)
        yield block


def compare(block: memoryview, number: int, checksums: bytes, name: str | None) -> None:
    """Compare block number `number` with its checksum. Raises DamagedError."""
    if not matches(block, number, checksums):
        raise DamagedError(difference(number * BLOCK, len(block)), name=name)


def matches(block: bytes | memoryview, number: int, checksums: bytes) -> bool:
    """Tell whether block number `number` has its checksum."""
    return bool(crc32c(block) == _CRC.unpack_from(checksums, number * _CRC.size)[0])


def difference(start: int, size: int) -> str:
    """Return what is said of `size` bytes that have another checksum."""
    return f"the {size:,} bytes from byte {start:,} on do not match their checksum"


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
