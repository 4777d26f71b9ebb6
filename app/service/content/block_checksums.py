"""Checksums of stored content: the CRC-32C of each block, so that any range can be checked while it is read.

A block of a file is not compared again for some minutes, unless the file has been changed or has to be read from disk.

SHA-256 is the digest of content. It takes the time of sixteen CRC-32C and needs the whole content, so that reading for
a client checks the blocks, and only the scrub and `fsck` compare the digest.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from math import inf
from struct import Struct
from threading import Lock
from time import monotonic

from crc32c import crc32c

from app.model.errors import DamagedError

BLOCK = 1 << 20
"""The bytes of a block. The last block of content may be shorter."""

FILES = 1000
"""The most files whose compared blocks are known."""
COMPARED_SECONDS = 600.0
"""The time for which the blocks of a file are known, in seconds from its first one on."""

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
        compare(block, number, checksums, name)
        yield block


def compare(block: memoryview, number: int, checksums: bytes, name: str | None) -> None:
    """Compare block number `number` with its checksum. Raises DamagedError."""
    if crc32c(block) != _CRC.unpack_from(checksums, number * _CRC.size)[0]:
        why = f"the {len(block):,} bytes from byte {number * BLOCK:,} on do not match their checksum"
        raise DamagedError(why, name=name)


class ComparedBlocks:
    """The blocks of files that were compared with their checksums. The lock guards `_blocks`.

    Each file is known by its version (`ObjectFile.version`), for a while. The files used last are kept.
    """

    def __init__(self) -> None:
        self._blocks: OrderedDict[tuple[int, ...], tuple[float, int]] = OrderedDict()
        """Of each version, when its first block was compared, and a number whose bit `n` is set if block `n` was."""
        self._lock = Lock()

    def has(self, version: tuple[int, ...], number: int) -> bool:
        """Tell whether a block of a file was compared lately."""
        since, blocks = self._blocks.get(version, (-inf, 0))
        return bool(blocks >> number & 1) and monotonic() < since + COMPARED_SECONDS

    def add(self, version: tuple[int, ...], number: int) -> None:
        """Add a block that was compared. The version was the same before and after it was read."""
        now = monotonic()
        with self._lock:
            since, blocks = self._blocks.pop(version, (now, 0))
            if now >= since + COMPARED_SECONDS:
                since, blocks = now, 0
            self._blocks[version] = since, blocks | 1 << number
            if len(self._blocks) > FILES:
                self._blocks.popitem(last=False)


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
