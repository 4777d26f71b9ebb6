"""The quarantine's records and copies of physical messages.

A message is copied, so that it keeps no journal segment. A small one goes to the catalog at once, in the transaction of
its record. A larger one goes to the content store before its segment is retired. Reading, tracing and replaying use the
copy.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from crc32c import crc32c

from app.model.errors import DamagedError, InvalidInputError
from app.model.message import MAX_ROWS_A_BATCH, PhysicalMessage, Position
from app.model.records import DAMAGED_MESSAGE, AttachmentRecord, QuarantineCopy, QuarantineRecord
from app.observe import logger
from app.ports import ContentStore, JournalReader
from app.service.context import ServiceContext

log = logger(__name__)

COPIES = "quarantine/"
"""What the names of the objects with copied messages begin with."""

IN_CATALOG = 4096
"""The most bytes of a message, including its fields, that are copied to the catalog."""

COPIED_AT_ONCE = 200
"""The most messages that one call copies. Each large one is an object that is on disk before its segment is retired."""

_BYTES = frozenset(("correl_id", "message_id", "group_id"))

Entry = tuple[QuarantineRecord, QuarantineCopy | None]
"""The quarantine record of a message, and the copy of a small one."""


def quarantine_record(position: int, message: PhysicalMessage, error: InvalidInputError) -> QuarantineRecord:
    """Return the quarantine record of a physical message in the journal. Its identifier is its position there."""
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


def damaged_part(record: AttachmentRecord, position: int, error: InvalidInputError) -> QuarantineRecord:
    """Return the quarantine record of a part that cannot be read back. Only its attachment is known."""
    known = PhysicalMessage(record.source, "", correl_id=record.correl_id, received_at=record.last_received_at)
    return quarantine_record(position, known, error)


def quarantine_entry(position: int, message: PhysicalMessage, error: InvalidInputError) -> Entry:
    """Return the quarantine record of a physical message, and the copy of a small one.

    A message that cannot be read back is not copied: the disk may work again while the journal has it.
    """
    record = quarantine_record(position, message, error)
    copy = None if error.code == DAMAGED_MESSAGE else small_copy(record.id, message)
    return (record, None) if copy is None else (replace(record, in_journal=False), copy)


def copy_name(quarantine_id: str) -> str:
    """Return the name of the content store's object that holds a quarantined message's body."""
    return COPIES + quarantine_id


def small_copy(quarantine_id: str, message: PhysicalMessage) -> QuarantineCopy | None:
    """Return the copy of a message that fits in the catalog; None for a larger one."""
    if len(message.body) > IN_CATALOG:
        return None
    descriptor = pack_descriptor(message)
    if len(message.body) + len(descriptor) > IN_CATALOG:
        return None
    body = bytes(message.body)
    return QuarantineCopy(quarantine_id, descriptor, body, crc32c(body, crc32c(descriptor)))


def pack_descriptor(message: PhysicalMessage) -> bytes:
    """Return a message's fields except its body, in JSON."""
    fields: dict[str, Any] = {}
    values: Iterable[Any] = message
    for name, value in zip(PhysicalMessage._fields, values, strict=True):
        if name in _BYTES:
            fields[name] = value.hex()
        elif name != "body":
            fields[name] = dict(value) if name == "properties" else value
    return json.dumps(fields, separators=(",", ":")).encode()


def unpack_descriptor(descriptor: bytes, body: bytes) -> PhysicalMessage:
    """Return the message with this descriptor and body."""
    fields: dict[str, Any] = json.loads(descriptor)
    fields.update((name, bytes.fromhex(fields[name])) for name in _BYTES)
    return PhysicalMessage(**fields, body=body)


def quarantined_message(record: QuarantineRecord, context: ServiceContext) -> PhysicalMessage:
    """Return a quarantined message with its own copy of the body. Raises KeyError when its bytes are gone,
    DamagedError when they are not as they were received, and NotArchived."""
    copy = context.catalog.quarantine_copy(record.id)
    if copy is None:
        message = context.journal.read(Position.unpack(record.position))
        return message._replace(body=bytes(message.body))
    return unpack_descriptor(copy.descriptor, copied_body(copy, context.store))


def copied_body(copy: QuarantineCopy, store: ContentStore) -> bytes:
    """Return the body of a copy. Raises KeyError when it is gone, and DamagedError when the copy is not as it was
    made."""
    body = b"".join(store.read(copy_name(copy.id))) if copy.body is None else copy.body
    if (found := crc32c(body, crc32c(copy.descriptor))) != copy.checksum:
        raise DamagedError(f"CRC-32C of quarantined message {copy.id} is {found:08x}, was {copy.checksum:08x}")
    return body


def is_lost_batch(record: QuarantineRecord) -> bool:
    """Tell whether an entry is about a whole batch of the journal that cannot be read back."""
    return record.code == DAMAGED_MESSAGE and not record.source


def messages_of_batch(record: QuarantineRecord, journal: JournalReader) -> list[PhysicalMessage]:
    """Return all messages of the batch that an entry is about, from its position on.

    Raises KeyError when they are gone, and DamagedError when they still cannot be read.
    """
    position = Position.unpack(record.position)
    found = [journal.read(position)]
    with suppress(KeyError):
        rows = range(position.row + 1, MAX_ROWS_A_BATCH)
        found.extend(journal.read(position._replace(row=row)) for row in rows)
    return [message._replace(body=bytes(message.body)) for message in found]


def copy_quarantined(context: ServiceContext, segment: int) -> None:
    """Copy messages of up to `limits.quarantine_body` from segments before this one, the oldest first.

    Larger messages keep their segment until retention removes their entries.
    """
    below = Position(segment, 0, 0).pack()
    entries = context.catalog.uncopied_quarantine(below, context.settings.limits.quarantine_body, COPIED_AT_ONCE)
    if not entries:
        return
    copies: list[QuarantineCopy] = []
    objects: dict[str, str] = {}
    gone: list[str] = []
    for entry in entries:
        try:
            message = context.journal.read(Position.unpack(entry.position))
        except (KeyError, DamagedError):
            gone.append(entry.id)
            continue
        copy = small_copy(entry.id, message)
        if copy is None:
            objects[entry.id] = copy_name(entry.id)
            with context.store.create(objects[entry.id]) as target:
                target.write(message.body)
            descriptor = pack_descriptor(message)
            copy = QuarantineCopy(entry.id, descriptor, None, crc32c(message.body, crc32c(descriptor)))
        copies.append(copy)
    known = context.catalog.copied_quarantine(copies, objects, gone)
    context.store.delete_all([objects[removed] for removed in objects.keys() - known])
    log.info("quarantine_copied", count=len(copies), objects=len(objects), gone=len(gone))
