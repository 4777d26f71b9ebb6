"""Rows of data and vardata parts, a column at a time, are what they are one value at a time."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal, localcontext
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.codecs.sapdb.constants import LONGS, MOMENTS, DataType, PartKind, Undef
from app.codecs.sapdb.data_rows import columns, decode_rows, decode_vardata, encode_rows, encode_vardata, inputs
from app.codecs.sapdb.packet import Packet, decode_packet
from app.codecs.sapdb.packet_records import LongDescriptor, ParameterInfo, VardataParameterInfo
from app.codecs.sapdb.parameter_values import Code, Manner, code_of, encode_content, fraction, in_out_len
from app.codecs.sapdb.part_buffers import PartBuffer, decode_part
from app.codecs.sapdb.temporal_digits import DateFormat, Time
from app.dataset.parquet import write_parquet
from app.dataset.sapdb import column_types, row_columns, varying
from app.model.errors import InvalidInputError
from app.wire import Context, WireError
from tests.codecs.sapdb.vectors import ALL, DIRECT, PACKETS
from tests.support.length import examples

MANNERS = {
    "big": Manner(code_of(0, ">"), Context(">")),
    "little": Manner(code_of(0, "<"), Context("<")),
    "unicode": Manner(code_of(20, ">"), Context(">")),
    "unicode-swap": Manner(code_of(19, "<"), Context("<")),
}
FORMATS = [DateFormat.INTERNAL, DateFormat.ISO, DateFormat.EUR, DateFormat.JIS]


def plain(value: Any, kind: pa.DataType) -> Any:
    """A value of the codec as Arrow has it in a column of a type."""
    if value is None or isinstance(value, Undef):
        return None
    if isinstance(value, LongDescriptor):
        return bytes(value.descriptor).hex()
    if isinstance(value, Time):
        span = timedelta(hours=value.hours, minutes=value.minutes, seconds=value.seconds)
        return span if pa.types.is_duration(kind) else (datetime.min + span).time()
    return float(value) if pa.types.is_float64(kind) else value


def as_table(values: Sequence[Sequence[Any]], schema: pa.Schema) -> list[list[Any]]:
    return [[plain(value, field.type) for value, field in zip(row, schema, strict=True)] for row in values]


def cells(batch: pa.RecordBatch) -> list[list[Any]]:
    return [list(row) for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


def with_spans(schema: pa.Schema, number: int) -> pa.Schema:
    return schema.set(number, schema.field(number).with_type(pa.duration("us")))


def decoded(buffer: bytes, infos: Sequence[ParameterInfo], count: int, manner: Manner) -> pa.RecordBatch:
    schema = column_types.schema([], infos, {})
    while True:
        try:
            return row_columns.decode(buffer, infos, count, manner, schema)
        except row_columns.LongTimes as longer:
            schema = with_spans(schema, longer.column)


# --- vectors ----------------------------------------------------------------------------------------------------------


def described_parts(packet: Packet) -> list[tuple[tuple[ParameterInfo, ...], bytes, int]]:
    """The data parts of a packet that a shortinfo beside them describes."""
    manner = Manner(code_of(packet.header.mess_code, packet.order), packet.context)
    found = []
    for segment in packet.segments:
        parts = {part.header.part_kind: part for part in segment.parts}
        if PartKind.DATA in parts and PartKind.SHORTINFO in parts:
            info, data = parts[PartKind.SHORTINFO], parts[PartKind.DATA]
            try:
                held = decode_part(
                    info.header.part_kind, PartBuffer(info.buffer, info.header.arg_count, manner, "part", 0)
                )
            except WireError:
                continue
            found.append((columns(held), data.buffer, data.header.arg_count))
    return found


BESIDE = {name: parts for name in ALL if (parts := described_parts(decode_packet(PACKETS[name])))}


@pytest.mark.parametrize("name", BESIDE)
def test_rows_of_the_vectors_are_those_of_single_values(name: str) -> None:
    packet = decode_packet(PACKETS[name])
    manner = Manner(code_of(packet.header.mess_code, packet.order), packet.context)
    for infos, buffer, count in BESIDE[name]:
        expected = decode_rows(buffer, infos, count, manner)
        batch = decoded(buffer, infos, count, manner)
        assert cells(batch) == as_table(expected, batch.schema)


TOLD = [name for name, vector in DIRECT.items() if "param_info" in vector]


@pytest.mark.parametrize("name", TOLD)
def test_rows_of_the_driver_are_those_of_single_values(name: str) -> None:
    packet = decode_packet(PACKETS[name])
    manner = Manner(code_of(packet.header.mess_code, packet.order), packet.context)
    infos = tuple(ParameterInfo(**each) for each in DIRECT[name]["param_info"])
    (buffer,) = (part.buffer for part in packet.segments[0].parts if part.header.part_kind == PartKind.DATA)
    count = len(DIRECT[name]["rows"])
    batch = decoded(buffer, infos, count, manner)
    assert cells(batch) == as_table(decode_rows(buffer, infos, count, manner), batch.schema)


def test_all_types_of_the_driver_are_those_of_single_values() -> None:
    infos = tuple(ParameterInfo(**each) for each in DIRECT["execute_all_null"]["param_info"])
    packet = decode_packet(PACKETS["wire_8"])
    (buffer,) = (part.buffer for part in packet.segments[0].parts if part.header.part_kind == PartKind.DATA)
    batch = decoded(buffer, infos, 1, MANNERS["big"])
    assert cells(batch) == as_table(decode_rows(buffer, infos, 1, MANNERS["big"]), batch.schema)
    assert [str(kind) for kind in batch.schema.types] == [
        "decimal128(8, 2)",
        "string",
        "date32[day]",
        "time64[us]",
        "timestamp[us]",
        "bool",
        "double",
        "binary",
        "string",
        "decimal128(5, 0)",
        "decimal128(10, 0)",
        "string",
    ]


def test_vardata_of_the_driver_are_those_of_single_values() -> None:
    packet = decode_packet(PACKETS["execute_vardata"])
    (buffer,) = (part.buffer for part in packet.segments[0].parts if part.header.part_kind == PartKind.VARDATA)
    kinds = [0, 2, 10, 2, 13, 23, 1, 4, 24, 2, 2, 2]
    infos = [
        VardataParameterInfo(2, 0, kind, 2, 300 if kind == DataType.CHAR_ASCII else 10, 11, number, 0, 0)
        for number, kind in enumerate(kinds)
    ]
    schema = column_types.schema([], infos, {})
    ours = varying.decode(buffer, infos, MANNERS["big"], schema)
    assert cells(ours) == as_table(decode_vardata(buffer, infos, MANNERS["big"]), schema)


# --- generated rows ---------------------------------------------------------------------------------------------------


def numbers(length: int, frac: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**length) + 1, 10**length - 1).map(lambda digits: Decimal(f"{digits}e-{frac}"))


LATIN = st.text(st.characters(codec="latin-1", exclude_characters="\0"), max_size=9).map(lambda text: text.rstrip(" "))
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(lambda text: text.rstrip(" "))
DOUBLES = st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: not value or 1e-60 < abs(value) < 1e60)
KINDS: dict[tuple[DataType, int, int], st.SearchStrategy[Any]] = {
    (DataType.FIXED, 5, 2): numbers(5, 2),
    (DataType.FIXED, 18, 4): numbers(18, 4),
    (DataType.FIXED, 19, 0): numbers(19, 0),
    (DataType.FIXED, 38, 10): numbers(38, 10),
    (DataType.FIXED, 38, 38): numbers(38, 38),
    (DataType.SMALLINT, 5, 0): st.integers(-32768, 32767).map(Decimal),
    (DataType.INTEGER, 10, 0): st.integers(-(2**31), 2**31 - 1).map(Decimal),
    (DataType.FLOAT, 17, 0): DOUBLES.map(lambda value: Decimal(repr(value))),
    (DataType.VFLOAT, 17, 255): DOUBLES.map(lambda value: Decimal(repr(value))),
    (DataType.CHAR_ASCII, 10, 0): LATIN,
    (DataType.VARCHAR_ASCII, 10, 0): LATIN,
    (DataType.UNICODE, 10, 0): ANY_TEXT,
    (DataType.VARCHAR_UNICODE, 10, 0): ANY_TEXT,
    (DataType.CHAR_BYTE, 3, 0): st.binary(min_size=3, max_size=3),
    (DataType.VARCHAR_BYTE, 5, 0): st.binary(max_size=5).map(lambda data: data.rstrip(b"\0")),
    (DataType.DATE, 10, 0): st.dates(),
    (DataType.TIME, 8, 0): st.builds(Time, st.integers(0, 99), st.integers(0, 59), st.integers(0, 59)),
    (DataType.TIMESTAMP, 26, 0): st.datetimes(),
    (DataType.BOOLEAN, 1, 0): st.booleans(),
}
MISSING = st.sampled_from([Undef.NULL, Undef.SPECIAL_NULL, Undef.DEFAULT, Undef.LONG_DEFAULT])


@st.composite
def tables(draw: st.DrawFn) -> tuple[Manner, tuple[ParameterInfo, ...], list[list[Any]]]:
    manner = MANNERS[draw(st.sampled_from(sorted(MANNERS)))]._replace(date_format=draw(st.sampled_from(FORMATS)))
    chosen = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6))
    infos, at = [], 1
    for data_type, length, frac in chosen:
        size = in_out_len(data_type, length, unicode_packet=manner.code.is_unicode)
        infos.append(ParameterInfo(2, 0, data_type, frac, length, size, at))
        at += size + draw(st.integers(0, 2))
    row = st.tuples(*(st.one_of(KINDS[kind], KINDS[kind], MISSING) for kind in chosen))
    return manner, tuple(infos), [list(each) for each in draw(st.lists(row, max_size=12))]


@settings(max_examples=examples(60), deadline=None)
@given(tables())
def test_generated_rows_are_those_of_single_values(made: tuple[Manner, tuple[ParameterInfo, ...], list[Any]]) -> None:
    manner, infos, values = made
    buffer = encode_rows(values, infos, manner)
    batch = decoded(buffer, infos, len(values), manner)
    assert batch.num_rows == len(values)
    assert cells(batch) == as_table(decode_rows(buffer, infos, len(values), manner), batch.schema)


@settings(max_examples=examples(60), deadline=None)
@given(tables())
def test_rows_are_written_as_single_values_are(made: tuple[Manner, tuple[ParameterInfo, ...], list[Any]]) -> None:
    manner, infos, values = made
    present = [[None if isinstance(value, Undef) else value for value in row] for row in values]
    buffer = encode_rows(present, infos, manner)
    batch = decoded(buffer, infos, len(values), manner)
    assert row_columns.encode(batch, infos, manner).tobytes() == buffer


@settings(max_examples=examples(60), deadline=None)
@given(tables())
def test_rows_of_vardata(made: tuple[Manner, tuple[ParameterInfo, ...], list[Any]]) -> None:
    # Texts of vardata have one byte a character, whatever the code of their packet.
    manner, infos, values = made
    manner = manner._replace(code=code_of(0, manner.context.order))
    fields = [
        [
            value if isinstance(value, Undef) else encode_content(value, info, manner)
            for value, info in zip(row, infos, strict=True)
        ]
        for row in values
    ]
    buffer = encode_vardata(fields)
    schema = column_types.schema([], infos, {})
    while True:
        try:
            batch = varying.decode(buffer, infos, manner, schema)
            break
        except row_columns.LongTimes as longer:
            schema = with_spans(schema, longer.column)
    assert cells(batch) == as_table(decode_vardata(buffer, infos, manner), schema)
    again = varying.encode(batch, infos, manner)
    assert cells(varying.decode(b"".join(again), infos, manner, schema)) == cells(batch)


def does_not_fit(value: Any, info: ParameterInfo) -> bool:
    """Whether a value is one that its column's type does not have: a number, or a text that is too long."""
    if isinstance(value, str) and info.data_type not in MOMENTS:
        return len(value.encode("utf-16-le")) // 2 > info.length
    if not isinstance(value, Decimal) or (frac := fraction(info)) is None:
        return False
    with localcontext(prec=200):
        scaled = value.scaleb(frac)
        return abs(scaled) >= 10**info.length or scaled != scaled.to_integral_value()


@settings(max_examples=examples(60), deadline=None)
@given(tables(), st.data())
def test_any_bytes_are_what_single_values_say(
    made: tuple[Manner, tuple[ParameterInfo, ...], list[Any]], data: st.DataObject
) -> None:
    manner, infos, values = made
    buffer = bytearray(encode_rows(values, infos, manner))
    for _ in range(data.draw(st.integers(1, 4)) if buffer else 0):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    try:
        expected = decode_rows(bytes(buffer), infos, len(values), manner)
    except WireError as single:
        with pytest.raises(WireError) as refused:
            decoded(bytes(buffer), infos, len(values), manner)
        if len(infos) == 1:
            assert (refused.value.row, refused.value.at) == (single.row, single.at)  # noqa: PT017
        return
    if any(does_not_fit(value, info) for row in expected for value, info in zip(row, infos, strict=True)):
        with pytest.raises(WireError, match=r"does not fit|after the decimal point|characters of its type"):
            decoded(bytes(buffer), infos, len(values), manner)
        return
    batch = decoded(bytes(buffer), infos, len(values), manner)
    assert cells(batch) == as_table(expected, batch.schema)


@pytest.mark.parametrize("length", [5, 18, 19, 38])
def test_numbers_of_every_size_are_what_single_values_say(length: int) -> None:
    """The first byte says where the point is: from far before to far behind the digits of the type."""
    manner = Manner(Code("latin-1", "utf-16-be"), Context(order=">"), DateFormat.INTERNAL)
    for frac in {0, 2, length // 2, length}:
        info = ParameterInfo(2, 0, DataType.FIXED, frac, length, 2 + (length + 1) // 2, 1)
        for first in range(256):
            for digits in (b"\x10", b"\x01", b"\0\x01", b"\x12\x34", b"\x99\x90", b"\x99" * ((length + 1) // 2)):
                row = (bytes([0, first]) + digits).ljust(info.in_out_len, b"\0")
                try:
                    ((expected,),) = decode_rows(row, (info,), 1, manner)
                    fits = not does_not_fit(expected, info)
                except WireError:
                    fits = False
                if fits:
                    assert cells(decoded(row, (info,), 1, manner)) == [[expected]]
                else:
                    with pytest.raises(WireError):
                        decoded(row, (info,), 1, manner)


@pytest.mark.parametrize("is_wide", [False, True], ids=["alone", "beside a wide one"])
def test_a_text_that_is_longer_than_its_type_is_refused(is_wide: bool) -> None:
    """A column for ten characters of two bytes has room for twenty of one byte."""
    info = ParameterInfo(2, 0, DataType.VARCHAR_ASCII, 0, 10, 21, 1)
    manner = Manner(Code("utf-16-be", "utf-16-be"), Context(order=">"), DateFormat.INTERNAL)
    narrow, wide = b" " + b"x" * 11 + b" " * 9, b"\1" + "y".ljust(10).encode("utf-16-be")
    rows = [wide, narrow] if is_wide else [narrow]
    with pytest.raises(WireError, match="more than the 10 characters"):
        decoded(b"".join(rows), (info,), len(rows), manner)


# --- from Arrow and back ----------------------------------------------------------------------------------------------

TABLE = pa.table(
    {
        "small": pa.array([1, None, -32768], pa.int16()),
        "whole": pa.array([2**31 - 1, None, -(2**31)], pa.int32()),
        "long": pa.array([2**63 - 1, None, -(2**63)], pa.int64()),
        "huge": pa.array([2**64 - 1, None, 0], pa.uint64()),
        "number": pa.array([0.1, None, -1e-60]),
        "price": pa.array([Decimal("1.25"), None, Decimal("-999.99")], pa.decimal128(5, 2)),
        "wide": pa.array([Decimal(10**37), None, Decimal(-5)], pa.decimal128(38, 0)),
        "latin": pa.array(["é", None, "a b"]),
        "any": pa.array(["\u20ac\U0001f600", None, "a longer one"]),
        "pairs": pa.array(["\U0001f600", None, "ab"]),
        "data": pa.array([b"\0\1", None, b""], pa.binary()),
        "exact": pa.array([b"\1\0", None, b"\0\0"], pa.binary(2)),
        "day": pa.array([date(1, 1, 1), None, date(9999, 12, 31)]),
        "clock": pa.array([time(0, 0), None, time(23, 59, 59)], pa.time64("us")),
        "span": pa.array([timedelta(hours=99), None, timedelta(0)], pa.duration("us")),
        "stamp": pa.array([datetime(1, 1, 1), None, datetime(9999, 12, 31, 23, 59, 59, 999999)], pa.timestamp("us")),
        "flag": pa.array([True, None, False]),
        "nothing": pa.nulls(3),
    }
)


@pytest.mark.parametrize("manner", MANNERS.values(), ids=MANNERS)
def test_a_table_comes_back(manner: Manner) -> None:
    (batch,) = TABLE.to_batches()
    needed = column_types.needs([batch])
    infos = column_types.parameters(batch.schema, needed, unicode_packet=manner.code.is_unicode)
    sent = row_columns.encode(batch, infos, manner).tobytes()
    assert inputs(infos) == infos
    schema = column_types.schema(batch.schema.names, infos, {})
    schema = with_spans(schema, schema.get_field_index("span"))
    back = row_columns.decode(sent, infos, batch.num_rows, manner, schema)
    assert back.schema.names == batch.schema.names
    for name in batch.schema.names:
        ours = back.column(name).to_pylist()
        assert ours == batch.column(name).to_pylist(), name
    again = column_types.parameters(back.schema, column_types.needs([back]), unicode_packet=manner.code.is_unicode)
    assert again == infos
    assert row_columns.encode(back, again, manner).tobytes() == sent


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (pa.array([float("inf")]), "not finite"),
        (pa.array([1e63]), "does not fit float"),
        (pa.array([b"a\0"]), "padding"),
        (pa.array([time(0, 0, 0, 1)], pa.time64("us")), "fraction of a second"),
        (pa.array([timedelta(hours=100)], pa.duration("us")), "hours"),
        (pa.array([-timedelta(1)], pa.duration("us")), "hours"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.type),
)
def test_a_value_that_has_no_place_is_refused_with_its_row(values: pa.Array, why: str) -> None:
    batch = pa.record_batch([pa.concat_arrays([pa.nulls(1, values.type), values])], ["V"])
    infos = column_types.parameters(batch.schema, column_types.needs([batch]))
    with pytest.raises(InvalidInputError, match=f"row 8: .*{why}") as refused:
        row_columns.encode(batch, infos, MANNERS["big"], first=6)
    assert refused.value.row == "V"


@pytest.mark.parametrize(
    "values", [pa.array([[1]]), pa.array([{"a": 1}]), pa.array([Decimal(1)], pa.decimal256(40, 0))], ids=str
)
def test_a_type_without_counterpart_is_refused(values: pa.Array) -> None:
    schema = pa.schema([pa.field("V", values.type)])
    with pytest.raises(InvalidInputError, match="no counterpart"):
        column_types.parameters(schema, {})


def test_texts_too_long_for_a_field_are_refused() -> None:
    batch = pa.record_batch([pa.array(["\u20ac" * 20_000])], ["V"])
    with pytest.raises(InvalidInputError, match="20,000 characters, and VARCHAR UNICODE has at most 16,383"):
        column_types.parameters(batch.schema, column_types.needs([batch]))


def test_names_that_are_missing_or_taken_get_numbers() -> None:
    info = ParameterInfo(0, 1, DataType.BOOLEAN, 0, 1, 2, 1)
    assert column_types.schema(["A", "A", ""], [info] * 4, {}).names == ["A", "A_2", "COLUMN_3", "COLUMN_4"]
    assert column_types.schema(["A_3", "A", "A", "a"], [info] * 4, {}).names == ["A_3", "A", "A_4", "a_5"]


@given(st.lists(st.sampled_from(["A", "a", "A_2", "a_3", "COLUMN_1", "column_2", "", "ß", "SS", "ss_3"]), max_size=8))
def test_the_names_of_columns_differ_also_without_regard_to_case(names: list[str]) -> None:
    info = ParameterInfo(0, 1, DataType.BOOLEAN, 0, 1, 2, 1)
    found = column_types.schema(names, [info] * (len(names) + 1), {}).names
    assert len({name.casefold() for name in found}) == len(found)
    assert [each for each, name in zip(found, names, strict=False) if name and each.startswith(name)] == [
        each for each, name in zip(found, names, strict=False) if name
    ]


def test_many_rows_of_text_are_stored_whatever_their_columns_are_called() -> None:
    info = ParameterInfo(0, 1, DataType.CHAR_ASCII, 0, 4, 5, 1)
    schema = column_types.schema(["A_3", "A", "A"], [info] * 3, {})
    values = [[f"{column}{row % 7}" for row in range(1000)] for column in "xyz"]
    sink = BytesIO()
    write_parquet(schema, [pa.RecordBatch.from_arrays([*map(pa.array, values)], schema=schema)], sink)
    assert [column.to_pylist() for column in pq.read_table(sink).columns] == values


def test_every_long_type_is_a_name() -> None:
    for data_type in LONGS:
        assert column_types.arrow_type(ParameterInfo(0, 1, data_type, 0, 0, 41, 1)) == pa.string()
