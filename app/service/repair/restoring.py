"""The restoring of attachments: their content from the journal, their rows from the records or the journal.

Content is put in place only when it has the SHA-256 in the catalog. Attachments that cannot be restored are quarantined
with the reason. So they are never served and always listed.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from app.codecs.block_checksums import BlockChecksums
from app.model.attachment import AttachmentState
from app.model.errors import DamagedError, InvalidInputError
from app.model.records import (
    CONTENT_LOST,
    AttachmentRecord,
    Checkpoint,
    Finished,
    RefusedContent,
    StoredObject,
)
from app.model.trace_context import trace_fields
from app.observe import logger
from app.ports import ContentStore
from app.service.content.content_damage import Damages
from app.service.content.stored_content import object_name
from app.service.context import ServiceContext
from app.service.events.event_entries import finished_events, refusal_event
from app.service.finishing.stored_parts import CompleteAttachment
from app.service.repair.content_check import measure
from app.service.repair.reassembling import Reassembled, ReassemblyRequest, content_of_parts, reassembled

log = logger(__name__)

ASIDE = "aside/"
AT_ONCE = 100
"""The number of attachments that are assembled in one temporary place."""


class RestoredAttachment(NamedTuple):
    """The outcome for an attachment: its content is back, or why it is not."""

    id: str
    done: bool
    why: str = ""


def restore_content(
    attachment_ids: Iterable[str],
    context: ServiceContext,
    on_done: Callable[[int], None] = lambda _amount: None,
    *,
    give_up: bool = True,
) -> list[RestoredAttachment]:
    """Restore the content of attachments. With `give_up`, quarantine those whose content cannot be restored.

    Rows that were closed meanwhile are left unchanged.
    """
    records = context.catalog.attachments_by_id(list(attachment_ids))
    copies = {record.id: copy for record in records if (copy := _unrecorded_copy(record, context.store)) is not None}
    for each, copy in copies.items():
        _record_object(each, copy, context)
        on_done(1)
    outcomes = [RestoredAttachment(each, done=True) for each in copies]
    others = (record for record in records if record.id not in copies)
    ordered = sorted(others, key=lambda record: record.first_position)
    for at in range(0, len(ordered), AT_ONCE):
        some = ordered[at : at + AT_ONCE]
        with reassembled(map(ReassemblyRequest.of, some), context) as scratch:
            for record in some:
                outcome = _restored(record, scratch.found[record.id], scratch.store, context)
                if not outcome.done and give_up:
                    _lose(record, outcome.why, context)
                outcomes.append(outcome)
                on_done(1)
    return outcomes


def restore_from(record: AttachmentRecord, again: CompleteAttachment, context: ServiceContext) -> RestoredAttachment:
    """Restore the content of an attachment that was sent again."""
    with content_of_parts(again, context) as scratch:
        return _restored(record, scratch.found[record.id], scratch.store, context)


def _unrecorded_copy(record: AttachmentRecord, store: ContentStore) -> StoredObject | None:
    """Return the object that the settler has written and could not record before its process ended.

    None if there is no such object, or if its bytes are not the received ones.
    """
    if record.state is not AttachmentState.FINISHED or record.storage != "journal":
        return None
    name, checksums = object_name(record.id), BlockChecksums()
    try:
        found = measure(_written(store, name, checksums.update))
    except (KeyError, DamagedError):
        return None
    return StoredObject(name, checksums.packed()) if found.sha256 == record.sha256 else None


def _record_object(attachment_id: str, stored: StoredObject, context: ServiceContext) -> None:
    if context.catalog.settle({attachment_id: stored}, context.clock.now()):
        context.catalog.mark_damaged(attachment_id, None)
    else:
        _drop_if_deleted(attachment_id, context)


def _drop_if_deleted(attachment_id: str, context: ServiceContext) -> None:
    """Delete the object of an attachment that was deleted before the object was recorded."""
    now = context.catalog.attachment(attachment_id)
    if now is None or now.state is AttachmentState.DELETED:
        context.store.delete(object_name(attachment_id))


def _restored(
    record: AttachmentRecord, again: Reassembled, scratch: ContentStore, context: ServiceContext
) -> RestoredAttachment:
    found = again.finished
    if found is None:
        return RestoredAttachment(record.id, done=False, why=again.why)
    if record.sha256 is not None and found.sha256 != record.sha256:
        why = f"its parts now give SHA-256 {found.sha256}, was {record.sha256}"
        return RestoredAttachment(record.id, done=False, why=why)
    now = context.catalog.attachment(record.id)
    if now is None or now.state not in (AttachmentState.FINISHED, AttachmentState.QUARANTINED):
        return RestoredAttachment(record.id, done=True, why="it was deleted meanwhile")
    put_in_place(found, scratch, context)
    if now.state is AttachmentState.QUARANTINED:
        context.catalog.set_state([record.id], AttachmentState.COMPLETE)
        finished = replace(found, finished_at=record.finished_at or context.clock.now())
        if not context.catalog.finish([finished], finished_events(record, finished)):
            _drop_if_deleted(record.id, context)
    else:
        _record_object(record.id, StoredObject(object_name(record.id), found.checksums), context)
    return RestoredAttachment(record.id, done=True)


def put_in_place(found: Finished, scratch: ContentStore, context: ServiceContext) -> None:
    """Copy content from the temporary store. Raises DamagedError when it changes while it is copied."""
    name = object_name(found.id)
    with context.store.create(name) as target:
        digest = measure(_written(scratch, name, target.write))
        if digest.sha256 != found.sha256:
            raise DamagedError(f"{name} changed while it was copied", name=name)


def _written(store: ContentStore, name: str, write: Callable[[memoryview], object]) -> Iterable[memoryview]:
    for piece in store.read(name):
        write(piece)
        yield piece


def _lose(record: AttachmentRecord, why: str, context: ServiceContext) -> None:
    reason = str(
        InvalidInputError(CONTENT_LOST, "", -1, f"its content is gone or damaged, and cannot be assembled again: {why}")
    )
    event = refusal_event(record, RefusedContent(record.id, CONTENT_LOST, reason), context.clock.now())
    state = AttachmentState.QUARANTINED
    context.catalog.set_state([record.id], state, reason_code=CONTENT_LOST, reason=reason, events=[event])
    context.catalog.restart([record.id], state, reason)
    set_aside(object_name(record.id), context.store)
    context.notifier.notify()


def report_outcome(
    record: AttachmentRecord, outcome: RestoredAttachment, context: ServiceContext, damages: Damages, **details: object
) -> None:
    """Log and count the outcome for a damaged attachment, and forget its damage if its content is restored."""
    fields = {"attachment": record.id, **details, **trace_fields(record.trace_parent)}
    if outcome.done:
        damages.sound(record)
        context.metrics.content_restored.inc()
        log.warning("content_restored", **fields)
    else:
        log.error("content_not_restored", reason=outcome.why, **fields)


def set_aside(name: str, store: ContentStore) -> bool:
    """Move an object below `aside/`, as far as it can be read; return whether there was one."""
    try:
        pieces = store.read(name)
        with store.create(ASIDE + name) as target, suppress(DamagedError):
            for piece in pieces:
                target.write(piece)
    except KeyError:
        return False
    store.delete(name)
    return True


def restore_rows(recorded: Sequence[AttachmentRecord], context: ServiceContext) -> None:
    """Add rows to the catalog for finished attachments whose objects exist."""
    rows = [replace(record, storage="store", object_name=object_name(record.id)) for record in recorded]
    context.catalog.checkpoint(Checkpoint(attachments=rows))


def restore_rows_from_journal(attachment_ids: Sequence[str], context: ServiceContext) -> list[RestoredAttachment]:
    """Add rows to the catalog for attachments whose messages are in the journal."""
    if not attachment_ids:
        return []
    segments = [segment.number for segment in context.journal.segments()]
    wanted = [ReassemblyRequest(each, min(segments, default=0), max(segments, default=0)) for each in attachment_ids]
    outcomes = []
    with reassembled(wanted, context) as scratch:
        for each, again in scratch.found.items():
            if again.record is None:
                outcomes.append(RestoredAttachment(each, done=False, why=again.why))
                continue
            context.catalog.checkpoint(Checkpoint(attachments=[again.record], part_runs={each: again.runs}))
            if again.finished is not None:
                put_in_place(again.finished, scratch.store, context)
                finished = replace(again.finished, finished_at=context.clock.now())
                context.catalog.finish([finished], finished_events(again.record, finished))
            outcomes.append(RestoredAttachment(each, done=True))
    return outcomes
