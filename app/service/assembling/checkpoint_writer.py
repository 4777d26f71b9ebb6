"""Checkpoints: what assembly has changed goes to the catalog, together with the journal position that it includes.

One transaction has the changes, the contents that have been read as their parts came, and the events. Only then are
other complete attachments passed to finishing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from app.assembly.collecting import Address, Identification, Warned
from app.assembly.machine import Assembly
from app.codecs.missing_parts.request_documents import PartsGone
from app.model.attachment import AttachmentState
from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage
from app.model.records import ABORTED, Checkpoint, Finished, QuarantineCopy, QuarantineRecord
from app.service.assembling.answering import HeardMessage
from app.service.assembling.finished_in_checkpoint import close
from app.service.context import ServiceContext
from app.service.events.event_entries import (
    complete_messages,
    deletion_event,
    identified_event,
    lone_message_events,
    quarantine_event,
    warned_event,
)
from app.service.finishing.incremental import EarlyContent
from app.service.finishing.stored_parts import CompleteAttachment, HeldSegments

Finish = Callable[[Mapping[str, CompleteAttachment | None]], None]
"""A function that takes complete attachments, with what is known of them."""


@dataclass(slots=True)
class Unsaved:
    """The contents of the next checkpoint, apart from the machine's changes. Attachments stand by their identifiers."""

    progress: int | None = None
    quarantine: list[QuarantineRecord] = field(default_factory=list)
    quarantine_copies: list[QuarantineCopy] = field(default_factory=list)
    dialects: dict[str, int] = field(default_factory=dict)
    completed: dict[str, EarlyContent | None] = field(default_factory=dict)
    applications: list[Address] = field(default_factory=list)
    identified: list[tuple[str, Identification]] = field(default_factory=list)
    healed: list[str] = field(default_factory=list)
    warned: list[tuple[str, Warned]] = field(default_factory=list)
    discarded: list[str] = field(default_factory=list)
    sent_again: list[CompleteAttachment] = field(default_factory=list)
    heard: list[tuple[int, PhysicalMessage]] = field(default_factory=list)
    refused: dict[int, InvalidInputError] = field(default_factory=dict)
    gone: list[tuple[str, PartsGone]] = field(default_factory=list)


ATTACHMENTS_IN_MEMORY = 5_000
"""The unfinished attachments whose state is in memory; that of others is in the catalog. It takes at least 24 bytes for
each part that does not come directly after the one before it."""


class CheckpointWriter:
    """Writes checkpoints. Passes complete attachments to `finish`, and finished ones that came again to
    `sent_again`."""

    def __init__(
        self,
        context: ServiceContext,
        finish: Finish,
        sent_again: Callable[[CompleteAttachment], object],
        answers: Callable[[Sequence[HeardMessage]], None] | None,
    ) -> None:
        self._context, self._finish, self._sent_again, self._answers = context, finish, sent_again, answers

    def write(self, unsaved: Unsaved, assembly: Assembly, restarts: int | None, log: str | None) -> None:
        """Write a checkpoint of the changes of a machine, and pass on what is complete.

        Raises CatalogChanged if other processes have begun attachments anew beyond these `restarts`, or if another log
        of events than `log` has begun.
        """
        context, now = self._context, self._context.clock.now()
        answered = [assembly.messages[address] for address in unsaved.applications]
        checkpoint = assembly.take_changes()
        checkpoint.progress, checkpoint.restarts, checkpoint.log = unsaved.progress, restarts, log
        checkpoint.attachments = context.traces.begun(checkpoint.attachments)
        checkpoint.quarantine = unsaved.quarantine
        checkpoint.quarantine_copies = unsaved.quarantine_copies
        checkpoint.source_dialects = unsaved.dialects
        checkpoint.events = [quarantine_event(record) for record in unsaved.quarantine]
        checkpoint.warned = [warned_event(source, found, now) for source, found in unsaved.warned]
        discarded = {*unsaved.discarded}
        given_up = [record for record in checkpoint.attachments if record.id in discarded]
        checkpoint.events += [deletion_event(each, now, reason=ABORTED) for each in given_up]
        checkpoint.events += lone_message_events(answered, now)
        checkpoint.identified = [identified_event(source, found, now) for source, found in unsaved.identified]
        closed = close(checkpoint, self._contents(unsaved, now), now)
        for source, answer in unsaved.gone:  # before the checkpoint: a replay of the journal brings it again
            context.catalog.end_requests(source, [(answer.attachment, answer.reason)])
        missed = context.catalog.checkpoint(checkpoint)
        assembly.forget_beyond(ATTACHMENTS_IN_MEMORY)
        finished = [record for record in closed.attachments if record.id not in missed]
        context.metrics.count_attachments(AttachmentState.FINISHED, finished)
        context.metrics.count_attachments(AttachmentState.DELETED, given_up)
        to_finish = unsaved.completed.keys() - {record.id for record in closed.attachments}
        self._pass_on([each for each in unsaved.completed if each in to_finish], unsaved.healed, checkpoint)
        for again in unsaved.sent_again:
            self._sent_again(again)
        # Finishing completes the messages of the others, with their last attachment.
        alone = (each for each in answered if each.id not in closed.messages and to_finish.isdisjoint(each.attachments))
        attachments = [record.id for record in finished if record.message_id not in closed.messages]
        attachments += [attachment for message in alone for attachment in message.attachments]
        complete_messages(context.catalog, attachments, context.clock.now())
        if self._answers is not None and unsaved.heard:
            self._answers([HeardMessage(message, unsaved.refused.get(at)) for at, message in unsaved.heard])
        context.notifier.notify()

    def _contents(self, unsaved: Unsaved, now: int) -> dict[str, Finished]:
        """Return the contents that have been read, as far as the journal still has them."""
        contents = {each: content(now) for each, content in unsaved.completed.items() if content is not None}
        segments = HeldSegments(self._context.journal)
        return {
            each: content
            for each, content in contents.items()
            if each not in unsaved.healed and all(extent.segment in segments for extent in content.extents)
        }

    def _pass_on(self, to_finish: list[str], healed: list[str], checkpoint: Checkpoint) -> None:
        """Pass complete attachments to finishing, with what is known of them, and those with a healed part."""
        waiting: dict[str, CompleteAttachment | None] = dict.fromkeys(to_finish)
        for record in checkpoint.attachments if waiting else ():
            if record.id in waiting and record.state is AttachmentState.COMPLETE:
                waiting[record.id] = CompleteAttachment.of(record, checkpoint.part_runs.get(record.id, []))
        if healed:
            self._context.catalog.set_state([*dict.fromkeys(healed)], AttachmentState.COMPLETE)
            waiting.update(dict.fromkeys(healed))
        if waiting:
            self._finish(waiting)
