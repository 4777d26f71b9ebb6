"""Numbers, dates, values and the buffers of parts: both ways, and what they refuse."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.sapdb.constants import DataType, PartKind, Undef
from app.codecs.sapdb.headers import LongDescriptor, ParameterInfo, Parsid, VardataParameterInfo
from app.codecs.sapdb.numbers import NumberOverflow, decode_number, encode_number, field_size
from app.codecs.sapdb.packet import decode_packet
from app.codecs.sapdb.parts import KINDS, Held, LongDemand, LongValue, decode_part, encode_part, long_data
from app.codecs.sapdb.rows import (
    columns,
    decode_rows,
    decode_vardata,
    encode_rows,
    encode_vardata,
    inputs,
    vardata_fields,
)
from app.codecs.sapdb.session import SessionInfo
from app.codecs.sapdb.temporal import (
    DateFormat,
    Time,
    date_text,
    parse_date,
    parse_time,
    parse_timestamp,
    time_text,
    timestamp_text,
)
from app.codecs.sapdb.texts import code_of
from app.codecs.sapdb.values import Manner, decode_value, encode_value, in_out_len
from app.wire import Context, WireError
from tests.codecs.sapdb.vectors import ALL, DIRECT, PACKETS

BIG = Manner(code_of(0, ">"), Context(">"))
LITTLE = Manner(code_of(0, "<"), Context("<"))
UNICODE = Manner(code_of(20, ">"), Context(">"))
UNICODE_SWAP = Manner(code_of(19, "<"), Context("<"))
MANNERS = pytest.mark.parametrize("manner", [BIG, LITTLE, UNICODE, UNICODE_SWAP], ids=["big", "little", "u20", "u19"])
FORMATS = [DateFormat.INTERNAL, DateFormat.ISO, DateFormat.USA, DateFormat.EUR, DateFormat.JIS]


# --- numbers ----------------------------------------------------------------------------------------------------------

decimals = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent),
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.integers(-60, 24),
)


@given(decimals)
def test_any_number_comes_back(value: Decimal) -> None:
    assert decode_number(encode_number(value, 38)) == value


@given(decimals, decimals)
def test_the_bytes_of_numbers_sort_as_they_do(one: Decimal, other: Decimal) -> None:
    assert (encode_number(one, 38) < encode_number(other, 38)) == (one < other)


@given(st.decimals(-(10**12), 10**12, places=6), st.integers(1, 15), st.integers(0, 6))
def test_fixed_numbers_are_rounded_half_away_from_zero(value: Decimal, length: int, frac: int) -> None:
    frac = min(frac, length)
    unit = Decimal(1).scaleb(-frac)
    rounded = value.quantize(unit, "ROUND_HALF_UP")
    if abs(rounded) >= Decimal(10) ** (length - frac):
        with pytest.raises(NumberOverflow):
            encode_number(value, length, frac)
        return
    field = encode_number(value, length, frac)
    assert len(field) == field_size(length)
    assert decode_number(field) == rounded


@pytest.mark.parametrize(
    ("value", "length", "frac"),
    [
        ("1E64", 38, None),
        ("-1E63", 38, None),
        ("1E-65", 38, None),
        ("100", 4, 2),
        ("99.995", 4, 2),
        ("1E+999999", 38, 0),
    ],
)
def test_a_number_that_does_not_fit_overflows(value: str, length: int, frac: int | None) -> None:
    with pytest.raises(NumberOverflow):
        encode_number(Decimal(value), length, frac)


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
def test_numbers_are_finite(value: str) -> None:
    with pytest.raises(WireError, match="not a number"):
        encode_number(Decimal(value), 10)


@pytest.mark.parametrize(("length", "frac"), [(0, 0), (39, 0), (5, 6), (5, -1)])
def test_types_of_numbers_that_do_not_exist(length: int, frac: int) -> None:
    with pytest.raises(WireError, match="no type"):
        encode_number(1, length, frac)


@pytest.mark.parametrize(
    ("field", "at"), [("", 0), ("00c110", 0), ("c1", 1), ("c100", 1), ("c1a0", 1), ("c1100f", 2), ("c1" + "11" * 20, 1)]
)
def test_bytes_that_are_no_number(field: str, at: int) -> None:
    with pytest.raises(WireError) as refused:
        decode_number(bytes.fromhex(field))
    assert refused.value.at == at


@given(st.binary(max_size=25))
def test_any_bytes_are_a_number_or_our_error(field: bytes) -> None:
    places = [0]
    try:
        assert decode_number(field).is_finite()
    except WireError as error:
        places.append(error.at)
    assert 0 <= places[-1] <= max(1, len(field))


# --- dates and times --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("date_format", FORMATS)
@given(st.datetimes(datetime(1, 1, 1)), st.integers(0, 9999))
def test_moments_come_back_in_every_format(date_format: DateFormat, moment: datetime, hours: int) -> None:
    assert parse_date(date_text(moment.date(), date_format), "date", 0) == moment.date()
    assert parse_timestamp(timestamp_text(moment, date_format), "timestamp", 0) == moment
    hours %= 10_000 if date_format == DateFormat.INTERNAL else 24
    time = Time(hours, moment.minute, 0 if date_format == DateFormat.USA else moment.second)
    assert parse_time(time_text(time, date_format), "time", 0) == time


def test_moments_as_the_formats_have_them() -> None:
    day, time = date(2001, 5, 10), Time(14, 39, 44)
    moment = datetime(1999, 1, 23, 14, 30, 8, 456234)
    texts = [(date_text(day, each), time_text(time, each), timestamp_text(moment, each)) for each in FORMATS]
    assert texts == [
        ("20010510", "00143944", "19990123143008456234"),
        ("2001-05-10", "14:39:44", "1999-01-23 14:30:08.456234"),
        ("05/10/2001", "02:39 PM", "1999-01-23-14.30.08.456234"),
        ("10.05.2001", "14.39.44", "1999-01-23-14.30.08.456234"),
        ("2001-05-10", "14:39:44", "1999-01-23-14.30.08.456234"),
    ]
    assert [parse_time(text, "", 0).hours for text in ("12:00 AM", "12:00 PM", "01:00 AM", "11:59 PM")] == [
        0,
        12,
        1,
        23,
    ]
    with pytest.raises(WireError, match="ORACLE"):
        date_text(day, DateFormat.ORACLE)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (DataType.DATE, "2001-02-29"),
        (DataType.DATE, "10/31/01"),
        (DataType.DATE, ""),
        (DataType.TIME, "13:00 PM"),
        (DataType.TIME, "10:61:00"),
        (DataType.TIMESTAMP, "1999-01-23 25:00:00.000000"),
        (DataType.TIMESTAMP, "1999-01-23"),
    ],
)
def test_texts_that_are_no_moment(kind: int, text: str) -> None:
    with pytest.raises(WireError):
        decode_value(kind, b" " + text.encode(), BIG)


# --- values -----------------------------------------------------------------------------------------------------------

VALUES: list[tuple[int, int, int, Any]] = [
    (DataType.FIXED, 8, 2, Decimal("-4711.08")),
    (DataType.FLOAT, 15, 255, Decimal("1E+62")),
    (DataType.SMALLINT, 5, 0, Decimal(-32768)),
    (DataType.INTEGER, 10, 0, Decimal(2147483647)),
    (DataType.CHAR_ASCII, 10, 0, "Güte"),
    (DataType.VARCHAR_ASCII, 3, 0, ""),
    (DataType.CHAR_BYTE, 4, 0, b"\1\2\xff\0"),
    (DataType.VARCHAR_BYTE, 4, 0, b"\1\2\xff"),
    (DataType.UNICODE, 5, 0, "Ω1"),
    (DataType.VARCHAR_UNICODE, 5, 0, "Ω1"),
    (DataType.CHAR_EBCDIC, 5, 0, "A1"),
    (DataType.DATE, 10, 0, date(2001, 5, 10)),
    (DataType.TIME, 8, 0, Time(14, 39, 44)),
    (DataType.TIMESTAMP, 26, 0, datetime(1999, 1, 23, 14, 30, 8, 456234)),
    (DataType.BOOLEAN, 1, 0, True),
    (DataType.LONG_ASCII, 0, 0, LongDescriptor(valmode=2, valpos=87, vallen=17)),
]


def table(manner: Manner) -> tuple[list[ParameterInfo], list[Any]]:
    """A parameter for each type, with its place in a row, and a value for each."""
    parameters, at = [], 1
    for kind, length, frac, _ in VALUES:
        size = in_out_len(kind, length, unicode_packet=manner.code.is_unicode)
        parameters.append(ParameterInfo(2, 0, kind, frac, length, size, at))
        at += size
    return parameters, [value for *_, value in VALUES]


@MANNERS
def test_values_of_all_types_come_back(manner: Manner) -> None:
    parameters, row = table(manner)
    missing = [[each] * len(row) for each in Undef]
    rows = [row, *missing, row]
    data = encode_rows(rows, parameters, manner)
    assert [list(each) for each in decode_rows(data, parameters, len(rows), manner)] == rows
    assert encode_rows(decode_rows(data, parameters, len(rows), manner), parameters, manner) == data


def test_undef_bytes_are_the_types() -> None:
    parameters, row = table(BIG)
    data = encode_rows([row], parameters, BIG)
    assert bytes(data[each.bufpos - 1] for each in parameters).hex() == "00000000202000000101402020200000"
    parameters, row = table(UNICODE)
    data = encode_rows([row], parameters, UNICODE)
    assert bytes(data[each.bufpos - 1] for each in parameters).hex() == "00000000010100000101400101010000"
    assert [each.in_out_len for each in parameters if each.data_type == DataType.DATE] == [21]


def test_sizes_of_values_are_those_that_the_kernel_describes() -> None:
    described = [
        info for vector in ALL.values() for info in (ParameterInfo(**each) for each in vector.get("param_info", []))
    ]
    assert len(described) > 20
    assert [in_out_len(each.data_type, each.length) for each in described] == [each.in_out_len for each in described]


def buffer_of(name: str, kind: str) -> bytes:
    for segment in ALL[name]["decoded"]["segments"]:
        for part in segment["parts"]:
            if part["part_kind"] == kind:
                return bytes.fromhex(part["buf"])
    raise AssertionError(f"{name} has no {kind}")


def shown(value: Any) -> Any:
    if isinstance(value, Undef):
        return value.name
    if isinstance(value, LongDescriptor):
        rows = ("maxlen", "intern_pos", "infoset", "state", "valmode", "valind", "valpos", "vallen")
        return {row: int(getattr(value, row)) for row in rows}
    return str(value)


@pytest.mark.parametrize("name", [name for name, vector in DIRECT.items() if "rows" in vector])
def test_rows_are_those_that_the_driver_was_given(name: str) -> None:
    vector = DIRECT[name]
    parameters = [ParameterInfo(**each) for each in vector["param_info"]]
    data = buffer_of(name, "data")
    rows = decode_rows(data, inputs(parameters), len(vector["rows"]), BIG)
    assert [[shown(value) for value in row] for row in rows] == vector["rows"]
    written = encode_rows(rows, parameters, BIG)
    assert data.startswith(written)
    for value in rows[0]:
        if isinstance(value, LongDescriptor):
            assert long_data(data, value) == b"a long text value"


def test_all_types_as_the_driver_sends_them() -> None:
    parameters = [ParameterInfo(**each) for each in DIRECT["execute_all_null"]["param_info"]]
    data = buffer_of("wire_8", "data")
    (row,) = decode_rows(data, parameters, 1, BIG)
    assert [shown(value) for value in row] == [
        "4711.08",
        "Grüße",
        "2001-05-10",
        "Time(hours=14, minutes=39, seconds=44)",
        "1999-01-23 14:30:08.456234",
        "True",
        "-1.5E-7",
        "b'\\x01\\x02\\xff\\x00'",
        "Ω1",
        "-32768",
        "2147483647",
        "vc",
    ]
    assert encode_rows([row], parameters, BIG) == data


def test_a_mass_insert_of_the_driver() -> None:
    parameters = [ParameterInfo(**each) for each in DIRECT["mass_insert_only_packet"]["param_info"]]
    rows = []
    for name in ("wire_14", "wire_15"):
        part = decode_packet(PACKETS[name]).segments[0].parts[-1]
        found = decode_rows(part.buffer, inputs(parameters), part.header.arg_count, BIG)
        assert encode_rows(found, parameters, BIG) == part.buffer
        rows += found
    assert len(rows) == 1167 + 666
    assert all(isinstance(number, Decimal) for number, *_ in rows)


def test_times_of_usa_have_one_day() -> None:
    with pytest.raises(WireError, match="24 hours"):
        time_text(Time(24, 0, 0), DateFormat.USA)


def test_rows_of_vardata_have_the_fields_of_their_parameters() -> None:
    with pytest.raises(WireError, match="2 fields of 1 parameters"):
        decode_vardata(encode_vardata([[b"x", b"y"]]), [info(DataType.CHAR_BYTE, 3, 4)], BIG)


def test_vardata_as_the_driver_sends_them() -> None:
    data = buffer_of("execute_vardata", "vardata")
    rows = [[field for _, field in row] for row in vardata_fields(data)]
    expected = DIRECT["execute_vardata"]["vardata_rows"]
    assert [[each.hex() if isinstance(each, bytes) else shown(each) for each in row] for row in rows] == expected
    assert encode_vardata(rows) == data
    kinds = [0, 2, 10, 2, 13, 23, 1, 4, 24, 2, 2, 2]
    parameters = [VardataParameterInfo(2, 0, kind, 0, 10, 11, number, 0, 0) for number, kind in enumerate(kinds)]
    (values,) = decode_vardata(data, parameters, BIG)
    assert values[:3] == (Decimal("4711.08"), "Grüße", date(2001, 5, 10))
    assert values[3] is Undef.NULL
    assert (values[5], values[6], values[8], values[9]) == (False, 0, "Ω1", Undef.DEFAULT)


@pytest.mark.parametrize("size", [0, 1, 245, 246, 249, 250, 255, 65_535])
def test_fields_of_vardata_of_any_length_come_back(size: int) -> None:
    rows: list[list[bytes | Undef | None]] = [[bytes(size), Undef.NULL, None, Undef.SPECIAL_NULL], [b"x"]]
    data = encode_vardata(rows)
    assert [[field for _, field in row] for row in vardata_fields(data)] == rows


def test_lengths_of_one_byte_up_to_249_are_read() -> None:
    data = b"\0\1\xf9" + bytes(249)
    assert [[field for _, field in row] for row in vardata_fields(data)] == [[bytes(249)]]


@given(st.binary(max_size=80))
def test_any_bytes_are_vardata_or_our_error(data: bytes) -> None:
    places = [0]
    try:
        rows = list(vardata_fields(data))
        assert sum(len(row) for row in rows) <= len(data)
    except WireError as error:
        places.append(error.at)
    assert 0 <= places[-1] <= len(data)


@MANNERS
@given(st.data())
def test_any_bytes_are_rows_or_our_error(manner: Manner, data: st.DataObject) -> None:
    parameters, row = table(manner)
    sample = bytearray(encode_rows([row, row], parameters, manner))
    for place in data.draw(st.lists(st.integers(0, len(sample) - 1), max_size=4)):
        sample[place] = data.draw(st.integers(0, 255))
    places = [0]
    try:
        assert len(decode_rows(bytes(sample), parameters, 2, manner)) == 2
    except WireError as error:
        places.append(error.at)
    assert 0 <= places[-1] <= len(sample)


def info(kind: int, length: int, size: int, bufpos: int = 1) -> ParameterInfo:
    return ParameterInfo(2, 0, kind, 0, length, size, bufpos)


@pytest.mark.parametrize(
    ("value", "parameter"),
    [
        ("too long", info(DataType.CHAR_ASCII, 3, 4)),
        ("日", info(DataType.CHAR_ASCII, 3, 4)),
        (b"\1\2\3\4", info(DataType.CHAR_BYTE, 3, 4)),
        ("text", info(DataType.FIXED, 5, 5)),
        (17, info(DataType.CHAR_ASCII, 3, 4)),
        (17, info(DataType.LONG_ASCII, 0, 41)),
        (1_000_000_000_000, info(DataType.CHAR_BYTE, 3, 4)),
        (Time(100, 0, 0), info(DataType.TIME, 8, 9)),
        (1, info(DataType.FIXED, 5, 0)),
        (123456, info(DataType.FIXED, 5, 5)),
    ],
)
def test_values_that_their_parameter_cannot_have_are_not_written(value: Any, parameter: ParameterInfo) -> None:
    with pytest.raises(WireError):
        encode_value(value, parameter, BIG)


@pytest.mark.parametrize("count", [-1, 2, 1_000_000])
def test_rows_are_paid_for(count: int) -> None:
    with pytest.raises(WireError, match="rows of"):
        decode_rows(bytes(5), [info(DataType.FIXED, 4, 4)], count, BIG)


def test_places_that_no_row_can_have_are_refused() -> None:
    for parameter in (info(0, 4, 4, 0), info(0, 4, 0), info(0, 4, -5)):
        with pytest.raises(WireError, match="position"):
            decode_rows(bytes(50), [parameter], 1, BIG)


def test_columns_and_inputs_have_rows_of_their_own() -> None:
    each = [ParameterInfo(2, io_type, 0, 0, 4, 4, 1) for io_type in (0, 1, 2)]
    assert columns(each) == (each[1], each[2])
    assert inputs(each) == (each[0], each[2])


# --- parts ------------------------------------------------------------------------------------------------------------

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
@pytest.mark.parametrize("kind", HELD, ids=lambda kind: kind.name.lower())
def test_what_a_part_holds_comes_back(manner: Manner, kind: int) -> None:
    count, buffer = encode_part(kind, HELD[kind], manner)
    assert decode_part(kind, Held(buffer, count, manner, "part", 0)) == HELD[kind]


def test_the_info_of_a_session() -> None:
    raw = bytearray(SessionInfo.SIZE)
    assert len(raw) == 2208
    raw[0], raw[1:5], raw[169] = 1, b"\0\0\0\x19", DateFormat.ISO
    raw[2192:2197], raw[2200:2205] = b"08192", b"70600"
    held = decode_part(PartKind.SESSION_INFO_RETURNED, Held(bytes(raw), 1, BIG, "session", 0))
    assert (held.unicode_database, held.session_id, held.date_format) == (1, b"\0\0\0\x19", DateFormat.ISO)
    assert (held.page_size, held.kernel_version) == (b"08192", b"70600")
    assert encode_part(PartKind.SESSION_INFO_RETURNED, held, BIG) == (1, bytes(raw))
    with pytest.raises(WireError):
        decode_part(PartKind.SESSION_INFO_RETURNED, Held(bytes(100), 1, BIG, "session", 0))


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
            held = decode_part(kind, Held(buffer, part["arg_count"], manner, "part", 0))
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
            decode_part(kind, Held(buffer, count, manner, "part", 0))
        except WireError as error:
            places.append(error.at)
        assert 0 <= places[-1] <= len(buffer) + 1


def test_every_piece_of_a_long_value_is_where_its_descriptor_says() -> None:
    _, whole = encode_part(PartKind.LONGDATA, HELD[PartKind.LONGDATA], LITTLE)
    for end in range(len(whole)):
        with pytest.raises(WireError):
            decode_part(PartKind.LONGDATA, Held(whole[:end], 2, LITTLE, "part", 0))
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
    (value,) = decode_part(PartKind.LONGDATA, Held(putval.buffer, 1, BIG, "part", 0))
    assert pieces == [each.vallen for each in descriptors]
    assert len(value.data) == value.descriptor.vallen == len(putval.buffer) - 41
    assert sum(pieces) > 20_000


def test_descriptors_have_the_clients_byte_order() -> None:
    raw = bytes.fromhex("a0a1a2a3a4a5a6a7b0b1b2b3b4b5b6b7000000006970000000000000010000003405000068700000")
    descriptor, _ = LongDescriptor.decode(raw, 0, Context("<"))
    assert (descriptor.intern_pos, descriptor.valind, descriptor.valpos, descriptor.vallen) == (28777, 1, 1332, 28776)
