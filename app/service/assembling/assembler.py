"""The assembler: journal -> framing -> assembly -> catalog.

One thread assembles the journal's messages in the journal's order. It writes checkpoints to the catalog. Each one holds
the journal position that it includes. At the start the journal is replayed from there (`recover`), which gives the same
state. A checkpoint is made when there is nothing more to do, or after `CHECKPOINT_SECONDS`.

When the catalog fails (a full disk, no connection to the database), the state in memory is dropped. The journal is
replayed once the catalog works again. Meanwhile the queue before this thread fills, and the brokers wait.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from threading import Event as StopSignal
from time import monotonic
from typing import Any, NamedTuple

from app.assembly.collecting import (
    Address,
    ApplicationArrived,
    Completed,
    Effect,
    Identification,
    Key,
    Refused,
    Repeated,
    Warned,
)
from app.assembly.interpretation import Answered, Consequence, Duplicate, Rejected, Unreadable, interpret
from app.assembly.machine import Assembly, AssemblyLimits
from app.codecs.sas import dialect
from app.framing.message_events import FAILED, read_event
from app.framing.part_runs import MessageRun, runs_and_others
from app.model.attachment import AttachmentState
from app.model.errors import DamagedError, InvalidInputError
from app.model.event import Announced, Event, GroupPart, PartArrived, PartsArrived, Pieces
from app.model.message import PhysicalMessage, Position
from app.model.records import (
    AttachmentRecord,
    Checkpoint,
    Finished,
    MessageRecord,
    QuarantineCopy,
    QuarantineRecord,
    changed,
)
from app.observe import Recurring, logger
from app.service.assembling.applied_messages import AppliedMessages
from app.service.assembling.finished_in_checkpoint import close
from app.service.assembling.known_rows import Read, Step, load, load_messages
from app.service.assembling.repetitions import Repetitions
from app.service.context import Change, ServiceContext
from app.service.events.event_entries import (
    complete_messages,
    identified_event,
    lone_message_events,
    quarantine_event,
    warned_event,
)
from app.service.finishing.finisher import Complete
from app.service.finishing.incremental import Content, IncrementalReader
from app.service.finishing.stored_parts import segments_of, without_gone
from app.service.quarantine.quarantine_records import quarantine_entry

CHECKPOINT_SECONDS = 0.25
QUEUED_BATCHES = 3
AT_ONCE = 512
"""The number of messages from which on no more are assembled together."""
FEW = 8
"""The number of messages below which looking for runs of parts takes longer than reading each message."""
CHANGES_WAITING = 1000
"""The most changes that wait to be made. Beyond that the oldest is dropped, to be asked for again."""
RETRY_SECONDS = 0.5

_PARTS = (PartArrived, GroupPart)
_NO_PART = (Repeated, Refused, ApplicationArrived)
"""The effects of a part that is not taken as a new part."""

log = logger(__name__)


class _Work(NamedTuple):
    """Messages to assemble, in order."""

    positions: Sequence[Position]
    messages: Sequence[PhysicalMessage]


@dataclass(slots=True)
class _Unsaved:
    """The contents of the next checkpoint, apart from the machine's changes."""

    progress: int | None = None
    quarantine: list[QuarantineRecord] = field(default_factory=list)
    quarantine_copies: list[QuarantineCopy] = field(default_factory=list)
    dialects: dict[str, int] = field(default_factory=dict)
    completed: dict[str, Content | None] = field(default_factory=dict)
    applications: list[Address] = field(default_factory=list)
    identified: list[tuple[str, Identification]] = field(default_factory=list)
    healed: list[str] = field(default_factory=list)
    warned: list[tuple[str, Warned]] = field(default_factory=list)
    sent_again: list[Complete] = field(default_factory=list)


class Assembler:
    """Passes messages to the assembly machine and carries out its effects."""

    def __init__(
        self,
        context: ServiceContext,
        finish: Callable[[Mapping[str, Complete | None]], None],
        finish_what_is_left: Callable[[], None] = lambda: None,
        sent_again: Callable[[Complete], object] = lambda _complete: None,
        *,
        read_early: bool = True,
    ) -> None:
        """Pass complete attachments to `finish`, and finished ones that were sent again to `sent_again`.

        With `read_early`, files whose parts come in order are read as they come. A checkpoint finishes these.
        """
        self._read_early = read_early
        self._context, self._finish, self._finish_what_is_left = context, finish, finish_what_is_left
        limits = context.settings.limits
        self._limits = AssemblyLimits(limits.parts, limits.attachments_a_message)
        self._repetitions, self._sent_again = Repetitions(self._limits), sent_again
        self._configured = {
            name: dialect.mask_of(dialect.Dialect.parse(source.dialect))
            for name, source in context.settings.sources.items()
            if source.dialect is not None
        }
        self._queue: Queue[_Work | None] = Queue(QUEUED_BATCHES)
        self._changes: deque[Change] = deque(maxlen=CHANGES_WAITING)
        self._stopping = StopSignal()
        self._dialects: dict[str, int] = {}
        self._incremental = IncrementalReader(context)
        self._fault = Recurring(log, "assembly")
        self._forget()

    def put(self, positions: Sequence[Position], messages: Sequence[PhysicalMessage]) -> None:
        """Queue messages that the journal has written; wait while the queue is full.

        After `stop` nothing is queued: the journal has the messages.
        """
        work = _Work(positions, messages)
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
            self._queue.put_nowait(_Work([], []))

    def recover(self) -> int:
        """Replay the journal after the catalog's last checkpoint; return the number of messages."""
        progress = self._context.catalog.progress()
        self._dialects = {**self._context.catalog.source_dialects(), **self._configured}
        replayed = 0
        for positions, messages in self._context.journal.replay(
            None if progress is None else Position.unpack(progress)
        ):
            self._assemble(positions, messages)
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
                    self._assemble(*self._news(work))
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
        """Return all queued messages, at most about `AT_ONCE`; wait for the first. Return None after `stop`."""
        try:
            work = self._queue.get_nowait()
        except Empty:
            self.save()
            return None if self._stopping.is_set() else self._queue.get()
        if work is None or self._queue.empty():
            return work
        positions, messages = [*work.positions], [*work.messages]
        with suppress(Empty):
            while len(messages) < AT_ONCE and (more := self._queue.get_nowait()) is not None:
                positions += more.positions
                messages += more.messages
        return _Work(positions, messages)

    def _news(self, work: _Work) -> _Work:
        """Return the messages without those that a replay of the journal has brought before."""
        if work.positions[0].pack() > self._reached:
            return work
        new = [row for row, position in enumerate(work.positions) if position.pack() > self._reached]
        return _Work([work.positions[row] for row in new], [work.messages[row] for row in new])

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

    def _assemble(self, positions: Sequence[Position], messages: Sequence[PhysicalMessage]) -> None:
        """Assemble messages. Sequenced parts are taken together, and all others are read one by one."""
        if not messages:
            return
        places = [position.pack() for position in positions]
        steps: list[Step] = []
        for found in runs_and_others(messages) if len(messages) >= FEW else range(len(messages)):
            if isinstance(found, MessageRun):
                steps.append(found)
            else:
                at, message = places[found], messages[found]
                steps += [Read(at, message, event) for event in self._events(at, message)]
        unsure = load(steps, self._assembly, self._context)
        for step in steps:
            if isinstance(step, MessageRun):
                work = _Work([positions[row] for row in step.rows], [messages[row] for row in step.rows])
                self._apply_run(step, work, [places[row] for row in step.rows])
            elif self._apply(step):
                load_messages(unsure, self._assembly, self._context)
                unsure = []
        self._incremental.let_go()
        self._reached = max(self._reached, places[-1])
        self._unsaved.progress = self._reached

    def _apply_run(self, run: MessageRun, work: _Work, places: Sequence[int]) -> None:
        """Apply sequenced parts together, or one by one if one of them is not new. `places` are packed positions."""
        positions, messages = work
        sizes, times = [len(message.body) for message in messages], [message.received_at for message in messages]
        arrived = PartsArrived(run.correl_id, run.first, sizes, times)
        effects = self._assembly.take_parts(run.source, arrived, places)
        if effects is None:
            for number, (at, message, size) in enumerate(zip(places, messages, sizes, strict=True), run.first):
                self._apply(Read(at, message, PartArrived(run.correl_id, number, size)))
            return
        if self._read_early and not self._context.is_strict(run.source):
            record = self._assembly.attachments[run.source, run.correl_id].record
            self._incremental.parts(record, run.first, messages, positions)
        for effect in effects:
            self._carry_out(effect, places[-1], messages[-1])

    def _apply(self, read: Read) -> bool:
        """Apply one event. Return whether it is a header that was refused."""
        at, message, event = read
        effects = self._assembly.apply(message.source, event, at, message.received_at)
        if isinstance(event, _PARTS):
            repeated = effects[0] if effects and isinstance(effects[0], Repeated) else None
            if repeated is not None and repeated.attachment is not None:
                if self._without_gone((message.source, event.correl_id), repeated.first):
                    effects = self._assembly.apply(message.source, event, at, message.received_at)
                else:
                    self._take_again(message, event, at)
            is_new = not (effects and isinstance(effects[0], _NO_PART))
            if is_new and self._read_early and not self._context.is_strict(message.source):
                self._read_incrementally(event, at, message)
        for effect in effects:
            self._carry_out(effect, at, message)
        return isinstance(event, Announced) and any(isinstance(effect, Refused) for effect in effects)

    def _take_again(self, message: PhysicalMessage, part: PartArrived | GroupPart, at: int) -> None:
        """Note a part that came again."""
        record = self._assembly.attachments[message.source, part.correl_id].record
        if isinstance(part, PartArrived):
            self._context.repeated.add(record.id, part.sequence)
        if record.state is AttachmentState.FINISHED:
            again = self._repetitions.take(record, part, at, message.received_at)
            if again is not None:
                self._unsaved.sent_again.append(again)

    def _events(self, at: int, message: PhysicalMessage) -> tuple[Event, ...]:
        """Return what a message means, mostly one event; what belongs in quarantine is put there."""
        try:
            event = self._read(message)
        except InvalidInputError as error:
            if error.code == FAILED:
                cause = error.__cause__
                log.error("message_not_read", source=message.source, reason=error.why, exc_info=cause)  # noqa: TRY400
            self._quarantine(at, message, error)
            return ()
        if not isinstance(event, Pieces):
            return (event,)
        if event.refused is not None:
            self._quarantine(at, message, InvalidInputError(*event.refused))
        return event.parts

    def _read_incrementally(self, part: PartArrived | GroupPart, at: int, message: PhysicalMessage) -> None:
        record = self._assembly.attachments[message.source, part.correl_id].record
        position = Position.unpack(at)
        if isinstance(part, PartArrived):
            self._incremental.parts(record, part.sequence, [message], [position])
        else:
            self._incremental.group_part(record.id, part, message, position)

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
            case Completed(attachment, parts, had_strays):
                content = self._incremental.take(attachment, parts)
                self._unsaved.completed[attachment] = None if had_strays else content  # a stray may have been read
            case Warned():
                self._unsaved.warned.append((message.source, effect))
            case Identification():
                self._unsaved.identified.append((message.source, effect))
            case _:
                self._carry_out_consequence(
                    interpret(effect, AppliedMessages(self._context, at, message)), message.source
                )

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
        """Make a checkpoint of all changes, with the contents that have been read. Pass other complete attachments to
        finishing."""
        self._saved_at = monotonic()
        unsaved, self._unsaved = self._unsaved, _Unsaved()
        if unsaved.progress is None:
            return
        answered = [self._assembly.messages[address] for address in unsaved.applications]
        checkpoint = self._assembly.take_changes()
        checkpoint.progress = unsaved.progress
        checkpoint.attachments = self._context.traces.begun(checkpoint.attachments)
        checkpoint.quarantine = unsaved.quarantine
        checkpoint.quarantine_copies = unsaved.quarantine_copies
        checkpoint.source_dialects = unsaved.dialects
        now = self._context.clock.now()
        checkpoint.events = [quarantine_event(record) for record in unsaved.quarantine]
        checkpoint.warned = [warned_event(source, found, now) for source, found in unsaved.warned]
        checkpoint.events += lone_message_events(answered, now)
        checkpoint.identified = [identified_event(source, found, now) for source, found in unsaved.identified]
        closed = close(checkpoint, self._contents(unsaved, now), now)
        missed = self._context.catalog.checkpoint(checkpoint)
        self._assembly.forget_beyond(self._context.settings.limits.attachments_in_memory)
        finished = [record for record in closed.attachments if record.id not in missed]
        self._count(finished)
        ids_closed = {record.id for record in closed.attachments}
        to_finish = [each for each in unsaved.completed if each not in ids_closed]
        self._pass_on(to_finish, unsaved.healed, checkpoint)
        for again in unsaved.sent_again:
            self._sent_again(again)
        self._complete_messages(
            [record.id for record in finished if record.message_id not in closed.messages],
            _without_any_of(to_finish, [message for message in answered if message.id not in closed.messages]),
        )
        self._context.notifier.notify()

    def _contents(self, unsaved: _Unsaved, now: int) -> dict[str, Finished]:
        """Return the contents that have been read, as far as the journal still has them."""
        contents = {each: content(now) for each, content in unsaved.completed.items() if content is not None}
        segments = segments_of(self._context.journal) if contents else set()
        return {
            each: content
            for each, content in contents.items()
            if each not in unsaved.healed and all(extent.segment in segments for extent in content.extents)
        }

    def _pass_on(self, to_finish: Sequence[str], healed: Sequence[str], checkpoint: Checkpoint) -> None:
        """Pass complete attachments to finishing, with what is known of them, and those with a healed part."""
        waiting: dict[str, Complete | None] = dict.fromkeys(to_finish)
        for record in checkpoint.attachments if waiting else ():
            if record.id in waiting and record.state is AttachmentState.COMPLETE:
                waiting[record.id] = Complete.of(record, checkpoint.part_runs.get(record.id, []))
        if healed:
            self._context.catalog.set_state([*dict.fromkeys(healed)], AttachmentState.COMPLETE)
            waiting.update(dict.fromkeys(healed))
        if waiting:
            self._finish(waiting)

    def _count(self, finished: Iterable[AttachmentRecord]) -> None:
        kinds = Counter(record.kind.word if record.kind else "unknown" for record in finished)
        for kind, number in kinds.items():
            self._context.metrics.attachments.labels(AttachmentState.FINISHED, kind).inc(number)

    def _complete_messages(self, finished: list[str], answered: list[MessageRecord]) -> None:
        """Complete the messages whose application message has come and whose attachments are finished."""
        attachments = [*finished, *(attachment for message in answered for attachment in message.attachments)]
        complete_messages(self._context.catalog, attachments, self._context.clock.now())


def _without_any_of(to_finish: Collection[str], messages: Sequence[MessageRecord]) -> list[MessageRecord]:
    """Return the messages that have none of these attachments. Finishing completes the others, with their last one."""
    waiting = set(to_finish)
    return [message for message in messages if waiting.isdisjoint(message.attachments)]
