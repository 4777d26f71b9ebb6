"""The assembler: journal -> framing -> assembly -> catalog.

Messages are assembled in the journal's order. Checkpoints go to the catalog, and each one holds the journal position
that it includes. At the start the journal is replayed from there (`recover`), which gives the same state.
"""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import NamedTuple

from app.assembly.collecting import (
    ApplicationArrived,
    Completed,
    Discarded,
    Effect,
    Identification,
    Key,
    Refused,
    Repeated,
    TrackedAttachment,
    Warned,
)
from app.assembly.interpretation import Answered, Consequence, Duplicate, Rejected, Unreadable, interpret
from app.assembly.machine import Assembly, AssemblyLimits
from app.assembly.part_places import Parts
from app.codecs.missing_parts.request_documents import PartsGone, read_document
from app.codecs.sas import dialect
from app.framing.message_events import FAILED, is_answer, is_answered, read_event
from app.framing.part_runs import MessageRun, runs_and_others
from app.model.attachment import AttachmentState
from app.model.errors import DamagedError, InvalidInputError
from app.model.event import Announced, Event, GroupPart, PartArrived, PartsArrived, Pieces, RangePart
from app.model.message import PhysicalMessage, Position
from app.model.records import AttachmentRecord, changed
from app.observe import logger
from app.service.assembling.answering import HeardMessage
from app.service.assembling.checkpoint_writer import CheckpointWriter, Finish, Unsaved
from app.service.assembling.known_rows import ReadMessage, Step, load, load_messages
from app.service.context import Change, ServiceContext
from app.service.finishing.incremental import IncrementalReader
from app.service.finishing.stored_parts import CompleteAttachment, HeldSegments, begun, without_gone
from app.service.quarantine.quarantine_records import quarantine_entry
from app.wire import WireError

CHECKPOINT_SECONDS = 0.25
REPETITIONS = 1000
"""The most attachments whose repetitions are kept. The one that got a part longest ago is dropped first."""
FEW = 8
"""The number of messages below which looking for runs of parts takes longer than reading each message."""

_PARTS = (PartArrived, GroupPart, RangePart)
_NO_PART = (Repeated, Refused, ApplicationArrived)
"""The effects of a part that is not taken as a new part."""

log = logger(__name__)


class _Messages(NamedTuple):
    """The messages that an effect may need: the one that was just applied, and earlier ones that the journal has."""

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
            log.warning("message_not_found", position=position)
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


class Repetitions:
    """Repetitions of finished attachments that are not complete yet: the parts that have come again, put together by a
    machine of their own.

    The parts of a finished attachment are forgotten, so that each message of it is a duplicate. But its content may be
    damaged since. So the places of the repeated parts are kept, in memory only, until all of them have come again: then
    the content can be compared, and replaced by the repetition where it is damaged (`app.service.repair.healing`).
    """

    def __init__(self, limits: AssemblyLimits) -> None:
        self._assembly = Assembly(limits)

    def take(
        self, record: AttachmentRecord, part: PartArrived | GroupPart | RangePart, position: int, received_at: int
    ) -> CompleteAttachment | None:
        """Take a part of a finished attachment that came again at this packed position. Return the repetition when it
        is complete."""
        held, key = self._assembly.attachments, (record.source, record.correl_id)
        if key not in held and (known := begun(record)) is not None:
            held[key] = TrackedAttachment(known, Parts())
        effects = self._assembly.apply(record.source, part, position, received_at)
        parts = held[key].parts
        checkpoint = self._assembly.take_changes()
        self._assembly.forget_beyond(REPETITIONS)
        if not any(isinstance(effect, Completed) for effect in effects):
            return None
        (again,) = checkpoint.attachments
        return CompleteAttachment(again, list(parts.runs))


class Assembler:
    """Passes messages to the assembly machine and carries out its effects."""

    def __init__(
        self,
        context: ServiceContext,
        finish: Finish,
        sent_again: Callable[[CompleteAttachment], object] = lambda _complete: None,
        answers: Callable[[Sequence[HeardMessage]], None] | None = None,
        *,
        read_early: bool = True,
    ) -> None:
        """Pass complete attachments to `finish`, finished ones that were sent again to `sent_again`, and messages whose
        senders want an answer to `answers`, after the checkpoint that includes them.

        With `read_early`, files whose parts come in order are read as they come. A checkpoint finishes these.
        """
        self._context, self._read_early = context, read_early
        limits = context.settings.limits
        self._limits = AssemblyLimits(limits.parts, limits.attachments_a_message)
        self._repetitions = Repetitions(self._limits)
        self._configured = {
            name: dialect.mask_of(dialect.Dialect.parse(source.dialect))
            for name, source in context.settings.sources.items()
            if source.dialect is not None
        }
        self._dialects: dict[str, int] = {}
        self._incremental = IncrementalReader(context)
        self._checkpoints = CheckpointWriter(context, finish, sent_again, answers)
        self._answers = answers is not None
        self.forget()

    def forget(self) -> None:
        """Drop the state in memory; `recover` reads it again."""
        self._assembly = Assembly(self._limits)
        self._incremental.forget()
        self._unsaved = Unsaved()
        self._saved_at = monotonic()
        self._reached = -1
        self._restarts: int | None = None
        """The number of attachments that were begun anew, by any process, of which the memory takes account."""
        self._log: str | None = None
        """The newest log of events when the catalog was read."""

    def close(self) -> None:
        self._incremental.close()

    def recover(self) -> int:
        """Replay the journal after the catalog's last checkpoint; return the number of messages."""
        if self._log is None:
            self._log = self._context.catalog.newest_log()
        if self._restarts is None:
            self._restarts = self._context.catalog.restarts()
        progress = self._context.catalog.progress()
        self._dialects = {**self._context.catalog.source_dialects(), **self._configured}
        replayed = 0
        for positions, messages in self._context.journal.replay(
            None if progress is None else Position.unpack(progress)
        ):
            self.assemble(positions, messages)
            self.save_if_due()
            replayed += len(positions)
        self.save()
        return replayed

    def change(self, change: Change) -> None:
        """Make a change between two messages. The changed attachments, and all messages (which are few), are then read
        from the catalog when needed."""
        self.save()
        keys, known = list(change()), self._restarts
        if known is not None:
            self._restarts = self._context.catalog.restarts()
            if self._restarts != known + len(keys):  # another process has begun some anew, too
                keys = list(self._assembly.attachments)
        for key in keys:
            if (gone := self._assembly.attachments.pop(key, None)) is not None:
                self._incremental.leave(gone.record.id)
        self._assembly.messages.clear()

    def save_if_due(self) -> None:
        """Make a checkpoint if `CHECKPOINT_SECONDS` have passed since the last one."""
        if monotonic() - self._saved_at >= CHECKPOINT_SECONDS:
            self.save()

    def save(self) -> None:
        """Make a checkpoint of all changes, if there are any."""
        self._saved_at = monotonic()
        unsaved, self._unsaved = self._unsaved, Unsaved()
        if unsaved.progress is not None:
            self._checkpoints.write(unsaved, self._assembly, self._restarts, self._log)

    def assemble(self, positions: Sequence[Position], messages: Sequence[PhysicalMessage]) -> None:
        """Assemble messages.

        Sequenced parts are taken together, and all others are read one by one. Messages that a replay of the journal
        has brought before are left out.
        """
        places = [position.pack() for position in positions]
        if places and places[0] <= self._reached:
            new = [row for row, place in enumerate(places) if place > self._reached]
            positions, messages = [positions[row] for row in new], [messages[row] for row in new]
            places = [places[row] for row in new]
        if not messages:
            return
        steps: list[Step] = []
        for found in runs_and_others(messages) if len(messages) >= FEW else range(len(messages)):
            if isinstance(found, MessageRun):
                steps.append(found)
            else:
                at, message = places[found], messages[found]
                steps += [ReadMessage(at, message, event) for event in self._events(at, message)]
        if self._answers:
            heard = (each for each in zip(places, messages, strict=True) if is_answered(each[1]))
            self._unsaved.heard += [(at, message._replace(body=b"")) for at, message in heard]
        unsure = load(steps, self._assembly, self._context)
        for step in steps:
            if isinstance(step, MessageRun):
                rows = step.rows
                self._apply_run(
                    step,
                    [positions[row] for row in rows],
                    [messages[row] for row in rows],
                    [places[row] for row in rows],
                )
            elif self._apply(step):
                load_messages(unsure, self._assembly, self._context)
                unsure = []
        self._incremental.let_go()
        self._reached = max(self._reached, places[-1])
        self._unsaved.progress = self._reached

    def _apply_run(
        self, run: MessageRun, positions: Sequence[Position], messages: Sequence[PhysicalMessage], places: Sequence[int]
    ) -> None:
        """Apply sequenced parts together, or one by one if one of them is not new. `places` are packed positions."""
        sizes, times = [len(message.body) for message in messages], [message.received_at for message in messages]
        arrived = PartsArrived(run.correl_id, run.first, sizes, times)
        effects = self._assembly.take_parts(run.source, arrived, places)
        if effects is None:
            for number, (at, message, size) in enumerate(zip(places, messages, sizes, strict=True), run.first):
                self._apply(ReadMessage(at, message, PartArrived(run.correl_id, number, size)))
            return
        if self._read_early and not self._context.is_strict(run.source):
            record = self._assembly.attachments[run.source, run.correl_id].record
            self._incremental.parts(record, run.first, messages, positions)
        for effect in effects:
            self._carry_out(effect, places[-1], messages[-1])

    def _apply(self, read: ReadMessage) -> bool:
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
                record = self._assembly.attachments[message.source, event.correl_id].record
                if isinstance(event, PartArrived):
                    self._incremental.parts(record, event.sequence, [message], [Position.unpack(at)])
                elif isinstance(event, GroupPart):
                    self._incremental.group_part(record.id, event, message, Position.unpack(at))
        for effect in effects:
            self._carry_out(effect, at, message)
        return isinstance(event, Announced) and any(isinstance(effect, Refused) for effect in effects)

    def _take_again(self, message: PhysicalMessage, part: PartArrived | GroupPart | RangePart, at: int) -> None:
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
            known = self._dialects.get(message.source, dialect.ALL)
            if is_answer(message):
                self._take_answer(message)
            event = read_event(self._context.described(message), known)
        except InvalidInputError as error:
            if error.code == FAILED:
                cause = error.__cause__
                log.error("message_not_read", source=message.source, reason=error.why, exc_info=cause)  # noqa: TRY400
            self._quarantine(at, message, error)
            return ()
        if isinstance(event, Announced) and message.source not in self._configured:
            # The dialects that a source's senders have in common. A sender that shares none starts anew.
            common = dialect.narrow(known, event.dialects)
            if common != known:
                self._dialects[message.source] = self._unsaved.dialects[message.source] = common
        if not isinstance(event, Pieces):
            return (event,)
        if event.refused is not None:
            self._quarantine(at, message, InvalidInputError(*event.refused))
        return event.parts

    def _take_answer(self, message: PhysicalMessage) -> None:
        """Take note that a sender has nothing of an attachment to send again."""
        try:
            answer = read_document(message.body)
        except WireError as error:
            log.warning("missing_parts_answer_refused", source=message.source, reason=str(error))
            return
        if isinstance(answer, PartsGone):
            self._unsaved.gone.append((message.source, answer))

    def _without_gone(self, key: Key, first: int | None) -> bool:
        """Remove from memory the parts of an attachment that the journal no longer has, if the one at `first` is among
        them.

        Return whether parts were removed, so that the same parts are taken when they come again.
        """
        held = self._assembly.attachments.get(key)
        if first is None or held is None or held.record.state is not AttachmentState.RECEIVING:
            return False
        segments = HeldSegments(self._context.journal)
        if Position.unpack(first).segment in segments:
            return False
        self._incremental.leave(held.record.id)
        held.record = without_gone(changed(held.record, group=held.group), held.parts, segments)
        if held.group is not None:
            held.group, held.bytes_received = None, 0
        held.duplicates -= 1
        return True

    def _carry_out(self, effect: Effect, at: int, message: PhysicalMessage) -> None:
        match effect:
            case Completed(attachment, parts, had_strays):
                content = self._incremental.take(attachment, parts)
                self._unsaved.completed[attachment] = None if had_strays else content  # a stray may have been read
            case Discarded():
                self._incremental.leave(effect.attachment)
                self._unsaved.discarded.append(effect.attachment)
            case Warned():
                self._unsaved.warned.append((message.source, effect))
            case Identification():
                self._unsaved.identified.append((message.source, effect))
            case _:
                self._apply_consequence(interpret(effect, _Messages(self._context, at, message)), message.source)

    def _apply_consequence(self, consequence: Consequence | None, source: str) -> None:
        match consequence:
            case Rejected(position, message, error, attachment):
                if attachment is not None:
                    self._assembly.contradict(attachment)
                self._quarantine(position, message, error)
            case Duplicate(_, to_finish):
                self._context.metrics.duplicates.labels(source).inc()
                if to_finish is not None:
                    self._unsaved.healed.append(to_finish)
            case Unreadable(attachment, first, again, damage):  # the same part came again, and replaces it
                self._incremental.leave(attachment)
                self._context.metrics.damage.labels("assembly").inc()
                is_to_finish = self._assembly.replace_part(attachment, first, again)
                by, reason = Position.unpack(again), str(damage)
                log.warning("damaged_part_replaced", attachment=attachment, by=by, reason=reason)
                if is_to_finish:
                    self._unsaved.healed.append(attachment)
            case Answered(address, answer, position):
                self._assembly.set_application(address, answer, position)
                self._unsaved.applications.append(address)

    def _quarantine(self, position: int, message: PhysicalMessage, error: InvalidInputError) -> None:
        self._context.metrics.quarantined.labels(message.source, error.code).inc()
        record, copy = quarantine_entry(position, message, error)
        self._unsaved.quarantine.append(record)
        self._unsaved.refused[position] = error
        if copy is not None:
            self._unsaved.quarantine_copies.append(copy)
