"""The framing `order_packet`: packets of the SAP DB order interface, each the body of a message.

A result set, or a mass insert, is a data set: a segment with shortinfo describes its columns, and segments with data or
vardata bring its rows, in packets of any order. Values of LONG columns, which putval and getval carry, are files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from app.framing.order_packet import packet_content, packet_pieces, packet_writer
from app.framing.protocol import (
    ArrangementName,
    DataSetFacts,
    DeliveryContents,
    FileContent,
    Framing,
    Received,
    StoreTable,
)
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.event import Event, GroupPart, Pieces
from app.model.framing_facts import Captures, FramingTraits
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, DeliveryRecord, FramingOptions

_TRAITS = FramingTraits(
    packet_writer.NAME,
    needs_descriptor=False,
    keeps_types=True,
    captures=Captures(frozenset({"rendezvous", "mqtt"})),
)


@dataclass(frozen=True)
class OrderPacket(Framing):
    """The framing as the product knows it; see `app.framing.protocol.Framing`."""

    traits: FramingTraits = _TRAITS
    arrangement: ArrangementName = "grouped"
    key_in_body: bool = True
    kinds: frozenset[AttachmentKind] = frozenset(AttachmentKind)
    options: frozenset[str] = frozenset({"body_limit", "encoding"})

    def read(self, message: PhysicalMessage, known: int) -> Event | Pieces:  # noqa: ARG002 - it has no dialects
        return packet_pieces.read(message)

    def attachment_key(self, message: PhysicalMessage) -> bytes:
        found = packet_pieces.read(message)
        parts = (found,) if isinstance(found, GroupPart) else found.parts
        if not parts:
            raise InvalidInputError("no-attachment", "", -1, "the packet brings nothing of an attachment")
        return parts[0].correl_id

    def file(self, record: AttachmentRecord, received: Received) -> FileContent:
        return packet_content.file(record, received)

    def data_set(self, record: AttachmentRecord, received: Received, store: StoreTable) -> DataSetFacts:
        return packet_content.data_set(record, received, store)

    def check_values(
        self,
        field: pa.Field,
        values: pa.Array,
        damaged: pa.Array | None,  # noqa: ARG002 - what is sent is the text
        files: Sequence[str],
    ) -> None:
        packet_writer.check_values(field, values, files)

    def checked_rows(
        self, name: tuple[str, str], schema: pa.Schema, batches: Iterator[pa.RecordBatch], options: FramingOptions
    ) -> Iterator[pa.RecordBatch]:
        return packet_writer.checked_rows(name, schema, batches, options)

    def check_names(self, delivery: DeliveryRecord, options: FramingOptions) -> None:
        packet_writer.check_names(delivery, options)

    def write(
        self, delivery: DeliveryRecord, options: FramingOptions, contents: DeliveryContents
    ) -> Iterator[PhysicalMessage]:
        return packet_writer.messages(delivery, options, contents)


ORDER_PACKET = OrderPacket()
