"""The entries of the event log, and the completion of messages.

Every entry is made here, so that each kind always has the same fields.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from app.assembly.collecting import Identification, Warned
from app.codecs.missing_parts.request_documents import MissingParts, spoken
from app.model.event_logs import EventLogs
from app.model.receipt_records import ATTACHMENT_FINISHED, ReceiptCause
from app.model.records import (
    DAMAGED_CONTENT,
    AttachmentRecord,
    DeliveryRecord,
    EventRecord,
    Finished,
    MessageRecord,
    NewEvent,
    QuarantineRecord,
    RefusedContent,
)
from app.model.times import to_time
from app.model.trace_context import TRACE_PARENT
from app.ports import Catalog

SOURCE: Final = "/v1/events"
"""The `source` of every CloudEvent: where all of them can be read."""


def cloud_event(event: EventRecord, logs: EventLogs) -> dict[str, object]:
    """Return an event of these logs as a CloudEvent 1.0 in JSON.

    If its subject is traced, it has the extension for distributed tracing.
    """
    traced = {} if event.trace_parent is None else {TRACE_PARENT: event.trace_parent}
    return {
        "specversion": "1.0",
        "id": logs.identify(event.number),
        "source": SOURCE,
        "type": event.type,
        "subject": event.subject,
        "time": to_time(event.time).isoformat(),
        "datacontenttype": "application/json",
        **traced,
        "data": event.data,
    }


def identified_event(source: str, found: Identification, now: int) -> NewEvent:
    """Return the event of an attachment or application message that waited for the header which identifies it."""
    what = "application-message" if found.is_application else "attachment"
    data: dict[str, object] = {"source": source, "what": what, "message": found.message}
    return NewEvent("attachment.identified", found.attachment, now, data)


def finished_events(record: AttachmentRecord, finished: Finished) -> list[NewEvent]:
    """Return the events of an attachment whose content can be read, and of its warnings if it has any."""
    data: dict[str, object] = {
        "source": record.source,
        "name": record.qualifier_2,
        "size": finished.size,
        "sha256": finished.sha256,
    }
    event = NewEvent("attachment.finished", record.id, finished.finished_at, data, record.trace_parent)
    if not finished.warnings:
        return [event]
    warned: dict[str, object] = {
        "source": record.source,
        "name": record.qualifier_2,
        "warnings": list(finished.warnings),
    }
    return [event, NewEvent("attachment.warned", record.id, finished.finished_at, warned, record.trace_parent)]


def warned_event(source: str, found: Warned, now: int) -> NewEvent:
    """Return the event of a finished attachment that gets a warning later."""
    data: dict[str, object] = {"source": source, "name": found.name, "warnings": [found.why]}
    return NewEvent("attachment.warned", found.attachment, now, data)


def refusal_event(record: AttachmentRecord, refused: RefusedContent, now: int) -> NewEvent:
    """Return the event of an attachment that becomes quarantined, with the reason."""
    data: dict[str, object] = {"source": record.source, "code": refused.code, "reason": refused.reason}
    return NewEvent("attachment.quarantined", refused.id, now, data, record.trace_parent)


def expiry_event(record: AttachmentRecord, now: int) -> NewEvent:
    """Return the event of an attachment that expires, with how much of it was received."""
    data: dict[str, object] = {
        "source": record.source,
        "parts_received": record.parts_received,
        "parts_expected": record.parts_expected,
    }
    return NewEvent("attachment.expired", record.id, now, data, record.trace_parent)


def missing_event(record: AttachmentRecord, asked: MissingParts, address: str | None, now: int) -> NewEvent:
    """Return the event of an attachment whose sender is asked for what has not come."""
    data: dict[str, object] = {
        "source": record.source,
        "name": record.qualifier_2,
        "framing": asked.framing,
        "attachment": asked.attachment.hex(),
        "parts": [list(each) for each in asked.parts],
        "header": asked.header,
        "count": asked.total,
        "request": asked.request,
        "address": address,
        "reason": f"its sender is asked for {spoken(asked)}",
    }
    return NewEvent("attachment.missing", record.id, now, data, record.trace_parent)


def lost_parts_event(attachment_id: str, source: str | None, code: str, reason: str, now: int) -> NewEvent:
    """Return the event of an attachment that expires because its parts are gone."""
    return NewEvent("attachment.expired", attachment_id, now, {"source": source, "code": code, "reason": reason})


def deletion_event(record: AttachmentRecord, now: int, **more: object) -> NewEvent:
    """Return the event of an attachment that a client, its sender or retention deletes."""
    data: dict[str, object] = {"source": record.source, "name": record.qualifier_2, **more}
    return NewEvent("attachment.deleted", record.id, now, data, record.trace_parent)


def message_deletion_event(message: MessageRecord, now: int) -> NewEvent:
    """Return the event of a message that a client deletes."""
    return NewEvent("message.deleted", message.id, now, {"source": message.source})


def damage_event(record: AttachmentRecord, reason: str, now: int) -> NewEvent:
    """Return the event of finished content that is not as it was received."""
    data: dict[str, object] = {"source": record.source, "code": DAMAGED_CONTENT, "reason": reason}
    return NewEvent("attachment.damaged", record.id, now, data, record.trace_parent)


def receipt_event(cause: ReceiptCause, leaf: bytes, place: int, size: int, now: int) -> NewEvent:
    """Return the event of a receipt that can be fetched: of the statement with this hash, at a place of the log, in a
    signed tree of this size."""
    collection = "attachments" if cause.type == ATTACHMENT_FINISHED else "deliveries"
    said = json.loads(cause.data)
    about = {name: said[name] for name in ("source", "destination", "name") if name in said}
    data: dict[str, object] = {
        **about,
        "receipt": f"/v1/{collection}/{cause.subject}/receipt",
        "leaf_hash": leaf.hex(),
        "leaf_index": place,
        "tree_size": size,
    }
    return NewEvent("receipt.made", cause.subject, now, data)


def message_event(message_id: str, source: str, now: int) -> NewEvent:
    """Return the event of a message that has become complete."""
    return NewEvent("message.complete", message_id, now, {"source": source})


def quarantine_event(record: QuarantineRecord) -> NewEvent:
    """Return the event of a physical message that goes to quarantine."""
    data: dict[str, object] = {"source": record.source, "code": record.code, "row": record.row, "why": record.why}
    return NewEvent("message.quarantined", record.id, record.received_at, data)


def delivery_event(delivery: DeliveryRecord, **more: object) -> NewEvent:
    """Return the event of a delivery that has just got its state."""
    data: dict[str, object] = {"destination": delivery.destination, **more}
    return NewEvent(f"delivery.{delivery.state}", delivery.id, delivery.updated_at, data, delivery.trace_parent)


def delivery_deletion_event(delivery: DeliveryRecord, now: int) -> NewEvent:
    """Return the event of a delivery that a client deletes."""
    return NewEvent("delivery.deleted", delivery.id, now, {"destination": delivery.destination}, delivery.trace_parent)


def lone_message_events(answered: Iterable[MessageRecord], now: int) -> list[NewEvent]:
    """Return the events of those messages that have no attachments: their application message has completed them."""
    return [message_event(message.id, message.source, now) for message in answered if not message.attachments]


def complete_messages(catalog: Catalog, attachment_ids: Sequence[str], now: int) -> None:
    """Complete those messages of these attachments that lack nothing, with their events."""
    if attachment_ids:
        catalog.complete_messages(
            attachment_ids, now, lambda message_id, source: message_event(message_id, source, now)
        )
