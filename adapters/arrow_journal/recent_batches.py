"""The batches that were appended last: their layouts, and for the newest the bodies themselves."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from adapters.arrow_journal.batch_columns import BodyLayout, Bytes

RECENT_BYTES = 16 << 20
"""The size of the bodies that are kept. An attachment is usually finished while its parts are among them, and then
needs no disk read."""
BODY_BYTES = 2048
"""Memory that a body takes in addition to its bytes."""
LAYOUTS = 1024

Batch = tuple[int, int]
"""The number of a segment and of a batch in it."""


class Recent:
    """The layouts of the last batches, and the bodies of the newest ones. The lock guards all fields."""

    def __init__(self) -> None:
        self._layouts: OrderedDict[Batch, BodyLayout] = OrderedDict()
        self._bodies: OrderedDict[Batch, Sequence[Bytes]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def add(self, batch: Batch, layout: BodyLayout, bodies: Sequence[Bytes]) -> None:
        with self._lock:
            self._layouts[batch], self._bodies[batch] = layout, bodies
            self._size += _size(bodies)
            while self._size > RECENT_BYTES:
                _, oldest = self._bodies.popitem(last=False)
                self._size -= _size(oldest)
            while len(self._layouts) > LAYOUTS:
                self._layouts.popitem(last=False)

    def layout(self, batch: Batch) -> BodyLayout | None:
        return self._layouts.get(batch)

    def body(self, batch: Batch, row: int) -> memoryview | None:
        bodies = self._bodies.get(batch)
        return None if bodies is None or row >= len(bodies) else memoryview(bodies[row]).toreadonly()

    def forget(self, segment: int) -> None:
        """Drop a deleted segment."""
        with self._lock:
            for batch in [batch for batch in {*self._layouts, *self._bodies} if batch[0] == segment]:
                self._layouts.pop(batch, None)
                self._size -= _size(self._bodies.pop(batch, ()))


def _size(bodies: Sequence[Bytes]) -> int:
    return sum(map(len, bodies)) + BODY_BYTES * len(bodies)
