"""The queue between receivers and the journal: messages in memory that are not acknowledged yet.

It is bounded in bytes. A receiver that puts more waits, and so does its broker. All messages that have come meanwhile
are taken as one batch (group commit). Batches are begun, and acknowledged, in the order in which they are taken.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import Condition
from typing import NamedTuple

from app.model.message import MAX_ROWS_A_BATCH, PhysicalMessage
from app.observe import logger

BATCH_BYTES = 4 << 20

log = logger(__name__)


class BacklogEntry(NamedTuple):
    """Messages of one call of `Intake.submit`, and the bytes of memory that they take."""

    messages: Sequence[PhysicalMessage]
    size: int
    on_durable: Callable[[], None]
    source: str
    learned: Mapping[str, str]
    """What these messages have shown of how the senders of their source count."""


class BacklogBatch(NamedTuple):
    """Entries that are written together, and their place in the order of all batches."""

    number: int
    entries: list[BacklogEntry]

    @property
    def messages(self) -> list[PhysicalMessage]:
        return [message for entry in self.entries for message in entry.messages]


class Backlog:
    """Messages that wait for the journal, at most `limit` bytes. Any thread may call it.

    The lock of `_changed` guards all fields.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changed = Condition()
        self._waiting: deque[BacklogEntry] = deque()
        self._waits = 0, 0
        """The number of messages and bytes that wait to be taken."""
        self.bytes = self.messages = self._turned_away = 0
        """The bytes and the number of all messages that are not on disk, and of those that came after `stop`."""
        self.is_stopping = self._ended = False
        self._taken = self._begun = self._written = 0
        """The number of batches that were taken, of those whose writing was begun, and of those that were written. The
        last two count batches that were given up, too."""
        self.holding: str | None = None
        """The reason why nothing is received at present; None while all is well."""

    @property
    def unwritten(self) -> int:
        """The number of messages that were put and are not in the journal. After the end they never will be."""
        return self.messages + self._turned_away

    def put(self, entry: BacklogEntry) -> None:
        """Queue messages; wait while the backlog is full. After `stop`, drop them."""
        size, number = entry.size, len(entry.messages)
        with self._changed:
            while self.bytes and self.bytes + size > self._limit and not self.is_stopping:
                self._changed.wait()
            if self.is_stopping:
                self._turned_away += number
                return
            self._waiting.append(entry)
            self._waits = self._waits[0] + number, self._waits[1] + size
            self.bytes += size
            self.messages += number
            self._changed.notify_all()

    def await_batch(self, seconds: float) -> bool:
        """Wait until `take` need not wait. Return False if that took longer."""
        with self._changed:
            return self._changed.wait_for(self._is_due, seconds)

    def _is_due(self) -> bool:
        if self._ended or self.is_stopping or _is_full(*self._waits):
            return True
        return bool(self._waiting) and self._taken == self._written

    def take(self) -> BacklogBatch | None:
        """Return the next batch; None at the end. A batch that is not full is taken only when no other is written."""
        with self._changed:
            self._changed.wait_for(self._is_due)
            if self._ended or not self._waiting:
                return None
            batch = BacklogBatch(self._taken, [])
            self._taken += 1
            rows = size = 0
            while self._waiting and not _is_full(rows, size):
                entry = self._waiting.popleft()
                batch.entries.append(entry)
                rows, size = rows + len(entry.messages), size + entry.size
            self._waits = self._waits[0] - rows, self._waits[1] - size
            return batch

    def await_turn(self, batch: BacklogBatch) -> bool:
        """Wait until the batches before this one are begun. Return False if one of them could not be."""
        with self._changed:
            self._changed.wait_for(lambda: self._begun == batch.number)
            return not self._ended

    def pass_turn(self, *, is_begun: bool) -> None:
        """Let the next batch be begun. After one that could not be, none is."""
        with self._changed:
            self._ended = self._ended or not is_begun
            self._begun += 1
            self._changed.notify_all()

    def await_written(self, batch: BacklogBatch) -> bool:
        """Wait until the batches before this one are written. Return False if one of them could not be."""
        with self._changed:
            self._changed.wait_for(lambda: self._written == batch.number)
            return not self._ended

    def release(self, batch: BacklogBatch) -> None:
        """Make room for more messages, as the messages of a batch are on disk."""
        with self._changed:
            self.bytes -= sum(entry.size for entry in batch.entries)
            self.messages -= sum(len(entry.messages) for entry in batch.entries)
            self._changed.notify_all()

    def end(self, batch: BacklogBatch, *, is_written: bool) -> None:
        """Let the next batch be acknowledged. After one that could not be written, none is."""
        with self._changed:
            self._changed.wait_for(lambda: self._written == batch.number)
            self._ended = self._ended or not is_written
            self._written += 1
            self._changed.notify_all()

    def hold(self, why: str | None) -> None:
        """Set the reason why nothing is received at present."""
        with self._changed:
            if (why is None) != (self.holding is None):
                if why is None:
                    log.info("receiving_resumed")
                else:
                    log.error("receiving_paused", reason=why)
            self.holding = why

    def pause(self, seconds: float) -> bool:
        """Wait before the next attempt to write. Return True after `stop`."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_stopping, seconds)

    def stop(self) -> None:
        """Take no more messages. What waits is written, or given up when it cannot be."""
        with self._changed:
            self.is_stopping = True
            self._changed.notify_all()


def _is_full(rows: int, size: int) -> bool:
    return rows >= MAX_ROWS_A_BATCH or size >= BATCH_BYTES
