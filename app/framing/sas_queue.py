"""The framing `sas_queue`: attachments of the SAS Common Messaging Interface on a queue.

An attachment header has message type 100000; all that belongs to it has 100001 and is told apart by its correlid alone
(SAS, "Using the Common Messaging Interface": attachment layout for WebSphere MQ and MSMQ).

It is written in the order of the specification: the header, the application message, and for each attachment its
sequenced parts and then its count, so that a receiver that has the count can rely on the parts. A message without an
application message sends an empty one, since a receiving SAS program waits for it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from app.codecs.ibm_mq.encodings import EBCDIC, is_ebcdic
from app.codecs.ibm_mq.encodings import charset as named_charset
from app.codecs.sas import correlid, dialect
from app.codecs.sas.attachment import read_counts, read_header, write_count, write_header
from app.codecs.sas.dialect import Dialect
from app.codecs.sas.words import HEADER_MSG_TYPE, SUBORDINATE_MSG_TYPE
from app.framing.outgoing import Bodies, message_identifier
from app.model.attachment import AttachmentDefinition, MessageHeader
from app.model.errors import TheirError
from app.model.event import Announced, Event, PartArrived, Unsequenced
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord
from app.wire import WireError

LONGEST_COUNT = 8
"""Bytes of the longest body that can be a count."""

LONGEST_HEADER = 8 << 20
"""Bytes of the longest header that is read: room for 10,000 attachments with names of 800 bytes. A header is tried in
every dialect and held in memory with all its entries, which must not go on for minutes for what no program sends."""


# --- reading ----------------------------------------------------------------------------------------------------------


def read(message: PhysicalMessage, known: int = dialect.ALL) -> Event:
    """What a physical message means. `known` is the set of dialects its source has used.

    Raises TheirError: `unknown-message-type`, or `bad-header` with the row and byte of the header.
    """
    if message.msg_type == SUBORDINATE_MSG_TYPE:
        key, sequence = correlid.split(message.correl_id)
        size = len(message.body)
        if sequence:
            return PartArrived(key, sequence, size)
        return Unsequenced(key, read_counts(message.body) if size <= LONGEST_COUNT else (), size)
    if message.msg_type == HEADER_MSG_TYPE:
        return Announced(*_header(message, known))
    why = f"{message.msg_type} is no type of an attachment's messages ({HEADER_MSG_TYPE}, {SUBORDINATE_MSG_TYPE})"
    raise TheirError("unknown-message-type", "msg_type", -1, why)


def _header(message: PhysicalMessage, known: int) -> tuple[MessageHeader, int]:
    if len(message.body) > LONGEST_HEADER:
        why = f"{len(message.body):,} bytes, at most {LONGEST_HEADER:,} are read"
        raise TheirError("bad-header", "AttachmentHeader", LONGEST_HEADER, why)
    refusal: WireError | None = None
    for charset in charsets(message):
        try:
            return read_header(message.body, charset=charset, encoding=message.encoding, known=known)
        except WireError as error:
            refusal = refusal or error
    assert refusal is not None
    raise TheirError("bad-header", refusal.row, refusal.at, refusal.why) from refusal


def charsets(message: PhysicalMessage) -> Iterator[str]:
    """The character sets to read a message's text in, the one its descriptor names first, Latin-1 last: that one reads
    any bytes, so that a name in an undeclared character set does not lose an attachment. Of EBCDIC that has no codec,
    code page 500 has the capitals, digits and blanks."""
    named = named_charset(message.ccsid, message.encoding) or (EBCDIC if is_ebcdic(message.ccsid) else None)
    yield from dict.fromkeys(name for name in (named, "utf-8", "latin-1") if name)


def attachment_key(message: PhysicalMessage) -> bytes:
    """The correlid of the attachment that a subordinate message belongs to."""
    return correlid.split(message.correl_id)[0]


# --- writing ----------------------------------------------------------------------------------------------------------


class Manner(NamedTuple):
    """How a destination wants to be written to."""

    dialect: Dialect
    charset: str
    ccsid: int
    encoding: int


def messages(delivery: DeliveryRecord, manner: Manner, bodies: Bodies) -> Iterator[PhysicalMessage]:
    """All physical messages of a delivery; the first body of a file is its description, of a data set its definition.

    Raises WireError when a name does not fit the manner.
    """
    for number, (msg_type, correl_id, body) in enumerate(_framed(delivery, manner, bodies)):
        is_application = correl_id == delivery.message_correl_id
        yield PhysicalMessage(
            source=delivery.destination,
            framing="sas_queue",
            msg_type=msg_type,
            correl_id=correl_id,
            body=body,
            message_id=message_identifier(delivery.id, number),
            encoding=manner.encoding,
            ccsid=(delivery.application_ccsid if is_application else 0) or manner.ccsid,
            format=delivery.application_format if is_application else "",
        )


def _framed(
    delivery: DeliveryRecord, manner: Manner, bodies: Bodies
) -> Iterator[tuple[int, bytes, bytes | memoryview]]:
    header = write_header(_announced(delivery), manner.dialect, manner.charset)
    yield HEADER_MSG_TYPE, delivery.header_correl_id, header
    yield SUBORDINATE_MSG_TYPE, delivery.message_correl_id, delivery.application_body or b""
    for attachment in delivery.attachments:
        sequence = 0
        for sequence, body in enumerate(bodies(attachment), 1):
            yield SUBORDINATE_MSG_TYPE, correlid.join(attachment.correl_id, sequence), body
        yield SUBORDINATE_MSG_TYPE, correlid.join(attachment.correl_id, 0), write_count(sequence, manner.dialect)


def _announced(delivery: DeliveryRecord) -> MessageHeader:
    return MessageHeader(
        header_correl_id=delivery.header_correl_id,
        original_msg_type=delivery.original_msg_type,
        original_correl_id=delivery.original_correl_id,
        message_correl_id=delivery.message_correl_id,
        attachments=tuple(
            AttachmentDefinition(
                attachment.kind,
                attachment.correl_id,
                attachment.qualifier_1,
                attachment.qualifier_2,
                attachment.description,
                attachment.minor_version,
                attachment.major_version,
            )
            for attachment in delivery.attachments
        ),
    )
