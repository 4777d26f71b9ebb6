"""The assembler: journal -> framing -> assembly -> catalog.

One thread assembles the journal's messages in the journal's order. It writes checkpoints to the catalog. Each one holds
the journal position that it includes. At the start the journal is replayed from there (`recover`), which gives the same
state. A checkpoint is made when there is nothing more to do, or after `CHECKPOINT_SECONDS`.

When the catalog fails (a full disk, no connection to the database), the state in memory is dropped. The journal is
replayed once the catalog works again. Meanwhile the queue before this thread fills, and the brokers wait.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from threading import Event as StopSignal
from time import monotonic
from typing import Any, NamedTuple

from app.assembly.collecting import Address, ApplicationMessage, Attachment, Completed, Effect, Key, Refused, Repeated
from app.assembly.interpretation import (
    Answered,
    Consequence,
    Duplicate,
    Rejected,
    Unreadable,
    interpret,
)
from app.assembly.machine import Assembly, Limits
from app.codecs.sas import dialect
from app.framing.events import read_event
from app.model.attachment import AttachmentState
from app.model.errors import DamagedError, InvalidInputError
from app.model.event import Announced, Event, GroupPart, PartArrived, Pieces
from app.model.message import PhysicalMessage, Position
from app.model.records import (
    AttachmentRecord,
    Finished,
    MessageRecord,
    QuarantineCopy,
    QuarantineRecord,
    changed,
)
from app.observe import Recurring, logger
from app.service.context import Change, ServiceContext
from app.service.events import complete_messages, quarantine_event
from app.service.finishing.incremental import IncrementalReader
from app.service.finishing.parts import held_parts, segments_of, without_gone
from app.service.quarantine import quarantine_entry

CHECKPOINT_SECONDS = 0.25
QUEUED_BATCHES = 3
CHANGES_WAITING = 1000
"""The most changes that wait to be made. Beyond that the oldest is dropped, to be asked for again."""
RETRY_SECONDS = 0.5

_PARTS = (PartArrived, GroupPart)
_NO_PART = (Repeated, Refused, ApplicationMessage)
"""The effects of a part that is not taken as a new part."""

log = logger(__name__)


class _Work(NamedTuple):
    """Messages to assemble, in order."""

    messages: list[tuple[Position, PhysicalMessage]]


@dataclass(slots=True)
class _Unsaved:
    """The contents of the next checkpoint, apart from the machine's changes."""

    progress: int | None = None
    quarantine: list[QuarantineRecord] = field(default_factory=list)
    quarantine_copies: list[QuarantineCopy] = field(default_factory=list)
    dialects: dict[str, int] = field(default_factory=dict)
    completed: dict[str, Finished | None] = field(default_factory=dict)
    applications: list[Address] = field(default_factory=list)
    healed: list[str] = field(default_factory=list)


class _Messages(NamedTuple):
    """The message that was just applied, and the earlier ones that the journal still has."""

    context: ServiceContext
    at: int
    applied: PhysicalMessage

    def message(self, position: int) -> PhysicalMessage | None:
        """Return a message, as `app.assembly.interpretation.Messages`.

        An earlier message waited with an attachment. When that expired, the journal may have removed the message.
        """
        if position == self.at:
            return self.applied
        try:
            return self.context.journal.read(Position.unpack(position))
        except KeyError:
            log.warning("message_gone", position=position)
            return None
        except DamagedError as error:
            log.error("message_damaged", position=position, reason=str(error))  # noqa: TRY400 - a fault of the disk
            self.context.metrics.damage.labels("assembly").inc()
            return None

    def body(self, position: int) -> bytes | memoryview:
        """Return the body of a message, as `app.assembly.interpretation.Messages`."""
        if position == self.at:
            return self.applied.body
        try:
            (body,) = self.context.journal.bodies([Position.unpack(position)])
        except KeyError as gone:
            raise DamagedError("its journal segment is gone") from gone
        return body


class Assembler:
    """Passes messages to the assembly machine and carries out its effects."""

    def __init__(
        self,
        context: ServiceContext,
        finish: Callable[[Mapping[str, Finished | None]], None],
        finish_what_is_left: Callable[[], None] = lambda: None,
    ) -> None:
        self._context, self._finish, self._finish_what_is_left = context, finish, finish_what_is_left
        limits = context.settings.limits
        self._limits = Limits(limits.parts, limits.attachments_a_message)
        self._configured = {
            name: dialect.mask_of(dialect.Dialect.parse(source.dialect))
            for name, source in context.settings.sources.items()
            if source.dialect is not None
        }
        self._queue: Queue[_Work | None] = Queue(QUEUED_BATCHES)
        self._changes: deque[Change] = deque(maxlen=CHANGES_WAITING)
        self._stopping = StopSignal()
        self._dialects: dict[str, int] = {}
        self._incremental = IncrementalReader(context.journal)
        self._fault = Recurring(log, "assembly")
        self._forget()

    def put(self, positions: Sequence[Position], messages: Sequence[PhysicalMessage]) -> None:
        """Queue messages that the journal has written; wait while the queue is full.

        After `stop` nothing is queued: the journal has the messages.
        """
        work = _Work(list(zip(positions, messages, strict=True)))
        while not self._stopping.is_set():
            try:
                self._queue.put(work, timeout=RETRY_SECONDS)
            except Full:
                continue
            return

    def between(self, change: Change) -> None:
        """Have a change made between two messages, after everything before it is in the catalog."""
        self._changes.append(change)
        with suppress(Full):
            self._queue.put_nowait(_Work([]))

    def recover(self) -> int:
        """Replay the journal after the catalog's last checkpoint; return the number of messages."""
        progress = self._context.catalog.progress()
        self._dialects = {**self._context.catalog.source_dialects(), **self._configured}
        replayed = 0
        for positions, messages in self._context.journal.replay(
            None if progress is None else Position.unpack(progress)
        ):
            self._assemble(list(zip(positions, messages, strict=True)))
            self._save_if_due()
            replayed += len(positions)
        self.save()
        return replayed

    def run(self) -> None:
        """Assemble queued messages until `stop`, and then the messages that were queued before."""
        try:
            while not self._assemble_all():
                if not self._start_over():
                    return
        finally:
            self._incremental.close()

    def _assemble_all(self) -> bool:
        """Assemble queued messages until the end. Return False when something failed."""
        try:
            while (work := self._next()) is not None:
                while self._changes:
                    self._change(self._changes.popleft())
                if work.messages:
                    self._assemble(self._news(work.messages))
                    self._save_if_due()
            self.save()
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
            return False
        return True

    def check(self) -> dict[str, Any]:
        """Return the state of assembly for the health report."""
        return {"ok": self._fault.error is None, "error": self._fault.error}

    def stop(self) -> None:
        self._stopping.set()
        with suppress(Full):
            self._queue.put_nowait(None)

    def _change(self, change: Change) -> None:
        """Make a change. The changed attachments, and all messages (which are few), are then read from the catalog when
        needed."""
        self.save()
        for key in change():
            if (gone := self._assembly.attachments.pop(key, None)) is not None:
                self._incremental.leave(gone.record.id)
        self._assembly.messages.clear()

    def _next(self) -> _Work | None:
        try:
            return self._queue.get_nowait()
        except Empty:
            self.save()
            return None if self._stopping.is_set() else self._queue.get()

    def _news(self, messages: list[tuple[Position, PhysicalMessage]]) -> list[tuple[Position, PhysicalMessage]]:
        """Return the messages without those that a replay of the journal has brought before."""
        if messages[0][0].pack() > self._reached:
            return messages
        return [(position, message) for position, message in messages if position.pack() > self._reached]

    def _start_over(self) -> bool:
        """Replay the journal until that works. Return False when it did not work before `stop`.

        The last checkpoint may have been made, but not the steps after it. Finishing finds what was left.
        """
        while not self._stopping.wait(RETRY_SECONDS):
            self._forget()
            try:
                self.recover()
                self._finish_what_is_left()
            except Exception as error:  # noqa: BLE001 - `Recurring` logs it
                self._fault.failed(error)
            else:
                self._fault.worked()
                return True
        return False

    def _forget(self) -> None:
        self._assembly = Assembly(self._limits)
        self._incremental.forget()
        self._unsaved = _Unsaved()
        self._saved_at = monotonic()
        self._reached = -1

    # --- assembling -----------------------------------------------------------------------------------------------

    def _assemble(self, work: Sequence[tuple[Position, PhysicalMessage]]) -> None:
        if not work:
            return
        readable = [(at, message, event) for at, message in _packed(work) for event in self._events(at, message)]
        self._load(readable)
        apply = self._assembly.apply
        for at, message, event in readable:
            effects = apply(message.source, event, at, message.received_at)
            if effects and isinstance(effects[0], Repeated) and isinstance(event, _PARTS):
                key = (message.source, event.correl_id)
                if self._without_gone(key, effects[0].first):
                    effects = apply(message.source, event, at, message.received_at)
            if isinstance(event, _PARTS) and not (effects and isinstance(effects[0], _NO_PART)):
                self._read_incrementally(event, at, message)
            for effect in effects:
                self._carry_out(effect, at, message)
        self._incremental.let_go()
        self._reached = max(self._reached, work[-1][0].pack())
        self._unsaved.progress = self._reached

    def _events(self, at: int, message: PhysicalMessage) -> tuple[Event, ...]:
        """Return what a message means, mostly one event; what belongs in quarantine is put there."""
        try:
            event = self._read(message)
        except InvalidInputError as error:
            self._quarantine(at, message, error)
            return ()
        if not isinstance(event, Pieces):
            return (event,)
        if event.refused is not None:
            self._quarantine(at, message, InvalidInputError(*event.refused))
        return event.parts

    def _read_incrementally(self, part: PartArrived | GroupPart, at: int, message: PhysicalMessage) -> None:
        record = self._assembly.attachments[message.source, part.correl_id].record
        if isinstance(part, PartArrived):
            self._incremental.part(record, part.sequence, message, Position.unpack(at))
        else:
            self._incremental.group_part(record.id, part, self._context.described(message), Position.unpack(at))

    def _read(self, message: PhysicalMessage) -> Event | Pieces:
        known = self._dialects.get(message.source, dialect.ALL)
        event = read_event(self._context.described(message), known)
        if isinstance(event, Announced):
            self._remember(message.source, event.dialects)
        return event

    def _remember(self, source: str, dialects: int) -> None:
        """Record the dialects that a source's senders have in common. A sender that shares none starts anew."""
        if source in self._configured:
            return
        known = self._dialects.get(source, dialect.ALL)
        if (common := dialect.narrow(known, dialects)) != known:
            self._dialects[source] = self._unsaved.dialects[source] = common

    def _load(self, readable: Sequence[tuple[int, PhysicalMessage, Event]]) -> None:
        """Load the catalog's rows for the correlids of these events into the machine: attachments, then messages."""
        catalog, held, messages = self._context.catalog, self._assembly.attachments, self._assembly.messages
        wanted = _by_source(self._unknown_keys(readable))
        segments = segments_of(self._context.journal) if wanted else set()
        for source, correl_ids in wanted.items():
            for correl_id, record in catalog.attachments_by_key(source, correl_ids).items():
                held[source, correl_id] = self._held(record, segments)
        addresses = (self._assembly.address(message.source, event) for _, message, event in readable)
        unknown = (address for address in addresses if address is not None and address not in messages)
        for source, correl_ids in _by_source(unknown).items():
            for correl_id, found in catalog.messages_by_correl_id(source, correl_ids).items():
                messages[source, correl_id] = found

    def _unknown_keys(self, readable: Sequence[tuple[int, PhysicalMessage, Event]]) -> Iterator[Key]:
        held = self._assembly.attachments
        for _, message, event in readable:
            if not (isinstance(event, _PARTS) and (message.source, event.correl_id) in held):
                yield from (key for key in self._assembly.keys(message.source, event) if key not in held)

    def _held(self, record: AttachmentRecord, segments: set[int]) -> Attachment:
        """Return an attachment with the parts that the journal has. Parts that are gone may come again."""
        record, parts, _ = held_parts(record, self._context.catalog.part_runs(record.id), segments)
        return Attachment(record, parts)

    def _without_gone(self, key: Key, first: int | None) -> bool:
        """Remove from memory the parts of an attachment that the journal no longer has, if the one at `first` is among
        them.

        Return whether parts were removed, so that the same parts are taken when they come again.
        """
        held = self._assembly.attachments.get(key)
        if first is None or held is None or held.record.state is not AttachmentState.RECEIVING:
            return False
        segments = segments_of(self._context.journal)
        if Position.unpack(first).segment in segments:
            return False
        self._incremental.leave(held.record.id)
        held.record = without_gone(changed(held.record, group=held.group), held.parts, segments)
        if held.group is not None:
            held.group, held.bytes_received = None, 0
        held.duplicates -= 1
        return True

    # --- effects --------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect, at: int, message: PhysicalMessage) -> None:
        match effect:
            case Completed(attachment, parts):
                self._unsaved.completed[attachment] = self._incremental.take(attachment, parts)
            case _:
                self._carry_out_consequence(interpret(effect, _Messages(self._context, at, message)), message.source)

    def _carry_out_consequence(self, consequence: Consequence | None, source: str) -> None:
        match consequence:
            case Rejected(position, message, error):
                self._quarantine(position, message, error)
            case Duplicate(_, to_finish):
                self._context.metrics.duplicates.labels(source).inc()
                if to_finish is not None:
                    self._unsaved.healed.append(to_finish)
            case Unreadable(attachment, first, again, damage):
                self._heal(attachment, first, again, damage)
            case Answered(address, answer):
                self._assembly.set_application(address, answer)
                self._unsaved.applications.append(address)

    def _heal(self, attachment: str, first: int, again: int, error: DamagedError) -> None:
        """Replace a damaged part by the same part that came again."""
        self._incremental.leave(attachment)
        self._context.metrics.damage.labels("assembly").inc()
        is_to_finish = self._assembly.replace_part(attachment, first, again)
        log.warning("damaged_part_replaced", attachment=attachment, by=Position.unpack(again), reason=str(error))
        if is_to_finish:
            self._unsaved.healed.append(attachment)

    def _quarantine(self, position: int, message: PhysicalMessage, error: InvalidInputError) -> None:
        self._context.metrics.quarantined.labels(message.source, error.code).inc()
        record, copy = quarantine_entry(position, message, error)
        self._unsaved.quarantine.append(record)
        if copy is not None:
            self._unsaved.quarantine_copies.append(copy)

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def _save_if_due(self) -> None:
        if monotonic() - self._saved_at >= CHECKPOINT_SECONDS:
            self.save()

    def save(self) -> None:
        """Make a checkpoint of all changes, and pass complete attachments to finishing."""
        self._saved_at = monotonic()
        unsaved, self._unsaved = self._unsaved, _Unsaved()
        if unsaved.progress is None:
            return
        answered = [self._assembly.messages[address] for address in unsaved.applications]
        checkpoint = self._assembly.take_changes()
        checkpoint.progress = unsaved.progress
        checkpoint.quarantine = unsaved.quarantine
        checkpoint.quarantine_copies = unsaved.quarantine_copies
        checkpoint.source_dialects = unsaved.dialects
        checkpoint.events = [quarantine_event(record) for record in unsaved.quarantine]
        self._context.catalog.checkpoint(checkpoint)
        self._assembly.forget_beyond(self._context.settings.limits.attachments_in_memory)
        if unsaved.healed:
            self._context.catalog.set_state([*dict.fromkeys(unsaved.healed)], AttachmentState.COMPLETE)
            unsaved.completed.update(dict.fromkeys(unsaved.healed))
        if unsaved.completed:
            self._finish(unsaved.completed)
        self._complete_messages(answered)
        self._context.notifier.notify()

    def _complete_messages(self, answered: list[MessageRecord]) -> None:
        """Complete the messages whose application message has come and whose attachments are finished."""
        attachments = [attachment for message in answered for attachment in message.attachments]
        alone = [message.id for message in answered if not message.attachments]
        complete_messages(self._context.catalog, attachments, self._context.clock.now(), alone)


def _packed(work: Iterable[tuple[Position, PhysicalMessage]]) -> Iterator[tuple[int, PhysicalMessage]]:
    return ((position.pack(), message) for position, message in work)


def _by_source(keys: Iterable[Key]) -> dict[str, list[bytes]]:
    """Return correlids by their source, each once."""
    found: dict[str, dict[bytes, None]] = {}
    for source, correl_id in keys:
        found.setdefault(source, {})[correl_id] = None
    return {source: list(correl_ids) for source, correl_ids in found.items()}
