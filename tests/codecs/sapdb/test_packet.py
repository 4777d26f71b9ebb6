"""Packets: any bytes are a packet or an error with its byte, and lengths that contradict each other are errors."""

import dataclasses
import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.sapdb.constants import MOST_BYTES, MessCode, MessSwap, PartKind, SegmentKind
from app.codecs.sapdb.packet import Packet, decode_packet, encode_packet, fill_size, laid_out, new_part, packet_at
from app.codecs.sapdb.packet_records import CommandSegment, PacketHeader, PartHeader, ReturnSegment, UnknownSegment
from app.codecs.sapdb.parameter_values import Manner, code_of
from app.codecs.sapdb.part_buffers import PartBuffer, decode_part
from app.trace import NotRecognised, explain
from app.wire import WireError
from tests.codecs.sapdb.vectors import PACKETS
from tests.support.cases import for_each
from tests.support.length import IS_LONG

SHORT = [data for data in PACKETS.values() if len(data) < 1000]
EXAMPLE = PACKETS["seed_ex22_reply"]
TWO = PACKETS["reply_two_segments"]


def decoded_or_refused(data: bytes) -> Packet | None:
    """The packet, or None when the bytes are refused at one of them."""
    places: list[int] = []
    try:
        return decode_packet(data)
    except WireError as error:
        places.append(error.at)
    assert 0 <= places[0] <= len(data)
    return None


@for_each("name", [name for name, data in PACKETS.items() if len(data) < 1000])
def test_every_cut_is_an_error(name: str) -> None:
    for end in range(len(PACKETS[name])):
        with pytest.raises(WireError):
            decode_packet(PACKETS[name][:end])


def test_mutations_give_a_packet_or_our_error() -> None:
    random = Random(14)
    packets = 0
    for _ in range(200_000 if IS_LONG else 5_000):
        data = bytearray(random.choice(SHORT))
        for _ in range(random.choice((1, 1, 2, 8))):
            data[random.randrange(len(data))] = random.randrange(256)
        packet = decoded_or_refused(bytes(data))
        if packet is None:
            continue
        packets += 1
        assert encode_packet(packet) == data
        read_all(packet)
        (frame,) = explain(bytes(data), "order-packet")
        assert sum(cell.size for cell in frame.cells) == len(data)
        assert all(line.isprintable() for line in frame.decoded["trace"])
    assert packets > 500


def read_all(packet: Packet) -> None:
    """What its parts hold, each a value or a WireError."""
    manner = Manner(code_of(packet.header.mess_code, packet.order), packet.context)
    for segment in packet.segments:
        for part in segment.parts:
            places: list[int] = []
            try:
                decode_part(part.header.part_kind, PartBuffer(part.buffer, part.header.arg_count, manner, "part", 0))
            except WireError as error:
                places.append(error.at)
            assert all(0 <= place <= len(part.buffer) for place in places)


@given(st.binary(max_size=300), st.sampled_from([1, 2]))
def test_noise_behind_a_header_is_a_packet_or_our_error(noise: bytes, swap: int) -> None:
    order = ">" if swap == 1 else "<"
    header = struct.pack(f"{order}BBh5s3siihh8x", 0, swap, 0, b"70205", b"XCI", 28192, len(noise), 0, 1)
    if decoded_or_refused(header + noise) is None:
        with pytest.raises(NotRecognised):
            explain(header + noise, "order-packet")


def poked(data: bytes, at: int, code: str, value: int) -> bytes:
    raw = bytearray(data)
    struct.pack_into("<" + code, raw, at, value)
    return bytes(raw)


# A reply of one segment at 32, whose parts resultcount and data have their headers at 72 and 96.
@pytest.mark.parametrize(
    ("at", "code", "value", "row"),
    [
        (1, "B", 3, None),
        (12, "i", 103, "PacketHeader.varpart_size"),
        (16, "i", -1, "PacketHeader.varpart_len"),
        (16, "i", 112, "PacketHeader.varpart_len"),
        (22, "h", 0, "PacketHeader.no_of_segm"),
        (22, "h", 3, "PacketHeader.no_of_segm"),
        (32, "i", 39, "segment[0].segm_len"),
        (32, "i", -8, "segment[0].segm_len"),
        (32, "i", 112, "segment[0].segm_len"),
        (32, "i", 96, "segment[0].part[1].buf_len"),
        (36, "i", 8, "segment[0].segm_offset"),
        (40, "h", -1, "segment[0].no_of_parts"),
        (40, "h", 5, "segment[0].no_of_parts"),
        (40, "h", 1, "segment[0].segm_len"),
        (40, "h", 3, "segment[0].part[2].part_kind"),
        (74, "h", -1, "segment[0].part[0].arg_count"),
        (76, "i", 8, "segment[0].part[0].segm_offset"),
        (80, "i", -1, "segment[0].part[0].buf_len"),
        (80, "i", 2_000_000_000, "segment[0].part[0].buf_len"),
        (80, "i", 400, "segment[0].part[0].buf_len"),
        (84, "i", 6, "segment[0].part[0].buf_len"),
        (104, "i", 25, "segment[0].part[1].buf_len"),
    ],
)
def test_an_inconsistent_length_is_an_error_at_its_byte(at: int, code: str, value: int, row: str | None) -> None:
    damaged = poked(EXAMPLE, at, code, value)
    if row is None:
        assert decode_packet(damaged).order == "<"
        return
    with pytest.raises(WireError) as refused:
        decode_packet(damaged)
    assert refused.value.row == row
    expected = 80 if at == 84 else 32 if row == "segment[0].segm_len" else at
    assert refused.value.at == {"segment[0].part[2].part_kind": 136}.get(
        row, 104 if at == 32 and "part" in row else expected
    )


def test_a_length_that_is_too_small_by_16_bytes_at_most_is_read_as_an_old_client_means_it() -> None:
    assert decode_packet(poked(EXAMPLE, 16, "i", 88)).segments == decode_packet(EXAMPLE).segments
    with pytest.raises(WireError, match="segm_len"):
        decode_packet(poked(EXAMPLE, 16, "i", 87))


def test_a_swap_byte_that_says_nothing_leaves_the_order_to_the_lengths() -> None:
    assert decode_packet(poked(EXAMPLE, 1, "B", 255)).order == "<"
    assert decode_packet(bytes([0, 3]) + PACKETS["dbs_select"][2:]).order == ">"
    with pytest.raises(WireError) as refused:
        decode_packet(poked(poked(EXAMPLE, 1, "B", 0), 16, "i", 88))
    assert refused.value.at == 1


def test_packets_one_after_the_other() -> None:
    first, end = packet_at(EXAMPLE + TWO, 0)
    second, last = packet_at(EXAMPLE + TWO, end)
    assert (first, second) == (decode_packet(EXAMPLE), decode_packet(TWO))
    assert last == len(EXAMPLE + TWO)
    frames = explain(EXAMPLE + TWO)
    assert [frame.offset for frame in frames] == [0, len(EXAMPLE)]
    with pytest.raises(WireError, match="bytes after the packet"):
        decode_packet(EXAMPLE + TWO)


def test_a_packet_is_not_longer_than_any_can_be() -> None:
    header = struct.pack("<BBh5s3siihh8x", 0, 2, 0, b"70205", b"XCI", 1 << 20, MOST_BYTES - 24, 0, 1)
    with pytest.raises(WireError, match="at most 131072"):
        decode_packet(header + bytes(MOST_BYTES))


def test_unknown_kinds_of_segments_and_parts_are_kept() -> None:
    header = UnknownSegment(segm_kind=9, rest=bytes(range(27)))
    packet = laid_out(
        PacketHeader(varpart_size=1000), [(header, [new_part(PartHeader(part_kind=200, attributes=0xF8), b"abc")])]
    )
    back = decode_packet(encode_packet(packet))
    assert back == packet
    assert (back.segments[0].header.segm_kind, back.segments[0].parts[0].header.part_kind) == (9, 200)
    assert explain(encode_packet(packet))[0].decoded["trace"][2:] == [
        "   SEGM_KIND=9 SEGMENT 1   (1 part, len: 64)",
        "   PART_KIND=200 PART   (1 argument, size: 944)",
        "         buf(3): 'abc'",
    ]


def test_a_segment_may_have_no_parts_and_a_part_no_bytes() -> None:
    for header in (
        ReturnSegment(segm_kind=SegmentKind.RETURN),
        CommandSegment(segm_kind=SegmentKind.CMD, mess_type=25),
    ):
        packet = laid_out(PacketHeader(varpart_size=40), [(header, [])])
        assert decode_packet(encode_packet(packet)) == packet
    named = laid_out(
        PacketHeader(varpart_size=56),
        [(ReturnSegment(segm_kind=2), [new_part(PartHeader(part_kind=PartKind.RESULTTABLENAME), b"")])],
    )
    assert decode_packet(encode_packet(named)).segments[0].parts[0].header.buf_size == 0


def test_a_packet_has_no_more_than_there_is_room_for() -> None:
    parts = [new_part(PartHeader(part_kind=PartKind.COMMAND), b"SELECT 1")]
    with pytest.raises(WireError, match="varpart_size"):
        laid_out(PacketHeader(varpart_size=63), [(CommandSegment(segm_kind=1), parts)])
    assert laid_out(PacketHeader(varpart_size=64), [(CommandSegment(segm_kind=1), parts)]).header.varpart_len == 64


def test_headers_that_contradict_their_packet_are_not_written() -> None:
    packet = decode_packet(EXAMPLE)
    segment = packet.segments[0]
    part = segment.parts[0]
    longer = part._replace(buffer=part.buffer + bytes(8))
    with pytest.raises(WireError, match="segm_len"):
        encode_packet(packet._replace(segments=(segment._replace(parts=(longer, *segment.parts[1:])),)))
    shrunk = dataclasses.replace(part.header, buf_len=3)
    with pytest.raises(WireError):
        encode_packet(packet._replace(segments=(segment._replace(parts=(part._replace(header=shrunk), part)),)))
    with pytest.raises(WireError, match="mess_swap"):
        laid_out(PacketHeader(mess_swap=MessSwap.PART_SWAPPED, varpart_size=40), [])


@given(st.integers(0, 10_000))
def test_fill_reaches_the_next_multiple_of_8(size: int) -> None:
    assert (size + fill_size(size)) % 8 == 0
    assert 0 <= fill_size(size) < 8


@pytest.mark.parametrize(
    ("code", "order", "text", "written"),
    [
        (MessCode.ASCII, "<", "Größe", "4772f6df65"),
        (MessCode.UNICODE, ">", "Ω1", "03a90031"),
        (MessCode.UNICODE_SWAP, "<", "Ω1", "a9033100"),
        (MessCode.UNICODE_NATIVE, "<", "Ω1", "a9033100"),
        (MessCode.UTF8, ">", "Ω1", "cea931"),
        (MessCode.EBCDIC, ">", "A1", "c1f1"),
    ],
)
def test_commands_are_text_in_the_packets_code(code: int, order: str, text: str, written: str) -> None:
    swap = MessSwap.NORMAL if order == ">" else MessSwap.FULL_SWAPPED
    header = PacketHeader(mess_code=code, mess_swap=swap, varpart_size=1000)
    made = laid_out(
        header, [(CommandSegment(segm_kind=1), [new_part(PartHeader(part_kind=3), bytes.fromhex(written))])]
    )
    packet = decode_packet(encode_packet(made))
    manner = Manner(code_of(packet.header.mess_code, packet.order), packet.context)
    buffer = packet.segments[0].parts[0].buffer
    assert decode_part(PartKind.COMMAND, PartBuffer(buffer, 1, manner, "command", 0)) == text
