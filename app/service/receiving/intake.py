"""The intake: transport -> journal -> acknowledgement.

Every receiver hands its messages to one `Journaler`. It takes all messages that have come meanwhile (group commit),
writes and flushes them once, and only then lets the receivers acknowledge. Written messages go on to assembly,
if that is in this process.

The backlog is bounded in bytes. A receiver that submits more waits, and so does its broker. When the disk has less free
space than the limit, or the journal cannot be written, messages wait here unacknowledged and are tried again.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Condition
from time import monotonic, perf_counter
from types import MappingProxyType
from typing import NamedTuple

from app.framing.arrivals import ArrivalsBySource
from app.framing.protocol import ArrivalOptions
from app.model.errors import GatewayError, JournalTaken
from app.model.message import (
    MAX_ROWS_A_BATCH,
    PhysicalMessage,
    Position,
    footprint,
    limited_properties,
    properties_length,
)
from app.observe import Recurring, logger
from app.ports import Prepared
from app.service.context import ServiceContext

log = logger(__name__)

BATCH_BYTES = 4 << 20
MESSAGE_BYTES = 2048
"""The memory of a physical message apart from its body and its properties, in bytes. The backlog counts it, so that
many small messages cannot fill memory."""
LARGEST_APPEND = 64 << 20
"""The most bytes of messages in one call of the journal. A batch's properties are one column of texts, which may hold 2
GiB."""
ROOM_CHECK_SECONDS = 0.5
RETRY_SECONDS = 0.5

_NOTHING_LEARNED: Mapping[str, str] = MappingProxyType({})

Forward = Callable[[list[Position], Sequence[PhysicalMessage]], None]


class _Submission(NamedTuple):
    messages: Sequence[PhysicalMessage]
    size: int
    on_durable: Callable[[], None]
    source: str
    learned: Mapping[str, str]
    """What these messages have shown of how the senders of their source count."""


class _Stored(NamedTuple):
    """Messages as the journal has them."""

    positions: list[Position]
    messages: Sequence[PhysicalMessage]


class _Batch(NamedTuple):
    """Submissions that are written together, and their place in the order of all batches."""

    number: int
    submissions: list[_Submission]

    @property
    def messages(self) -> list[PhysicalMessage]:
        return [message for submission in self.submissions for message in submission.messages]


class _Piece(NamedTuple):
    """Messages that one call of the journal writes. They are `prepared` for it, if that was possible."""

    messages: Sequence[PhysicalMessage]
    prepared: Prepared | None = None


class Journaler:
    """The intake of all receivers. Written messages go on to `forward`.

    Two threads call `run`: while one waits for the disk, the other encodes the next batch, if that is full already.
    Batches are written in the order in which they were taken.
    """

    def __init__(self, context: ServiceContext, forward: Forward = lambda _positions, _messages: None) -> None:
        self._journal, self._metrics, self._limits = context.journal, context.metrics, context.settings.limits
        self._forward = forward
        self.arrivals = ArrivalsBySource(partial(_arrival_options, context))
        self._catalog = context.catalog
        self._learned: dict[str, dict[str, str]] = {}
        """What has been learnt of sources and is not in the catalog yet."""
        self._learning = Recurring(log, "learning")
        self._waiting: deque[_Submission] = deque()
        self._waits = 0, 0
        """The number of messages and bytes that wait to be taken."""
        self._changed = Condition()
        self._bytes = self._messages = self._turned_away = 0
        self._stopping = self._ended = False
        self._taken = self._written = 0
        """The number of batches that were taken, and of those that were written or given up."""
        self._room_checked = 0.0
        self.holding: str | None = None
        """The reason why nothing is received at present; None while all is well."""
        self._metrics.backlog_bytes.set_function(lambda: self._bytes)
        self._metrics.backlog_messages.set_function(lambda: self._messages)
        self._metrics.taking.set_function(lambda: self.holding is None)

    @property
    def unwritten(self) -> int:
        """The number of messages that were handed over and are not in the journal. After the end they never will be."""
        return self._messages + self._turned_away

    def submit(
        self, messages: Sequence[PhysicalMessage], on_durable: Callable[[], None], *, again: bool = False
    ) -> None:
        """Take messages, as `app.ports.Intake.submit` says. Messages that do not say what they belong to are numbered
        here, in the order in which their source hands them over. Those that are journalled again keep their numbers."""
        source, learned = messages[0].source, _NOTHING_LEARNED
        if again:
            messages = [message.replayed() for message in messages]
        elif (numbered := self.arrivals.numbered(messages)) is not messages:
            messages, learned = numbered, self.arrivals.take_learned(source)
        if any(message.properties for message in messages):
            messages = [self._limited(message) if message.properties else message for message in messages]
        size = sum(map(footprint, messages)) + MESSAGE_BYTES * len(messages)
        with self._changed:
            while self._bytes and self._bytes + size > self._limits.backlog_bytes and not self._stopping:
                self._changed.wait()
            if self._stopping:
                self._turned_away += len(messages)
                return
            self._waiting.append(_Submission(messages, size, on_durable, source, learned))
            self._waits = self._waits[0] + len(messages), self._waits[1] + size
            self._bytes += size
            self._messages += len(messages)
            self._changed.notify_all()

    def refuse(self, message: PhysicalMessage, code: str, why: str, on_durable: Callable[[], None]) -> None:
        """Queue a message that cannot be read; see `app.ports.Intake.refuse`."""
        self.submit([message.unreadable(code, why)], on_durable)

    def _limited(self, message: PhysicalMessage) -> PhysicalMessage:
        """Return the message, or the part of it that goes to quarantine when its properties are too large."""
        length, limit = properties_length(message.properties), self._limits.properties_bytes
        if length <= limit:
            return message
        why = f"its properties take {length} bytes, and limits.properties_bytes allows {limit}; the first ones are kept"
        kept = limited_properties(message.properties, limit)
        return message._replace(properties=kept).unreadable("properties-too-large", why)

    def run(self) -> None:
        """Write until `stop`, and then the messages that were submitted before."""
        while (batch := self._take()) is not None:
            self._encode_and_write(batch)

    def stop(self) -> None:
        """Take no more messages. `run` returns when all taken messages are written, or at once when they cannot be."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def _take(self) -> _Batch | None:
        """Return the next batch; None at the end. A batch that is not full is taken only when no other is written."""
        with self._changed:
            while not (self._ended or self._stopping or self._may_take()):
                self._changed.wait()
            if self._ended or not self._waiting:
                return None
            batch = _Batch(self._taken, [])
            self._taken += 1
            rows = size = 0
            while self._waiting and not _is_full(rows, size):
                submission = self._waiting.popleft()
                batch.submissions.append(submission)
                rows, size = rows + len(submission.messages), size + submission.size
            self._waits = self._waits[0] - rows, self._waits[1] - size
            return batch

    def _may_take(self) -> bool:
        if self._taken == self._written:
            return bool(self._waiting)
        return _is_full(*self._waits)

    def _prepared(self, messages: Sequence[PhysicalMessage]) -> _Piece:
        try:
            return _Piece(messages, self._journal.prepare(messages))
        except Exception:  # noqa: BLE001 - writing them finds the message that is at fault
            return _Piece(messages)

    def _encode_and_write(self, batch: _Batch) -> None:
        """Encode a batch, and write it after those before it. After one that could not be written, none is."""
        pieces = [self._prepared(messages) for messages in _pieces(batch)]
        with self._changed:
            self._changed.wait_for(lambda: self._written == batch.number)
        ended = True
        try:
            ended = self._ended or not self._write(batch.submissions, pieces)
        finally:
            with self._changed:
                self._ended = ended
                self._written += 1
                self._changed.notify_all()

    def _write(self, batch: list[_Submission], pieces: list[_Piece]) -> bool:
        messages: list[PhysicalMessage] = []
        positions: list[Position] = []
        for piece in pieces:
            if (stored := self._store(piece)) is None:
                return False
            positions += stored.positions
            messages += stored.messages
        for submission in batch:
            try:
                submission.on_durable()
            except Exception:
                log.exception("acknowledgement_failed")
        with self._changed:
            self._bytes -= sum(submission.size for submission in batch)
            self._messages -= len(messages)
            self._changed.notify_all()
        self._count(messages)
        self._forward(positions, messages)
        self._learn(batch)
        return True

    def _learn(self, batch: list[_Submission]) -> None:
        """Save what messages that are durable now have shown. If the catalog cannot take it, the next batch tries."""
        for submission in batch:
            if submission.learned:
                self._learned.setdefault(submission.source, {}).update(submission.learned)
        try:
            while self._learned:
                source = next(iter(self._learned))
                self._catalog.learn_counting(source, self._learned[source])
                del self._learned[source]
                self._learning.worked()
        except GatewayError as error:
            self._learning.failed(error)

    def _store(self, piece: _Piece) -> _Stored | None:
        """Write messages until that works. Return None after `stop`.

        No message stops the others. Messages that the journal cannot write are halved until the faulty one is found. As
        much of that one as possible is written, for quarantine.
        """
        while True:
            try:
                positions = self._append(piece)
            except Exception as error:  # noqa: BLE001 - logged with the message that is at fault
                return self._store_apart(piece.messages, error)
            if positions is not None:
                return _Stored(positions, piece.messages)
            if self._pause():
                return None

    def _store_apart(self, messages: Sequence[PhysicalMessage], error: Exception) -> _Stored | None:
        if len(messages) == 1:
            return self._store_bare(messages[0], error)
        stored = _Stored([], [])
        middle = len(messages) // 2
        for half in (messages[:middle], messages[middle:]):
            if (part := self._store(_Piece(half))) is None:
                return None
            stored = _Stored(stored.positions + part.positions, [*stored.messages, *part.messages])
        return stored

    def _store_bare(self, message: PhysicalMessage, error: Exception) -> _Stored | None:
        """Write a message that could not be written: unchanged if that works now, or else a part of it."""
        why = f"the journal cannot write it: {type(error).__name__}: {str(error).partition(chr(10))[0][:500]}"
        while True:
            for form in (message, *_as_far_as_it_goes(message, why)):
                with suppress(Exception):
                    if (positions := self._append(_Piece([form]))) is not None:
                        if form is not message:
                            log.error("message_not_written", source=message.source, reason=why, exc_info=error)
                        return _Stored(positions, [form])
            self._hold(self.holding or why)
            if self._pause():
                return None

    def _pause(self) -> bool:
        """Wait before the next attempt. Return True after `stop`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._stopping, RETRY_SECONDS)

    def _append(self, piece: _Piece) -> list[Position] | None:
        if not self._has_room():
            return None
        started = perf_counter()
        try:
            positions = self._journal.append(*piece)
        except JournalTaken as error:
            self._hold(str(error))
            self.stop()
            return None
        except GatewayError as error:
            self._hold(str(error))
            return None
        self._metrics.journal_append_seconds.observe(perf_counter() - started)
        self._hold(None)
        return positions

    def _has_room(self) -> bool:
        now = monotonic()
        if self.holding is None and now - self._room_checked < ROOM_CHECK_SECONDS:
            return True
        self._room_checked = now
        free = self._journal.free_bytes()
        if free >= self._limits.free_bytes:
            return True
        self._hold(f"{free} bytes are free for the journal, limits.free_bytes asks for {self._limits.free_bytes}")
        return False

    def _hold(self, why: str | None) -> None:
        if (why is None) != (self.holding is None):
            if why is None:
                log.info("receiving_resumed")
            else:
                log.error("receiving_paused", reason=why)
        self.holding = why

    def _count(self, messages: Sequence[PhysicalMessage]) -> None:
        by_source: dict[str, list[int]] = {}
        for message in messages:
            by_source.setdefault(message.source, []).append(len(message.body))
        for source, sizes in by_source.items():
            self._metrics.count_received(source, len(sizes), sum(sizes))


def _arrival_options(context: ServiceContext, name: str) -> ArrivalOptions:
    """Return how the messages of a source are numbered: by what was learnt of it, and by its settings."""
    source, known = context.settings.sources.get(name), context.catalog.counting(name)
    if source is None:
        return ArrivalOptions(known)
    return ArrivalOptions(known, source.counts, source.on_doubt or "hold")


def _is_full(rows: int, size: int) -> bool:
    return rows >= MAX_ROWS_A_BATCH or size >= BATCH_BYTES


def _pieces(batch: _Batch) -> Iterator[list[PhysicalMessage]]:
    """Yield all messages of a batch, in lists of the size that one call of the journal should have."""
    piece: list[PhysicalMessage] = []
    size = 0
    for message in batch.messages:
        if piece and size > LARGEST_APPEND:
            yield piece
            piece, size = [], 0
        piece.append(message)
        size += footprint(message)
    yield piece


def _as_far_as_it_goes(message: PhysicalMessage, why: str) -> Iterator[PhysicalMessage]:
    """Yield a message without descriptor fields and properties, then one without its body, too."""
    for body in (message.body, b""):
        bare = PhysicalMessage(message.source, message.framing, body=body, received_at=message.received_at)
        yield bare.unreadable("unwritable", why)
