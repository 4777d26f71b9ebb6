"""The threads that write the journal: backlog -> journal -> acknowledgement, and then assembly.

A batch is written and flushed once. Only then, and after those before it, may the receivers acknowledge its messages.
When the disk has less free space than the limit, or the journal cannot be written, messages wait in the backlog and are
tried again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock
from time import perf_counter
from typing import NamedTuple, TypeVar

from app.model.errors import GatewayError, JournalTaken
from app.model.message import PhysicalMessage, Position, footprint
from app.observe import Recurring, logger
from app.ports import Prepared
from app.service.context import WriterContext
from app.service.receiving.backlog import Backlog, BacklogBatch, BacklogEntry

LARGEST_APPEND = 64 << 20
"""The most bytes of messages in one call of the journal. A batch's properties are one column of texts, which may hold 2
GiB."""
RETRY_SECONDS = 0.5

T = TypeVar("T")

log = logger(__name__)


class _Piece(NamedTuple):
    """Messages that one append of the journal writes. They are `prepared` for it, if that was possible."""

    messages: Sequence[PhysicalMessage]
    prepared: Prepared | None = None


class _Append(NamedTuple):
    """Messages whose place in the journal is fixed since `begun_at`, and what waits until they are durable."""

    messages: Sequence[PhysicalMessage]
    await_durable: Callable[[], list[Position]]
    begun_at: float


class JournalWriter:
    """Writes the batches of the backlog, and passes written messages to `forward`.

    One thread more than there may be appends (`WritableJournal.most_appends`) call `run`: while the others wait for the
    disk or the store, it encodes the next batch, if that is full already. `_saving` guards `_learned`, and lets one
    thread at a time save it.
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
        self._saving, self._learning = Lock(), Recurring(log, "learning")

    def run(self) -> None:
        """Write until the backlog is stopped, and then what is left in it."""
        while (batch := self._next()) is not None:
            self.write(batch)
        self._learn([])

    def _next(self) -> BacklogBatch | None:
        """Return the next batch; None at the end. Until it comes, try again to save what has been learnt."""
        while self._learned and not self._backlog.await_batch(RETRY_SECONDS):
            self._learn([])
        return self._backlog.take()

    def write(self, batch: BacklogBatch) -> None:
        """Encode a batch, and write it after those before it."""
        pieces = []
        for messages in _pieces(batch):
            try:
                pieces.append(_Piece(messages, self._journal.prepare(messages)))
            except Exception:  # noqa: BLE001 - writing them finds the message that is at fault
                pieces.append(_Piece(messages))
        appends, is_written = None, False
        try:
            try:
                if self._backlog.await_turn(batch):
                    appends = self._begin_all(pieces)
            finally:
                self._backlog.pass_turn(is_begun=appends is not None)
            if appends is not None:
                is_written = self._finish(batch, appends)
        finally:
            self._backlog.end(batch, is_written=is_written)

    def _finish(self, batch: BacklogBatch, appends: list[_Append]) -> bool:
        """Acknowledge a batch when it and those before it are durable. Return False if one of them could not be
        written."""
        positions: list[Position] = []
        for append in appends:
            while (durable := self._attempt(append.await_durable)) is None:
                if self._backlog.pause(RETRY_SECONDS):
                    return False
            self._metrics.journal_append_seconds.observe(perf_counter() - append.begun_at)
            positions += durable
        if not self._backlog.await_written(batch):
            return False
        self._backlog.hold(None)
        for entry in batch.entries:
            try:
                entry.on_durable()
            except Exception:
                log.exception("acknowledgement_failed")
        self._backlog.release(batch)
        messages = [message for append in appends for message in append.messages]
        by_source: dict[str, list[int]] = {}
        for message in messages:
            by_source.setdefault(message.source, []).append(len(message.body))
        for source, sizes in by_source.items():
            self._metrics.count_received(source, len(sizes), sum(sizes))
        self._forward(positions, messages)
        self._learn(batch.entries)
        return True

    def _learn(self, entries: Iterable[BacklogEntry]) -> None:
        """Save what messages that are durable now have shown, and what the catalog could not take before."""
        with self._saving:
            for entry in entries:
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

    def _begin_all(self, pieces: Iterable[_Piece]) -> list[_Append] | None:
        """Begin to write messages in order. Return None after the backlog was stopped."""
        appends: list[_Append] = []
        for piece in pieces:
            if (begun := self._begin(piece)) is None:
                return None
            appends += begun
        return appends

    def _begin(self, piece: _Piece) -> list[_Append] | None:
        """Begin to write messages as soon as that works. Return None after the backlog was stopped.

        No message stops the others. Messages that the journal cannot write are halved until the faulty one is found. As
        much of that one as possible is written, for quarantine.
        """
        while True:
            try:
                append = self._begun(piece)
            except Exception as error:  # noqa: BLE001 - logged with the message that is at fault
                if len(piece.messages) == 1:
                    return self._begin_bare(piece.messages[0], error)
                middle = len(piece.messages) // 2
                return self._begin_all([_Piece(piece.messages[:middle]), _Piece(piece.messages[middle:])])
            if append is not None:
                return [append]
            if self._backlog.pause(RETRY_SECONDS):
                return None

    def _begin_bare(self, message: PhysicalMessage, error: Exception) -> list[_Append] | None:
        """Begin to write a message that could not be written: unchanged if that works now, or else a part of it."""
        why = f"the journal cannot write it: {type(error).__name__}: {str(error).partition(chr(10))[0][:500]}"
        source, framing, received_at = message.source, message.framing, message.received_at
        bare = [PhysicalMessage(source, framing, body=body, received_at=received_at) for body in (message.body, b"")]
        forms = [message, *(each.unreadable("unwritable", why) for each in bare)]
        while True:
            for form in forms:
                with suppress(Exception):
                    if (append := self._begun(_Piece([form]))) is not None:
                        if form is not message:
                            log.error("message_not_written", source=source, reason=why, exc_info=error)
                        return [append]
            self._backlog.hold(self._backlog.holding or why)
            if self._backlog.pause(RETRY_SECONDS):
                return None

    def _begun(self, piece: _Piece) -> _Append | None:
        """Begin to write messages. Return None if there is no room for them, or if the journal cannot be written."""
        if (free := self._journal.free_bytes()) < self._free_bytes:
            self._backlog.hold(f"{free} bytes are free for the journal, limits.free_bytes asks for {self._free_bytes}")
            return None
        begun_at = perf_counter()
        await_durable = self._attempt(partial(self._journal.begin_append, *piece))
        return None if await_durable is None else _Append(piece.messages, await_durable, begun_at)

    def _attempt(self, write: Callable[[], T]) -> T | None:
        """Return the result of `write`, or None if the journal cannot be written. Then nothing is received."""
        try:
            return write()
        except JournalTaken as error:
            self._backlog.hold(str(error))
            self._backlog.stop()
        except GatewayError as error:
            self._backlog.hold(str(error))
        return None


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
