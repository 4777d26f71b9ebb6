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
    """The free space, and what running uploads have announced of it. Any thread may use it; `_lock` guards `_reserved`.

    `free` returns the free bytes of the disk. Receiving pauses if there are fewer than `least`.
    """

    def __init__(self, free: Callable[[], int], least: int) -> None:
        self._free, self._kept = free, RESERVES * least
        self._reserved = 0
        self._lock = Lock()

    def check(self, wanted: int = 0) -> None:
        """Raise StoreFull when this number of bytes, in addition to the reserved ones, would leave too few."""
        with self._lock:
            self._check(wanted)

    @contextmanager
    def reserved(self, announced: int) -> Iterator["SpaceReservation"]:
        """Reserve space for an upload for the length of the block. Raises StoreFull."""
        reservation = SpaceReservation(self)
        reservation.grow_to(announced)
        try:
            yield reservation
        finally:
            reservation.written(reservation.left)

    def _check(self, wanted: int) -> None:
        free = self._free()
        if free - self._reserved - wanted < self._kept:
            reserved = f", {self._reserved} of them reserved for running uploads" if self._reserved else ""
            why = f"{self._kept} (twice limits.free_bytes) are kept for messages from brokers"
            raise StoreFull(f"{free} bytes are free{reserved}, and {why}")

    def reserve(self, more: int) -> None:
        """Reserve this number of bytes more for an upload. Raises StoreFull."""
        with self._lock:
            self._check(max(0, more))
            self._reserved += more

    def release(self, size: int) -> None:
        """Give back reserved bytes: they are written, or they will not come."""
        with self._lock:
            self._reserved -= size


class SpaceReservation:
    """The space that is reserved for one upload: what it has announced and not yet written."""

    def __init__(self, room: UploadSpace) -> None:
        self._room = room
        self.left = 0

    def grow_to(self, size: int) -> None:
        """Reserve at least this number of bytes. Raises StoreFull, also if the disk has become full."""
        more = max(0, size - self.left)
        self._room.reserve(more)
        self.left += more

    def written(self, size: int) -> None:
        """Note that this number of bytes is on the disk, and so is subtracted from the free space already."""
        size = min(size, self.left)
        self.left -= size
        self._room.release(size)
