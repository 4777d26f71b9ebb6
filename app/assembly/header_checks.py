"""The checks of an attachment header against the headers before it.

A header is checked as a whole against the announcements of earlier headers of its source. The first header holds, and
one that contradicts it is refused with all its entries. Each entry concerns one attachment (`Claim`), and the
application message concerns one message, so they can go to machines that hold nothing else.
"""

from operator import attrgetter
from typing import NamedTuple, Protocol

from app.assembly.collecting import NOTHING, Address, Effect, Key, Refused, Repeated
from app.codecs.sas import correlid
from app.model.attachment import AttachmentDefinition, AttachmentKind, MessageHeader
from app.model.event import Announced
from app.model.identity import addressed, announces_application, attachment_id, message_id
from app.model.records import AttachmentRecord, MessageRecord


class Announcement(NamedTuple):
    """The message and the facts with which an attachment was announced; see `AttachmentDefinition`."""

    message: str
    kind: AttachmentKind
    qualifier_1: str
    qualifier_2: str
    description: str
    minor_version: int
    major_version: int

    @classmethod
    def of(cls, message: str, facts: AttachmentDefinition | AttachmentRecord) -> "Announcement | None":
        """Return the announcement by this message, with these facts; None if they are of an attachment that no header
        has announced."""
        return None if facts.kind is None else cls(message, *_ANNOUNCED(facts))


_ANNOUNCED = attrgetter(*Announcement._fields[1:])


class Claim(NamedTuple):
    """An entry of an accepted header: the attachment `ordinal` of `message`, with its definition, and the header's
    `traceparent`."""

    message: str
    ordinal: int
    definition: AttachmentDefinition
    dialects: int
    trace_parent: str | None = None


class EarlierHeaders(Protocol):
    """The announcements of the earlier headers of a source."""

    def addressed(self, address: Address) -> tuple[str, int] | None:
        """Return the message of an application message with this address, and its header's packed position."""

    def announced(self, key: Key) -> Announcement | None: ...


def judge(
    source: str, header: MessageHeader, position: int, received_at: int, most: int, earlier: EarlierHeaders
) -> MessageRecord | tuple[Effect, ...]:
    """Return the message that a header of at most `most` attachments begins, or the effects of a refused or repeated
    header."""
    if len(header.attachments) > most:
        why = f"{len(header.attachments)} attachments, at most {most} are allowed"
        return (Refused(position, "too-many-attachments", "number of attachments", why),)
    waits = header.attachments or announces_application(header.message_correl_id)
    record = MessageRecord(
        id=message_id(source, header.header_correl_id),
        source=source,
        header_correl_id=header.header_correl_id,
        message_correl_id=header.message_correl_id,
        original_msg_type=header.original_msg_type,
        original_correl_id=header.original_correl_id,
        attachments=tuple(attachment_id(source, entry.correl_id) for entry in header.attachments),
        header_position=position,
        received_at=received_at,
        complete_at=None if waits else received_at,
    )
    if contradictions := _contradictions(source, record.id, header, position, earlier):
        return contradictions
    known = earlier.addressed(message_address(record))
    if known is not None and known[0] == record.id:
        return NOTHING if known[1] == position else (Repeated(None, known[1], position),)
    return record


def claims(message: str, event: Announced) -> list[Claim]:
    """Return the claims of a message's accepted header, one for each attachment, by ordinal."""
    return [
        Claim(message, ordinal, entry, event.dialects, event.trace_parent)
        for ordinal, entry in enumerate(event.header.attachments)
    ]


def message_address(message: MessageRecord) -> Address:
    """Return the address of a message: the correlid of its application message, or the header's own where none is
    announced."""
    return header_address(message.source, message)


def header_address(source: str, header: MessageHeader | MessageRecord) -> Address:
    """Return the `message_address` of the message that a header begins."""
    return source, correlid.compared(addressed(header.header_correl_id, header.message_correl_id))


def waiting_key(address: Address) -> tuple[Key, int]:
    """Return the key and the sequence number that an application message has until a header explains it.

    They are the key and the number of a part of an attachment, or of a count (0).
    """
    source, correl_id = address
    key, sequence = correlid.split(correl_id)
    return (source, key), sequence


def address_of(key: Key, sequence: int = 0) -> Address:
    """Return the address of a message if it is an application message, and not a part or a count; see `waiting_key`."""
    source, correl_id = key
    return source, correl_id + sequence.to_bytes(correlid.COMPARED_SIZE - correlid.KEY_SIZE, "big")


def _contradictions(
    source: str, owner: str, header: MessageHeader, position: int, earlier: EarlierHeaders
) -> tuple[Effect, ...]:
    """Return the refusal of a header if it, or another one, announced an attachment differently before."""
    listed: set[bytes] = set()
    other: dict[bytes, str] = {}
    for ordinal, entry in enumerate(header.attachments):
        row = f"attachments[{ordinal}]"
        if entry.correl_id in listed:
            why = "this header announces this attachment correlid twice"
            return (Refused(position, "conflicting-header", row, why),)
        listed.add(entry.correl_id)
        if earlier.announced((source, entry.correl_id)) not in {None, Announcement.of(owner, entry)}:
            other[entry.correl_id] = row
    if not other:
        return NOTHING
    why = "an earlier header announced this attachment correlid differently"
    first = next(iter(other.values()))
    return (Refused(position, "conflicting-header", first, why, contradicted=tuple(other)),)
