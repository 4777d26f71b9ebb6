"""What quarantine keeps of a physical message, and tells of it.

A message is copied, so that it keeps no journal segment: a small one to the catalog, at once, in the transaction that
tells of it; a larger one to the content store, when its segment is to go. Reading, tracing and replaying work from the
copy.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from app.model.errors import TheirError
from app.model.message import PhysicalMessage, Position
from app.model.records import NewEvent, QuarantineCopy, QuarantineRecord
from app.ports import ContentStore, JournalReader, QuarantineCatalog

IN_CATALOG = 4096
"""Bytes of a message, its fields among them, that the catalog takes."""

_BYTES = frozenset(("correl_id", "message_id", "group_id"))


def quarantine_record(position: int, message: PhysicalMessage, error: TheirError) -> QuarantineRecord:
    """What quarantine tells of a physical message whose bytes are in the journal; its identifier is its place there."""
    return QuarantineRecord(
        id=f"{position:016x}",
        source=message.source,
        position=position,
        code=error.code,
        row=error.row,
        at=error.at,
        why=error.why,
        msg_type=message.msg_type,
        correl_id=message.correl_id,
        size=len(message.body),
        received_at=message.received_at,
    )


def quarantine_entry(
    position: int, message: PhysicalMessage, error: TheirError
) -> tuple[QuarantineRecord, QuarantineCopy | None]:
    """What quarantine tells of a physical message, and the copy of a small one."""
    record = quarantine_record(position, message, error)
    copy = small_copy(record.id, message)
    return (record, None) if copy is None else (replace(record, in_journal=False), copy)


def quarantine_event(record: QuarantineRecord) -> NewEvent:
    data: dict[str, object] = {"source": record.source, "code": record.code, "row": record.row, "why": record.why}
    return NewEvent("message.quarantined", record.id, record.received_at, data)


def copy_name(quarantine_id: str) -> str:
    """The object of the content store that holds a quarantined message's body."""
    return f"quarantine/{quarantine_id}"


def small_copy(quarantine_id: str, message: PhysicalMessage) -> QuarantineCopy | None:
    """The copy of a message that fits in the catalog, None for a larger one."""
    if len(message.body) > IN_CATALOG:
        return None
    descriptor = pack_descriptor(message)
    if len(message.body) + len(descriptor) > IN_CATALOG:
        return None
    return QuarantineCopy(quarantine_id, descriptor, bytes(message.body))


def pack_descriptor(message: PhysicalMessage) -> bytes:
    """A message's fields but its body, in JSON."""
    said: dict[str, Any] = {}
    values: Iterable[Any] = message
    for name, value in zip(PhysicalMessage._fields, values, strict=True):
        if name in _BYTES:
            said[name] = value.hex()
        elif name != "body":
            said[name] = dict(value) if name == "properties" else value
    return json.dumps(said, separators=(",", ":")).encode()


def unpack_descriptor(descriptor: bytes, body: bytes) -> PhysicalMessage:
    """The message of a descriptor and a body."""
    said: dict[str, Any] = json.loads(descriptor)
    said.update((name, bytes.fromhex(said[name])) for name in _BYTES)
    return PhysicalMessage(**said, body=body)


def quarantined_message(
    record: QuarantineRecord, catalog: QuarantineCatalog, store: ContentStore, journal: JournalReader
) -> PhysicalMessage:
    """A quarantined message with a body of its own. Raises KeyError when its bytes are gone."""
    copy = catalog.quarantine_copy(record.id)
    if copy is None:
        message = journal.read(Position.unpack(record.position))
        return message._replace(body=bytes(message.body))
    body = b"".join(store.read(copy_name(record.id))) if copy.body is None else copy.body
    return unpack_descriptor(copy.descriptor, body)
