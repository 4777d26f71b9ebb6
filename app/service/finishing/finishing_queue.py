"""The queue of complete attachments that wait to be finished.

It is bounded. While it is full, assembly waits, so that the journal's queue fills and the brokers wait. Attachments
that an earlier process left complete are in the catalog. They are fetched page by page when there is room.
"""

from collections import deque
from collections.abc import Collection, Mapping
from threading import Condition
from time import monotonic
from typing import NamedTuple

from app.model.records import AttachmentRecord
from app.ports import Catalog
from app.service.finishing.stored_parts import CompleteAttachment

QUEUED = 4096
"""The most complete attachments that may wait. While the queue is full, assembly waits too."""
FETCHED = 512
"""The number of complete attachments that are fetched from the catalog at once."""
AT_ONCE = 256
"""The most attachments that are taken together."""


class _Waiting(NamedTuple):
    id: str
    complete: CompleteAttachment | None
    since: float


class FinishingQueue:
    """Complete attachments that wait, by identifier, with what assembly knows of them.

    The lock of `_changed` guards all fields but the catalog.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._changed = Condition()
        self._queue: deque[_Waiting] = deque()
        self._fetched: deque[_Waiting] = deque()
        self._is_fetched_next = False
        self._must_search = False
        """Whether the catalog may have complete attachments that are not queued."""
        self._searched_up_to: AttachmentRecord | None = None
        self.is_open = self.is_stopping = False

    def __len__(self) -> int:
        return len(self._queue) + len(self._fetched)

    @property
    def oldest_seconds(self) -> float:
        """The seconds for which the oldest attachment has waited."""
        with self._changed:
            firsts = [queue[0].since for queue in (self._queue, self._fetched) if queue]
            return monotonic() - min(firsts) if firsts else 0.0

    def put(self, complete: Mapping[str, CompleteAttachment | None]) -> None:
        """Queue complete attachments; wait while the queue is full.

        Nothing empties a queue that is not open. Attachments that are not queued then are found in the catalog.
        """
        for attachment_id, known in complete.items():
            with self._changed:
                self._changed.wait_for(lambda: len(self._queue) < QUEUED or not self.is_open or self.is_stopping)
                if len(self._queue) >= QUEUED or self.is_stopping:
                    self._must_search, self._searched_up_to = True, None
                    return
                self._queue.append(_Waiting(attachment_id, known, monotonic()))
                self._changed.notify_all()

    def search(self) -> None:
        """Have the catalog searched for complete attachments, from its start."""
        with self._changed:
            self._must_search, self._searched_up_to = True, None
            self._changed.notify_all()

    def open(self) -> None:
        """Begin to empty the queue: `take` is called again and again until `close`."""
        with self._changed:
            self.is_open = True

    def close(self) -> None:
        with self._changed:
            self.is_open = False
            self._changed.notify_all()

    def stop(self) -> None:
        """End all waiting."""
        with self._changed:
            self.is_stopping = True
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Wait, unless the queue is being stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_stopping, seconds)

    def take(self, failed: Collection[str], longest: float | None) -> dict[str, CompleteAttachment | None]:
        """Return the next waiting attachments, after at most `longest` seconds; none when the caller should look for
        other work. Those that have `failed` are not fetched from the catalog. Raises what the catalog raises."""
        with self._changed:
            if not self._queue and not self._fetched and not self._must_search:
                self._changed.wait_for(lambda: self._queue or self._must_search or self.is_stopping, longest)
            after = self._searched_up_to
            if self._fetched or not self._must_search:
                # Fetched and new attachments take turns, so that neither waits for the end of the other.
                self._is_fetched_next = not self._is_fetched_next
                queues = (self._fetched, self._queue) if self._is_fetched_next else (self._queue, self._fetched)
                queue = queues[0] or queues[1]
                self._changed.notify_all()
                taken = [queue.popleft() for _ in range(min(AT_ONCE, len(queue)))]
                return {each.id: each.complete for each in taken}
            self._must_search = False
        try:
            page = self._catalog.complete_attachments(FETCHED, after)
        except Exception:
            with self._changed:
                self._must_search = True
            raise
        now = monotonic()
        with self._changed:
            known = {*failed, *(each.id for each in self._queue)}
            self._fetched.extend(_Waiting(record.id, None, now) for record in page if record.id not in known)
            if len(page) == FETCHED and not self._must_search:
                self._must_search, self._searched_up_to = True, page[-1]
        return {}
