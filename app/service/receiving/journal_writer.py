"""The threads that write the journal: backlog -> journal -> acknowledgement, and then assembly.

A batch is written and flushed once. Only then may the receivers acknowledge its messages. When the disk has less free
space than the limit, or the journal cannot be written, messages wait in the backlog and are tried again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from time import monotonic, perf_counter
from typing import NamedTuple

from app.model.errors import GatewayError, JournalTaken
from app.model.message import PhysicalMessage, Position, footprint
from app.observe import Recurring, logger
from app.ports import Prepared
from app.service.context import WriterContext
from app.service.receiving.backlog import Backlog, BacklogBatch

LARGEST_APPEND = 64 << 20
"""The most bytes of messages in one call of the journal. A batch's properties are one column of texts, which may hold 2
GiB."""
ROOM_CHECK_SECONDS = 0.5
RETRY_SECONDS = 0.5

log = logger(__name__)


class _Stored(NamedTuple):
    """Messages as the journal has them."""

    positions: list[Position]
    messages: Sequence[PhysicalMessage]


class _Piece(NamedTuple):
    """Messages that one call of the journal writes. They are `prepared` for it, if that was possible."""

    messages: Sequence[PhysicalMessage]
    prepared: Prepared | None = None


class JournalWriter:
    """Writes the batches of the backlog, and passes written messages to `forward`.

    Two threads call `run`: while one waits for the disk, the other encodes the next batch, if that is full already.
    """

    def __init__(
        self,
        context: WriterContext,
        backlog: Backlog,
        forward: Callable[[Sequence[Position], Sequence[PhysicalMessage]], None],
    ) -> None:
        self._backlog, self._forward = backlog, forward
        self._journal, self._catalog, self._metrics = context.journal, context.catalog, context.metrics
        self._free_bytes = context.settings.limits.free_bytes
        self._learned: dict[str, dict[str, str]] = {}
        """What has been learnt of sources and is not in the catalog yet."""
        self._learning = Recurring(log, "learning")
        self._room_checked = 0.0

    def run(self) -> None:
        """Write until the backlog is stopped, and then what is left in it."""
        while (batch := self._backlog.take()) is not None:
            self.write(batch)

    def write(self, batch: BacklogBatch) -> None:
        """Encode a batch, and write it after those before it."""
        pieces = []
        for messages in _pieces(batch):
            try:
                pieces.append(_Piece(messages, self._journal.prepare(messages)))
            except Exception:  # noqa: BLE001 - writing them finds the message that is at fault
                pieces.append(_Piece(messages))
        is_written = False
        try:
            is_written = self._backlog.await_turn(batch) and self._write(batch, pieces)
        finally:
            self._backlog.pass_turn(is_written=is_written)

    def _write(self, batch: BacklogBatch, pieces: list[_Piece]) -> bool:
        messages: list[PhysicalMessage] = []
        positions: list[Position] = []
        for piece in pieces:
            if (stored := self._store(piece)) is None:
                return False
            positions += stored.positions
            messages += stored.messages
        for entry in batch.entries:
            try:
                entry.on_durable()
            except Exception:
                log.exception("acknowledgement_failed")
        self._backlog.release(batch)
        by_source: dict[str, list[int]] = {}
        for message in messages:
            by_source.setdefault(message.source, []).append(len(message.body))
        for source, sizes in by_source.items():
            self._metrics.count_received(source, len(sizes), sum(sizes))
        self._forward(positions, messages)
        self._learn(batch)
        return True

    def _learn(self, batch: BacklogBatch) -> None:
        """Save what messages that are durable now have shown. If the catalog cannot take it, the next batch tries."""
        for entry in batch.entries:
            if entry.learned:
                self._learned.setdefault(entry.source, {}).update(entry.learned)
        try:
            while self._learned:
                source = next(iter(self._learned))
                self._catalog.learn_counting(source, self._learned[source])
                del self._learned[source]
                self._learning.worked()
        except GatewayError as error:
            self._learning.failed(error)

    def _store(self, piece: _Piece) -> _Stored | None:
        """Write messages until that works. Return None after the backlog was stopped.

        No message stops the others. Messages that the journal cannot write are halved until the faulty one is found. As
        much of that one as possible is written, for quarantine.
        """
        while True:
            try:
                positions = self._append(piece)
            except Exception as error:  # noqa: BLE001 - logged with the message that is at fault
                if len(piece.messages) == 1:
                    return self._store_bare(piece.messages[0], error)
                stored = _Stored([], [])
                middle = len(piece.messages) // 2
                for half in (piece.messages[:middle], piece.messages[middle:]):
                    if (part := self._store(_Piece(half))) is None:
                        return None
                    stored = _Stored(stored.positions + part.positions, [*stored.messages, *part.messages])
                return stored
            if positions is not None:
                return _Stored(positions, piece.messages)
            if self._backlog.pause(RETRY_SECONDS):
                return None

    def _store_bare(self, message: PhysicalMessage, error: Exception) -> _Stored | None:
        """Write a message that could not be written: unchanged if that works now, or else a part of it."""
        why = f"the journal cannot write it: {type(error).__name__}: {str(error).partition(chr(10))[0][:500]}"
        source, framing, received_at = message.source, message.framing, message.received_at
        bare = [PhysicalMessage(source, framing, body=body, received_at=received_at) for body in (message.body, b"")]
        forms = [message, *(each.unreadable("unwritable", why) for each in bare)]
        while True:
            for form in forms:
                with suppress(Exception):
                    if (positions := self._append(_Piece([form]))) is not None:
                        if form is not message:
                            log.error("message_not_written", source=source, reason=why, exc_info=error)
                        return _Stored(positions, [form])
            self._backlog.hold(self._backlog.holding or why)
            if self._backlog.pause(RETRY_SECONDS):
                return None

    def _append(self, piece: _Piece) -> list[Position] | None:
        """Write messages. Return None if there is no room for them, or if the journal cannot be written."""
        if not self._has_room():
            return None
        started = perf_counter()
        try:
            positions = self._journal.append(*piece)
        except JournalTaken as error:
            self._backlog.hold(str(error))
            self._backlog.stop()
            return None
        except GatewayError as error:
            self._backlog.hold(str(error))
            return None
        self._metrics.journal_append_seconds.observe(perf_counter() - started)
        self._backlog.hold(None)
        return positions

    def _has_room(self) -> bool:
        now = monotonic()
        if self._backlog.holding is None and now - self._room_checked < ROOM_CHECK_SECONDS:
            return True
        self._room_checked = now
        free = self._journal.free_bytes()
        if free >= self._free_bytes:
            return True
        self._backlog.hold(f"{free} bytes are free for the journal, limits.free_bytes asks for {self._free_bytes}")
        return False


def _pieces(batch: BacklogBatch) -> Iterator[list[PhysicalMessage]]:
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
