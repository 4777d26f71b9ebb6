"""Values, rows and vardata: both ways, and what they refuse."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.sapdb.constants import DataType, Undef
from app.codecs.sapdb.data_rows import (
    columns,
    decode_rows,
    decode_vardata,
    encode_rows,
    encode_vardata,
    inputs,
    vardata_fields,
)
from app.codecs.sapdb.packet import decode_packet
from app.codecs.sapdb.packet_records import LongDescriptor, ParameterInfo, VardataParameterInfo
from app.codecs.sapdb.parameter_values import Manner, encode_value, in_out_len
from app.codecs.sapdb.part_buffers import long_data
from app.codecs.sapdb.temporal_digits import Time
from app.wire import WireError
from tests.codecs.sapdb.values import BIG, MANNERS, UNICODE, buffer_of, info, shown
from tests.codecs.sapdb.vectors import ALL, DIRECT, PACKETS

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


def test_values_that_share_bytes_are_refused() -> None:
    shared = [info(DataType.FIXED, 4, 4), info(DataType.CHAR_ASCII, 3, 4, 4)]
    with pytest.raises(WireError, match="position 4 of a row, but the value before it ends at 4"):
        decode_rows(bytes(7), shared, 1, BIG)


@pytest.mark.parametrize(
    ("data_type", "length", "least"),
    [(DataType.FIXED, 10, 7), (DataType.FLOAT, 38, 21), (DataType.CHAR_ASCII, 8, 9), (DataType.UNICODE, 8, 17)],
)
def test_an_in_out_length_corresponds_with_its_length(data_type: int, length: int, least: int) -> None:
    assert (
        len(
            decode_rows(
                encode_rows([[None]], [info(data_type, length, least)], BIG), [info(data_type, length, least)], 1, BIG
            )
        )
        == 1
    )
    with pytest.raises(WireError, match=f"{least - 1}, but values of length {length} take {least} bytes"):
        decode_rows(bytes(least - 1), [info(data_type, length, least - 1)], 1, BIG)


def test_columns_and_inputs_have_rows_of_their_own() -> None:
    each = [ParameterInfo(2, io_type, 0, 0, 4, 4, 1) for io_type in (0, 1, 2)]
    assert columns(each) == (each[1], each[2])
    assert inputs(each) == (each[0], each[2])
