"""The framing `sas_queue`: attachments of the SAS Common Messaging Interface on a queue.

An attachment header has message type 100000; all that belongs to it has 100001 and is told apart by its correlid alone
(SAS, "Using the Common Messaging Interface": attachment layout for WebSphere MQ and MSMQ).
"""

from collections.abc import Iterator

from app.codecs.ibm_mq.encodings import charset as named_charset
from app.codecs.sas import correlid, dialect
from app.codecs.sas.attachment import read_counts, read_header
from app.codecs.sas.words import HEADER_MSG_TYPE, SUBORDINATE_MSG_TYPE
from app.model.attachment import MessageHeader
from app.model.errors import TheirError
from app.model.event import Announced, Event, PartArrived, Unsequenced
from app.model.message import PhysicalMessage
from app.wire import WireError

LONGEST_COUNT = 8
"""Bytes of the longest body that can be a count."""

LONGEST_HEADER = 8 << 20
"""Bytes of the longest header that is read: room for 10,000 attachments with names of 800 bytes. A header is tried in
every dialect and held in memory with all its entries, which must not go on for minutes for what no program sends."""


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
    any bytes, so that a name in an undeclared character set does not lose an attachment."""
    named = named_charset(message.ccsid, message.encoding)
    yield from dict.fromkeys(name for name in (named, "utf-8", "latin-1") if name)
