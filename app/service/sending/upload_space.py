"""The disk space that uploads may use: what is free, without the reserve for messages from brokers.

Receiving pauses below `limits.free_bytes`. If uploads might fill the disk down to it, the next message would pause
receiving. So they leave twice that space.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from app.model.errors import StoreFull

RESERVES = 2


class UploadSpace:
    """The free space, and what running uploads have announced of it. Any thread may use it; `_lock` guards `_promised`.

    `free` returns the free bytes of the disk. Receiving pauses if there are fewer than `reserve`.
    """

    def __init__(self, free: Callable[[], int], reserve: int) -> None:
        self._free, self._kept = free, RESERVES * reserve
        self._promised = 0
        self._lock = Lock()

    def check(self, wanted: int = 0) -> None:
        """Raise StoreFull when this number of bytes, in addition to the promised ones, would use reserved space."""
        with self._lock:
            self._check(wanted)

    @contextmanager
    def promised(self, announced: int) -> Iterator["SpaceReservation"]:
        """Keep space for an upload for the length of the block. Raises StoreFull."""
        promise = SpaceReservation(self)
        promise.grow_to(announced)
        try:
            yield promise
        finally:
            promise.written(promise.left)

    def _check(self, wanted: int) -> None:
        free = self._free()
        if free - self._promised - wanted < self._kept:
            promised = f", {self._promised} of them for running uploads" if self._promised else ""
            why = f"{self._kept} (twice limits.free_bytes) are kept for messages from brokers"
            raise StoreFull(f"{free} bytes are free{promised}, and {why}")

    def promise(self, more: int) -> None:
        """Keep this number of bytes more for an upload. Raises StoreFull."""
        with self._lock:
            self._check(max(0, more))
            self._promised += more

    def release(self, size: int) -> None:
        """Give back promised bytes: they are written, or they will not come."""
        with self._lock:
            self._promised -= size


class SpaceReservation:
    """The space that is kept for one upload: what it has announced and not yet written."""

    def __init__(self, room: UploadSpace) -> None:
        self._room = room
        self.left = 0

    def grow_to(self, size: int) -> None:
        """Keep at least this number of bytes. Raises StoreFull, also if the disk has become full."""
        more = max(0, size - self.left)
        self._room.promise(more)
        self.left += more

    def written(self, size: int) -> None:
        """Note that this number of bytes is on the disk, and so is subtracted from the free space already."""
        size = min(size, self.left)
        self.left -= size
        self._room.release(size)
