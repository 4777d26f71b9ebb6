"""The blocks of stored content that were compared with their checksums lately.

A block of a file is not compared again for some minutes, unless the file has been changed or has to be read from disk.
"""

from collections import OrderedDict
from math import inf
from threading import Lock
from time import monotonic

FILES = 1000
"""The most files whose compared blocks are known."""
COMPARED_SECONDS = 600.0
"""The time for which the blocks of a file are known, in seconds from its first one on."""


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
