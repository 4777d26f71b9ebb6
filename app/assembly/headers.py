"""What an attachment header may say, given the headers before it.

A header is judged as a whole, against what earlier headers of its source announced: the first one wins, and one that
contradicts it is refused with all that it says. What it announces then concerns one attachment each (`Claim`), and the
application message one message, so that they can be told to machines that hold no others.
"""

from typing import NamedTuple, Protocol

from app.assembly.collecting import NOTHING, Address, Effect, Key, Refused, Repeated
from app.codecs.sas import correlid
from app.model.attachment import AttachmentDefinition, AttachmentKind, MessageHeader
from app.model.identity import announces_application, attachment_id, message_id
from app.model.records import MessageRecord


class Announcement(NamedTuple):
    """Under which message, and as what, an attachment was announced."""

    message: str
    kind: AttachmentKind
    qualifier_1: str
    qualifier_2: str


class Claim(NamedTuple):
    """An accepted header's entry: the attachment `ordinal` of `message`, which has this definition."""

    message: str
    ordinal: int
    definition: AttachmentDefinition
    dialects: int


class EarlierHeaders(Protocol):
    """What the headers of a source have said so far."""

    def addressed(self, address: Address) -> tuple[str, int] | None:
        """The message that an application message of this address belongs to, and its header's packed position."""

    def announced(self, key: Key) -> Announcement | None: ...


def judge(
    source: str, header: MessageHeader, position: int, received_at: int, most: int, earlier: EarlierHeaders
) -> MessageRecord | tuple[Effect, ...]:
    """The message that a header of at most `most` attachments begins, or what to do with the header instead."""
    if len(header.attachments) > most:
        why = f"{len(header.attachments)} attachments, at most {most} are taken"
        return (Refused(position, "too-many-attachments", "number of attachments", why),)
    record = _message_record(source, header, position, received_at)
    if contradictions := _contradictions(source, record.id, header, position, earlier):
        return contradictions
    known = earlier.addressed(message_address(record))
    if known is not None and known[0] == record.id:
        return NOTHING if known[1] == position else (Repeated(None, known[1], position),)
    return record


def claims(message: str, header: MessageHeader, dialects: int) -> list[Claim]:
    """What the accepted header of a message says of each attachment, by ordinal."""
    return [Claim(message, ordinal, entry, dialects) for ordinal, entry in enumerate(header.attachments)]


def message_address(message: MessageRecord) -> Address:
    """What an application message is found by; the header's own correlid where none is announced."""
    return header_address(message.source, message)


def header_address(source: str, header: MessageHeader | MessageRecord) -> Address:
    """The `message_address` of the message that a header begins."""
    announced = announces_application(header.message_correl_id)
    return source, correlid.compared(header.message_correl_id if announced else header.header_correl_id)


def taken_for(address: Address) -> tuple[Key, int]:
    """The key and the sequence number that an application message has as long as no header has explained it: those of
    a part of an attachment, or of a count (0)."""
    source, correl_id = address
    key, sequence = correlid.split(correl_id)
    return (source, key), sequence


def address_of(key: Key, sequence: int = 0) -> Address:
    """The address that a message has, if it is an application message and no part or count: see `taken_for`."""
    source, correl_id = key
    return source, correl_id + sequence.to_bytes(correlid.COMPARED_SIZE - correlid.KEY_SIZE, "big")


def _message_record(source: str, header: MessageHeader, position: int, received_at: int) -> MessageRecord:
    waits = header.attachments or announces_application(header.message_correl_id)
    return MessageRecord(
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


def _contradictions(
    source: str, owner: str, header: MessageHeader, position: int, earlier: EarlierHeaders
) -> tuple[Effect, ...]:
    """Attachments of this header that another header, or this one with other words, announced before."""
    listed: set[bytes] = set()
    for ordinal, entry in enumerate(header.attachments):
        row = f"attachments[{ordinal}]"
        if entry.correl_id in listed:
            why = "this header announces this attachment correlid twice"
            return (Refused(position, "conflicting-header", row, why),)
        listed.add(entry.correl_id)
        said = Announcement(owner, entry.kind, entry.qualifier_1, entry.qualifier_2)
        if earlier.announced((source, entry.correl_id)) not in {None, said}:
            why = "an earlier header announced this attachment correlid otherwise"
            return (Refused(position, "conflicting-header", row, why),)
    return NOTHING
