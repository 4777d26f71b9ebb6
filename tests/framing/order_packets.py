"""Tables as order packets, order packets as other programs send them, and what became of them."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.codecs.sapdb.constants import DataType, IoType, MessType, PartKind, SegmentKind, ValMode
from app.codecs.sapdb.data_rows import encode_rows
from app.codecs.sapdb.packet import Part, decode_packet, encode_packet, laid_out, new_part
from app.codecs.sapdb.packet_records import (
    CommandSegment,
    LongDescriptor,
    PacketHeader,
    ParameterInfo,
    Parsid,
    PartHeader,
    ReturnSegment,
    SegmentHeader,
)
from app.codecs.sapdb.parameter_values import Manner, code_of, in_out_len
from app.codecs.sapdb.part_buffers import LongValue, encode_part
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord, FramingOptions
from app.service.content.stored_content import object_name, opened
from app.service.context import ReceiverContext
from app.service.sending.framer import Framer
from app.testing.framing_contract import records
from app.testing.outgoing_files import SOURCE, delivery
from app.wire import Context


def table(rows: int, unicode_name: bool = False) -> pa.Table:
    random = Random(1)

    def some(make: Callable[[], Any]) -> list[Any]:
        return [None if random.random() < 0.1 else make() for _ in range(rows)]

    number = "größe€" if unicode_name else "number"
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int32()),
            number: pa.array(some(random.random)),
            "price": pa.array(some(lambda: Decimal(random.randrange(-(10**6), 10**6)).scaleb(-2)), pa.decimal128(9, 2)),
            "name": pa.array(some(lambda: f"name {random.randrange(100)}")),
            "any": pa.array(some(lambda: chr(random.randrange(0x20AC, 0x3000)) + "\U0001f600")),
            "data": pa.array(some(lambda: random.randbytes(4)), pa.binary(4)),
            "day": pa.array(some(lambda: date(2000, 1, 1) + timedelta(random.randrange(9000)))),
            "clock": pa.array(some(lambda: time(random.randrange(24), random.randrange(60))), pa.time64("us")),
            "span": pa.array(some(lambda: timedelta(hours=random.randrange(99))), pa.duration("us")),
            "stamp": pa.array(
                some(lambda: datetime(2020, 1, 1, microsecond=random.randrange(10**6))), pa.timestamp("us")
            ),
            "flag": pa.array(some(lambda: random.random() < 0.5)),
        }
    )


def parquet(made: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(made, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def options(body_limit: int = 32_000, encoding: int = 273) -> FramingOptions:
    return FramingOptions(body_limit, "big-4-excluded-packed", 1208, encoding, framing="order_packet")


def written(
    context: ReceiverContext, contents: list[tuple[AttachmentKind, str, bytes]], how: FramingOptions | None = None
) -> list[PhysicalMessage]:
    made: DeliveryRecord = replace(delivery(context, contents), application_body=None)
    sent = Framer(how or options(), context.store).frame(made)
    return [each._replace(body=bytes(each.body), received_at=1 + at) for at, each in enumerate(sent)]


def bare(sent: Sequence[PhysicalMessage]) -> list[PhysicalMessage]:
    """Messages as a broker without descriptors brings them: their bodies."""
    return [PhysicalMessage(SOURCE, "order_packet", body=each.body, received_at=each.received_at) for each in sent]


def stored(context: ReceiverContext, name: str) -> pa.Table:
    (record,) = [each for each in records(context) if each.qualifier_2 == name]
    assert (record.state, record.reason) == (AttachmentState.FINISHED, None)
    with opened(context.store, object_name(record.id)) as file:
        return pq.read_table(file)


def assert_equal(found: pa.Table, sent: pa.Table) -> None:
    assert found.schema.names == sent.schema.names
    for name in sent.schema.names:
        assert found[name].to_pylist() == sent[name].to_pylist(), name


DATA_SET = AttachmentKind.DATA_SET


def joined(sent: Sequence[PhysicalMessage]) -> list[PhysicalMessage]:
    """Two packets of each three in one, as two segments: several pieces in one message."""
    found = []
    for start in range(0, len(sent), 3):
        one, *others = sent[start : start + 3]
        packets = [decode_packet(each.body) for each in (one, *others[:1])]
        if len({(packet.order, packet.header.mess_code) for packet in packets}) == 1:
            header = dataclasses.replace(packets[0].header, varpart_size=131_040)
            whole = laid_out(header, [(each.segments[0].header, each.segments[0].parts) for each in packets])
            found.append(one._replace(body=encode_packet(whole)))
            found += others[1:]
        else:
            found += [one, *others]
    return found


MANNER = Manner(code_of(0, "<"), Context("<"))
STATEMENT = Parsid(b"\0\0\0\7", b"\0\0\1", 1, 35, 0, 70, 0)
COLUMNS = (
    ParameterInfo(2, IoType.OUTPUT, DataType.FIXED, 0, 5, in_out_len(DataType.FIXED, 5), 1),
    ParameterInfo(2, IoType.OUTPUT, DataType.CHAR_ASCII, 0, 6, in_out_len(DataType.CHAR_ASCII, 6), 6),
)
ROWS = [[Decimal(number), f"row {number}"] for number in range(10)]


def part(kind: int, value: Any, attributes: int = 0) -> Part:
    number, buffer = encode_part(kind, value, MANNER)
    return new_part(PartHeader(kind, attributes, number), buffer)


def data(rows: list[list[Any]], attributes: int = 0) -> Part:
    return new_part(PartHeader(PartKind.DATA, attributes, len(rows)), encode_rows(rows, COLUMNS, MANNER))


def packet(*segments: tuple[SegmentHeader, list[Part]], **descriptor: Any) -> PhysicalMessage:
    body = encode_packet(laid_out(PacketHeader(varpart_size=32_000), segments))
    return PhysicalMessage(SOURCE, "order_packet", body=body, received_at=1, **descriptor)


def reply(*parts: Part, **fields: Any) -> tuple[SegmentHeader, list[Part]]:
    return ReturnSegment(segm_kind=SegmentKind.RETURN, **fields), list(parts)


def command(mess_type: MessType, *parts: Part, **fields: Any) -> tuple[SegmentHeader, list[Part]]:
    return CommandSegment(segm_kind=SegmentKind.CMD, mess_type=mess_type, **fields), list(parts)


DESCRIBED = [part(PartKind.SHORTINFO, COLUMNS), part(PartKind.COLUMNNAMES, ["N", "TEXT"])]
EXPECTED = [{"N": number, "TEXT": text} for number, text in ROWS]


def putval(data: bytes, valmode: ValMode, intern_pos: int, identifier: bytes = b"L" * 8) -> PhysicalMessage:
    descriptor = LongDescriptor(
        identifier, identifier, valmode=valmode, intern_pos=intern_pos, valpos=42, vallen=len(data)
    )
    return packet(command(MessType.PUTVAL, part(PartKind.LONGDATA, [LongValue(0, descriptor, data)])))
