"""The framing `order_packet`: packets of the SAP DB order interface, each the body of a message.

A result set, or a mass insert, is a data set: a segment with shortinfo describes its columns, and segments with data or
vardata bring its rows, in packets of any order. Values of LONG columns, which putval and getval carry, are files.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.framing.order_packet import content, pieces, writing
from app.framing.protocol import (
    ArrangementName,
    Arrivals,
    Body,
    Columns,
    Contents,
    DataSetFacts,
    FileContent,
    PartReader,
    Received,
    StoreTable,
)
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.event import Event, GroupPart, Pieces
from app.model.framing import Captures, FramingTraits
from app.model.message import NO_PROPERTIES, PhysicalMessage
from app.model.records import AttachmentRecord, DeliveryRecord, FramingOptions, OutgoingAttachment

_TRAITS = FramingTraits(
    writing.NAME,
    needs_descriptor=False,
    captures=Captures(frozenset({"rendezvous", "mqtt"}), undescribed="rendezvous"),
)


@dataclass(frozen=True)
class OrderPacket:
    """The framing as the product knows it; see `app.framing.protocol.Framing`."""

    traits: FramingTraits = _TRAITS
    arrangement: ArrangementName = "grouped"
    kinds: frozenset[AttachmentKind] = frozenset(AttachmentKind)
    application_message: bool = False
    options: frozenset[str] = frozenset({"body_limit", "encoding"})

    def arrivals(self) -> Arrivals | None:
        return None

    def read(self, message: PhysicalMessage, known: int) -> Event | Pieces:  # noqa: ARG002 - it has no dialects
        return pieces.read(message)

    def is_header(self, message: PhysicalMessage) -> bool:  # noqa: ARG002 - it has none
        return False

    def read_columns(self, batch: pa.RecordBatch, framed: npt.NDArray[np.bool_]) -> Columns | None:  # noqa: ARG002
        return None

    def attachment_key(self, message: PhysicalMessage) -> bytes:
        found = pieces.read(message)
        parts = (found,) if isinstance(found, GroupPart) else found.parts
        if not parts:
            raise InvalidInputError("no-attachment", "", -1, "the packet brings nothing of an attachment")
        return parts[0].correl_id

    def file(self, record: AttachmentRecord, received: Received) -> FileContent:
        return content.file(record, received)

    def begin_file(self, record: AttachmentRecord, body: Body) -> PartReader | None:  # noqa: ARG002
        return None

    def data_set(self, record: AttachmentRecord, received: Received, store: StoreTable) -> DataSetFacts:
        return content.data_set(record, received, store)

    def properties(self, attachment: OutgoingAttachment) -> Mapping[str, str]:  # noqa: ARG002 - it has none
        return NO_PROPERTIES

    def write(self, delivery: DeliveryRecord, options: FramingOptions, contents: Contents) -> Iterator[PhysicalMessage]:
        return writing.messages(delivery, options, contents)


ORDER_PACKET = OrderPacket()
