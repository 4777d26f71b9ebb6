"""What was appended last, still in memory as it came."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from adapters.arrow_journal.columns import BodyLayout, Bytes

RECENT_BYTES = 40 << 20
"""An attachment is usually finished while its parts are that fresh, and then nothing is read from disk for it."""


class Recent:
    """The bodies of the last batches, by segment and batch, with where they lie in the file."""

    def __init__(self) -> None:
        self._batches: OrderedDict[tuple[int, int], tuple[BodyLayout, Sequence[Bytes]]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def add(self, segment: int, batch: int, layout: BodyLayout, bodies: Sequence[Bytes]) -> None:
        with self._lock:
            self._batches[segment, batch] = layout, bodies
            self._size += layout.offsets[-1]
            while self._size > RECENT_BYTES:
                _, (dropped, _) = self._batches.popitem(last=False)
                self._size -= dropped.offsets[-1]

    def get(self, segment: int, batch: int) -> tuple[BodyLayout, Sequence[Bytes]] | None:
        return self._batches.get((segment, batch))

    def forget(self, segment: int) -> None:
        """Forgets a segment that is no more."""
        with self._lock:
            for key in [key for key in self._batches if key[0] == segment]:
                dropped, _ = self._batches.pop(key)
                self._size -= dropped.offsets[-1]
