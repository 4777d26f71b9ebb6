"""The order interface against packets that the kernel's routines and the JDBC driver wrote, and what these read."""

import dataclasses
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from app.codecs.sapdb.constants import PartKind
from app.codecs.sapdb.data_rows import columns, decode_rows
from app.codecs.sapdb.numbers import NumberOverflow, decode_number, encode_number
from app.codecs.sapdb.packet import Packet, PacketSegment, Part, decode_packet, encode_packet, laid_out
from app.codecs.sapdb.packet_records import ReturnSegment
from app.codecs.sapdb.parameter_values import Manner, code_of
from app.codecs.sapdb.part_buffers import PartBuffer, decode_part
from app.trace import explain
from app.wire import Context, WireError
from tests.codecs.sapdb.vectors import ALL, DIRECT, KERNEL, NO_PACKETS, PACKETS, load
from tests.support.cases import for_each


@for_each("name", ALL)
def test_a_packet_encodes_to_its_bytes(name: str) -> None:
    packet = decode_packet(PACKETS[name])
    assert encode_packet(packet) == PACKETS[name]
    assert decode_packet(memoryview(PACKETS[name])) == packet


@for_each("name", ALL)
def test_a_packet_has_the_decoded_fields(name: str) -> None:
    (frame,) = explain(PACKETS[name])
    assert frame.format == "order-packet"
    decoded = frame.decoded["decoded"]
    expected = ALL[name]["decoded"]
    for ours, theirs in zip(decoded["segments"], expected["segments"], strict=True):
        for part, told in zip(ours["parts"], theirs["parts"], strict=True):
            if "see hex" in told["buf"]:
                assert len(part.pop("buf")) == 2 * told["buf_len"]
                del told["buf"]
    assert decoded == expected


@for_each("name", [*KERNEL, *DIRECT])
def test_the_trace_is_the_kernels(name: str) -> None:
    (frame,) = explain(PACKETS[name])
    assert frame.decoded["trace"] == ALL[name]["trace"]


@for_each("name", ALL)
def test_every_byte_has_its_cell(name: str) -> None:
    (frame,) = explain(PACKETS[name])
    assert sum(cell.size for cell in frame.cells) == len(PACKETS[name])
    assert all(other.at == one.at + one.size for one, other in pairwise(frame.cells))


def emptied(packet: Packet) -> list[tuple[Any, list[Part]]]:
    """The segments of a packet with all lengths, offsets, counts and sizes gone."""

    def segment(each: PacketSegment) -> Any:
        return dataclasses.replace(each.header, segm_len=0, segm_offset=0, no_of_parts=0, own_index=0)

    def part(each: Part) -> Part:
        return each._replace(header=dataclasses.replace(each.header, segm_offset=0, buf_len=0, buf_size=0))

    return [(segment(each), [part(one) for one in each.parts]) for each in packet.segments]


# The swap byte of the others contradicts their numbers on purpose.
ORDERED = [name for name, vector in ALL.items() if vector["decoded"]["mess_swap"] in {1, 2}]


@for_each("name", ORDERED)
def test_lengths_offsets_and_sizes_are_those_of_the_writer(name: str) -> None:
    packet = decode_packet(PACKETS[name])
    header = dataclasses.replace(packet.header, varpart_len=0, no_of_segm=0)
    ours = laid_out(header, emptied(packet))
    # The driver counts the part header among the bytes that are available.
    extra = 0 if name in KERNEL else 16
    segments = tuple(
        each._replace(
            parts=tuple(
                one._replace(header=dataclasses.replace(one.header, buf_size=one.header.buf_size + extra))
                for one in each.parts
            )
        )
        for each in ours.segments
    )
    assert ours._replace(segments=segments) == packet


@for_each("name", ALL)
def test_the_other_byte_order_says_the_same(name: str) -> None:
    packet = decode_packet(PACKETS[name])
    other = dataclasses.replace(packet.header, mess_swap=1 if packet.order == "<" else 2)
    parts = [(segment.header, segment.parts) for segment in packet.segments]
    turned = laid_out(other, parts)
    data = encode_packet(turned)
    assert data != PACKETS[name]
    back = decode_packet(data)
    assert back == turned
    assert [[part.buffer for part in each.parts] for each in back.segments] == [
        [part.buffer for part in each.parts] for each in packet.segments
    ]


@for_each("data", NO_PACKETS)
def test_what_a_client_sends_to_connect_is_no_packet(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_packet(data)


def manner_of(packet: Packet) -> Manner:
    return Manner(code_of(packet.header.mess_code, packet.order), packet.context)


def held_parts(packet: Packet, segment: PacketSegment) -> dict[int, Any]:
    """What the parts of a segment hold, by kind; a WireError for one that cannot be."""
    found: dict[int, Any] = {}
    for part in segment.parts:
        held = PartBuffer(part.buffer, part.header.arg_count, manner_of(packet), "part", 0)
        try:
            found[part.header.part_kind] = decode_part(part.header.part_kind, held)
        except WireError as error:
            found[part.header.part_kind] = error
    return found


REPLIES = [name for name, vector in KERNEL.items() if "jdbc_reply_packet" in vector]


@for_each("name", REPLIES)
def test_a_reply_says_what_the_driver_reads(name: str) -> None:
    packet = decode_packet(PACKETS[name])
    for segment, driver in zip(packet.segments, KERNEL[name]["jdbc_reply_packet"]["segments"], strict=True):
        header = segment.header
        assert isinstance(header, ReturnSegment)
        assert header.sqlstate.decode() == driver["sqlState"]
        assert (header.returncode, header.errorpos) == (driver["returnCode"], driver["errorPos"])
        assert (header.function_code, header.no_of_parts) == (driver["functionCode"], driver["partCount"])
        held = held_parts(packet, segment)
        assert_parts(held, driver)
        if "rows" in driver:
            assert_rows(packet, segment, held, driver)


def assert_parts(held: dict[int, Any], driver: dict[str, Any]) -> None:
    if "errorMsg" in driver:
        assert held[PartKind.ERRORTEXT] == driver["errorMsg"]
    if "resultCount" in driver:
        assert held[PartKind.RESULTCOUNT] == driver["resultCount"]
    if "resultCount_exc" in driver:
        assert isinstance(held[PartKind.RESULTCOUNT], WireError)
    if "columnNames" in driver:
        assert list(held[PartKind.COLUMNNAMES]) == driver["columnNames"]
    if "longDescriptors" in driver:
        longs = [each.descriptor.encode(Context("<")).hex() for each in held[PartKind.LONGDATA]]
        assert longs == driver["longDescriptors"]
    for info, told in zip(held.get(PartKind.SHORTINFO, ()), driver.get("shortFields", ()), strict=True):
        assert (info.length, info.in_out_len) == (told["precision"], told["physicalLength"])
        assert (info.io_type != 1, info.io_type != 0) == (told["isInput"], told["isOutput"])
        assert info.data_type.name.replace("_", " ") == told["type"]


def assert_rows(packet: Packet, segment: PacketSegment, held: dict[int, Any], driver: dict[str, Any]) -> None:
    data = next(part for part in segment.parts if part.header.part_kind == PartKind.DATA)
    found = columns(held[PartKind.SHORTINFO])
    rows = decode_rows(data.buffer, found, data.header.arg_count, manner_of(packet))
    shown = [[None if value.__class__.__name__ == "Undef" else str(value) for value in row] for row in rows]
    assert shown == driver["rows"]


@for_each("vector", load("vdn_kernel"))
def test_numbers_are_the_kernels(vector: dict[str, Any]) -> None:
    value, frac = Decimal(vector["value"]), None if vector["frac"] < 0 else vector["frac"]
    if vector["result"] == "num_overflow":
        with pytest.raises(NumberOverflow):
            encode_number(value, vector["length"], frac)
        return
    field = encode_number(value, vector["length"], frac)
    assert field.hex() == vector["hex"]
    assert {decode_number(field)} == {Decimal(text) for text in map(str.strip, vector["back"].values())}


@for_each("vector", load("vdn_jdbc"))
def test_numbers_are_the_drivers(vector: dict[str, Any]) -> None:
    assert encode_number(Decimal(vector["value"]), 38).hex() == vector["field20_hex"]
    for written in (vector["hex"], vector["field20_hex"]):
        assert decode_number(bytes.fromhex(written)) == Decimal(vector["value"])
