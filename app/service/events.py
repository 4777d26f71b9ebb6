"""Attachments are finished or refused, messages become complete, and the event log says so."""

from collections.abc import Sequence

from app.model.errors import TheirError
from app.model.records import AttachmentRecord, Finished, NewEvent
from app.ports import Catalog


def finished_event(record: AttachmentRecord, finished: Finished) -> NewEvent:
    data: dict[str, object] = {"name": record.qualifier_2, "size": finished.size, "sha256": finished.sha256}
    return NewEvent("attachment.finished", record.id, finished.finished_at, data)


def refusal_event(record: AttachmentRecord, error: TheirError, now: int) -> NewEvent:
    return NewEvent("attachment.quarantined", record.id, now, {"code": error.code, "reason": str(error)})


def expiry_event(record: AttachmentRecord, now: int) -> NewEvent:
    received, expected = record.parts_received, record.parts_expected
    return NewEvent("attachment.expired", record.id, now, {"parts_received": received, "parts_expected": expected})


def complete_messages(catalog: Catalog, attachment_ids: Sequence[str], now: int, already: Sequence[str] = ()) -> None:
    """Completes the messages of these attachments as far as nothing of them is missing; `already` are the identifiers
    of others that have become complete."""
    complete = catalog.complete_messages(attachment_ids, now) if attachment_ids else []
    if told := [*complete, *already]:
        catalog.add_events([NewEvent("message.complete", message, now, {}) for message in told])
