"""Records for tests of catalogs, and what finds them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from app.model.attachment import AttachmentKind, AttachmentState
from app.model.message import Position
from app.model.records import (
    AttachmentRecord,
    Checkpoint,
    DeliveryRecord,
    EventRecord,
    Finished,
    MessageRecord,
    NewEvent,
    OutgoingAttachment,
    QuarantineRecord,
    StoredObject,
)
from app.model.webhook_state import DeadLetter
from app.ports import Catalog, Page

T = TypeVar("T")
State = AttachmentState

HAPPENED = NewEvent("attachment.finished", "a", 5, {"name": "Grüße\0.txt", "size": 3, "parts": [1, None]})


def deleted(record: AttachmentRecord) -> NewEvent:
    """Return an event of an attachment that is removed."""
    return NewEvent("attachment.deleted", record.id, 5, {})


def attachment(number: int, state: State = State.RECEIVING, **changes: Any) -> AttachmentRecord:
    kind = AttachmentKind.BINARY_FILE
    record = AttachmentRecord(f"a{number}", "quay", number.to_bytes(16, "big"), state, kind=kind)
    return replace(record, **{"first_received_at": number, "last_received_at": number} | changes)


def message(number: int, *attachments: str, **changes: Any) -> MessageRecord:
    record = MessageRecord(
        id=f"m{number}",
        source="quay",
        header_correl_id=number.to_bytes(24, "big"),
        message_correl_id=bytes(24),
        original_msg_type=8,
        original_correl_id=b"\xff" * 24,
        attachments=attachments,
        header_position=number,
        received_at=number,
    )
    return replace(record, **changes)


def spoilt(number: int, **changes: Any) -> QuarantineRecord:
    position = Position(number, 0, 0).pack()
    record = QuarantineRecord(f"q{number}", "quay", position, "cut", "count", 4, "too short", 8, bytes(24), 7, number)
    return replace(record, **changes)


def delivery(number: int, **changes: Any) -> DeliveryRecord:
    content = OutgoingAttachment(
        number.to_bytes(16, "big"),
        AttachmentKind.TEXT_FILE,
        "FILENAME",
        "a.txt",
        "",
        0,
        0,
        f"outgoing/{number}",
        3,
        "5e",
    )
    record = DeliveryRecord(
        f"d{number}", "pier", bytes(24), bytes(24), (content,), created_at=number, updated_at=number
    )
    return replace(record, **changes)


SETTLED = StoredObject("attachments/a1", b"sums")


def finished(number: int, **changes: Any) -> Finished:
    return replace(Finished(f"a{number}", 3, "5e", "text/plain", "store", 50, f"attachments/a{number}"), **changes)


def keep(catalog: Catalog, *records: AttachmentRecord) -> None:
    catalog.checkpoint(Checkpoint(attachments=list(records)))


def known(catalog: Catalog, number: int) -> AttachmentRecord:
    record = catalog.attachment(f"a{number}")
    assert record is not None
    return record


def everything(catalog: Catalog, identifier: str) -> tuple[object, ...]:
    """What each search by an identifier finds."""
    found = (catalog.attachment(identifier), catalog.message(identifier), catalog.quarantine_entry(identifier))
    return (*found, catalog.delivery(identifier))


def pages(listing: Callable[[str | None], Page[T]]) -> Iterator[list[T]]:
    page = listing(None)
    yield page.items
    while page.next is not None:
        page = listing(page.next)
        yield page.items


def all_of(listing: Callable[[str | None], Page[T]]) -> list[T]:
    return [item for items in pages(listing) for item in items]


def dead_letter(number: int, webhook: str = "one") -> DeadLetter:
    event = EventRecord(number, HAPPENED.type, HAPPENED.subject, number, HAPPENED.data)
    return DeadLetter(webhook, event, 100 + number, "it was away")
