"""Attachment -> framed messages, for the framing `sas_queue`.

In the order of the specification: the header, the application message, and for each attachment its sequenced parts and
then its count, so that a receiver that has the count can rely on the parts. A message without an application message
sends an empty one, since a receiving SAS program waits for it. Messages are made one at a time; nothing
but the body at hand is held.
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from app.codecs.sas import correlid
from app.codecs.sas.attachment import write_count, write_header
from app.codecs.sas.dialect import Dialect
from app.codecs.sas.words import HEADER_MSG_TYPE, SUBORDINATE_MSG_TYPE
from app.model.attachment import AttachmentDefinition, MessageHeader
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord, OutgoingAttachment


class Manner(NamedTuple):
    """How a destination wants to be written to."""

    dialect: Dialect
    charset: str
    ccsid: int
    encoding: int


Bodies = Callable[[OutgoingAttachment], Iterator[bytes]]
"""The bodies of an attachment's parts, in order: of a file its description and records, of a data set its messages."""


def messages(delivery: DeliveryRecord, manner: Manner, bodies: Bodies) -> Iterator[PhysicalMessage]:
    """All physical messages of a delivery. The same delivery gives the same messages each time, identifiers included,
    so that an interrupted one can go on where it was. Raises WireError when a name does not fit the manner."""
    for number, (msg_type, correl_id, body) in enumerate(_framed(delivery, manner, bodies)):
        yield PhysicalMessage(
            source=delivery.destination,
            framing="sas_queue",
            msg_type=msg_type,
            correl_id=correl_id,
            body=body,
            message_id=_message_identifier(delivery.id, number),
            encoding=manner.encoding,
            ccsid=manner.ccsid,
            format=delivery.application_format if correl_id == delivery.message_correl_id else "",
        )


def _framed(delivery: DeliveryRecord, manner: Manner, bodies: Bodies) -> Iterator[tuple[int, bytes, bytes]]:
    header = write_header(_header(delivery), manner.dialect, manner.charset)
    yield HEADER_MSG_TYPE, delivery.header_correl_id, header
    yield SUBORDINATE_MSG_TYPE, delivery.message_correl_id, delivery.application_body or b""
    for attachment in delivery.attachments:
        sequence = 0
        for sequence, body in enumerate(bodies(attachment), 1):
            yield SUBORDINATE_MSG_TYPE, correlid.join(attachment.correl_id, sequence), body
        yield SUBORDINATE_MSG_TYPE, correlid.join(attachment.correl_id, 0), write_count(sequence, manner.dialect)


def _header(delivery: DeliveryRecord) -> MessageHeader:
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


def _message_identifier(delivery: str, number: int) -> bytes:
    return blake2b(f"{delivery}/{number}".encode(), digest_size=24).digest()
