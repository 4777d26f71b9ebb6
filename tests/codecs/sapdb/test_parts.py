"""What the buffers of parts hold: both ways, and what they refuse."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.sapdb.constants import PartKind
from app.codecs.sapdb.data_rows import decode_rows
from app.codecs.sapdb.packet import decode_packet
from app.codecs.sapdb.packet_records import LongDescriptor, ParameterInfo, Parsid, VardataParameterInfo
from app.codecs.sapdb.parameter_values import Manner, code_of
from app.codecs.sapdb.part_buffers import (
    KINDS,
    LongDemand,
    LongValue,
    PartBuffer,
    SessionInfo,
    decode_part,
    encode_part,
    long_data,
)
from app.codecs.sapdb.temporal_digits import DateFormat
from app.wire import Context, WireError
from tests.codecs.sapdb.values import BIG, LITTLE, MANNERS, UNICODE_SWAP
from tests.codecs.sapdb.vectors import ALL, PACKETS
from tests.support.cases import for_each

HELD: dict[int, Any] = {
    PartKind.COLUMNNAMES: ("ID", "NAME", ""),
    PartKind.COMMAND: "SELECT 1",
    PartKind.ERRORTEXT: "Invalid end of SQL statement",
    PartKind.TABLENAME: '"DBA"."T"',
    PartKind.RESULTTABLENAME: "",
    PartKind.PARSID: (Parsid(b"\0\0\0\x19", b"\0\0\6", 1, 60, 0, 0, 0),) * 2,
    PartKind.RESULTCOUNT: -1,
    PartKind.RELATIVE_POS: None,
    PartKind.SHORTINFO: (ParameterInfo(2, 1, 0, 0, 12, 8, 1), ParameterInfo(1, 0, 24, 0, 8, 17, 9)),
    PartKind.VARDATA_SHORTINFO: (
        VardataParameterInfo(2, 0, 0, 0, 12, 8, 1, 0, 1),
        ParameterInfo(1, 1, 24, 0, 8, 17, 9),
    ),
    PartKind.USER_INFO_RETURNED: ("SUPERDBA", "SUPERDBA", "DBA", ""),
    PartKind.ABAP_INFO: ("ZREPORT", "123"),
    PartKind.FEATURE: ((1, 1), (3, 0)),
    PartKind.CLIENTID: " client",
    PartKind.CONV_TABLES_RETURNED: (bytes(range(256)),) * 4,
    PartKind.LONG_DEMAND: (LongDemand(0, 1, 1, 1000), LongDemand(0, 0, 17, None)),
    PartKind.LONGDATA: (
        LongValue(0, LongDescriptor(valmode=2, valpos=42, vallen=4), b"long"),
        LongValue(0, LongDescriptor(valmode=3, vallen=1000), b""),
    ),
    PartKind.SERIAL: b"anything",
}


@MANNERS
@for_each("kind", HELD)
def test_what_a_part_holds_comes_back(manner: Manner, kind: int) -> None:
    count, buffer = encode_part(kind, HELD[kind], manner)
    assert decode_part(kind, PartBuffer(buffer, count, manner, "part", 0)) == HELD[kind]


def test_the_info_of_a_session() -> None:
    raw = bytearray(SessionInfo.SIZE)
    assert len(raw) == 2208
    raw[0], raw[1:5], raw[169] = 1, b"\0\0\0\x19", DateFormat.ISO
    raw[2192:2197], raw[2200:2205] = b"08192", b"70600"
    held = decode_part(PartKind.SESSION_INFO_RETURNED, PartBuffer(bytes(raw), 1, BIG, "session", 0))
    assert (held.unicode_database, held.session_id, held.date_format) == (1, b"\0\0\0\x19", DateFormat.ISO)
    assert (held.page_size, held.kernel_version) == (b"08192", b"70600")
    assert encode_part(PartKind.SESSION_INFO_RETURNED, held, BIG) == (1, bytes(raw))
    with pytest.raises(WireError):
        decode_part(PartKind.SESSION_INFO_RETURNED, PartBuffer(bytes(100), 1, BIG, "session", 0))


READABLE = [
    (name, part)
    for name, vector in ALL.items()
    for segment in vector["decoded"]["segments"]
    for part in segment["parts"]
    if part["part_kind"] in {PartKind(kind).name.lower() for kind in KINDS} and "see hex" not in part["buf"]
]


def test_parts_of_the_vectors_encode_to_their_bytes() -> None:
    refused = []
    for name, part in READABLE:
        packet = decode_packet(PACKETS[name])
        manner = Manner(code_of(packet.header.mess_code, packet.order), packet.context)
        kind, buffer = PartKind[part["part_kind"].upper()], bytes.fromhex(part["buf"])
        try:
            held = decode_part(kind, PartBuffer(buffer, part["arg_count"], manner, "part", 0))
        except WireError:
            refused.append(name)
            continue
        assert encode_part(kind, held, manner)[1] == buffer, name
    assert len(READABLE) > 100
    assert all(name.startswith(("part_kind_", "parsid_len11", "reply_resultcount_invalid")) for name in refused)


@given(st.sampled_from(sorted(KINDS)), st.integers(0, 40), st.binary(max_size=120))
def test_any_buffer_is_a_value_or_our_error(kind: int, count: int, buffer: bytes) -> None:
    for manner in (BIG, UNICODE_SWAP):
        places = [0]
        try:
            decode_part(kind, PartBuffer(buffer, count, manner, "part", 0))
        except WireError as error:
            places.append(error.at)
        assert 0 <= places[-1] <= len(buffer) + 1


def test_every_piece_of_a_long_value_is_where_its_descriptor_says() -> None:
    _, whole = encode_part(PartKind.LONGDATA, HELD[PartKind.LONGDATA], LITTLE)
    for end in range(len(whole)):
        with pytest.raises(WireError):
            decode_part(PartKind.LONGDATA, PartBuffer(whole[:end], 2, LITTLE, "part", 0))
    with pytest.raises(WireError, match="bytes from position"):
        long_data(bytes(10), LongDescriptor(valpos=5, vallen=7))
    with pytest.raises(WireError, match="bytes from position"):
        long_data(bytes(10), LongDescriptor(valpos=-5, vallen=7))


def test_the_pieces_of_a_long_value_that_the_driver_sends() -> None:
    execute, putval = (decode_packet(PACKETS[name]).segments[0].parts[-1] for name in ("wire_21", "wire_22"))
    described = [
        ParameterInfo(2, 0, kind, 0, length, size, at)
        for kind, length, size, at in ((0, 4, 4, 1), (19, 0, 41, 5), (21, 0, 41, 46))
    ]
    (row,) = decode_rows(execute.buffer, described, 1, BIG)
    descriptors = [value for value in row if isinstance(value, LongDescriptor)]
    pieces = [len(long_data(execute.buffer, each)) for each in descriptors]
    (value,) = decode_part(PartKind.LONGDATA, PartBuffer(putval.buffer, 1, BIG, "part", 0))
    assert pieces == [each.vallen for each in descriptors]
    assert len(value.data) == value.descriptor.vallen == len(putval.buffer) - 41
    assert sum(pieces) > 20_000


def test_descriptors_have_the_clients_byte_order() -> None:
    raw = bytes.fromhex("a0a1a2a3a4a5a6a7b0b1b2b3b4b5b6b7000000006970000000000000010000003405000068700000")
    descriptor, _ = LongDescriptor.decode(raw, 0, Context("<"))
    assert (descriptor.intern_pos, descriptor.valind, descriptor.valpos, descriptor.vallen) == (28777, 1, 1332, 28776)
