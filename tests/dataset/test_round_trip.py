"""Table -> observations -> table, for every order, length and kind of character set."""

import io
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dataset import format_names, sas_columns
from app.dataset.encode import character_lengths, describe, rows
from app.dataset.numeric import ByteOrder
from app.dataset.parquet import read_parquet, write_parquet
from app.model.errors import InvalidInputError
from tests.dataset.reading import read

ORDERS: tuple[ByteOrder, ...] = ("little", "big")
CHARSETS = ("utf-8", "latin-1", "cp1252", "cp1250", "cp037", "cp500", "ascii", "shift_jis", "gb18030", "euc_jp")


@cache
def alphabet(charset: str) -> st.SearchStrategy[str]:
    """The characters of a character set that it reads back as it wrote them."""
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x11000))))
    return st.sampled_from([c for c in every.encode(charset, "ignore").decode(charset) if ord(c) < 0x11000])


def through_rows(table: pa.Table, order: ByteOrder, charset: str, cut: int = 1000) -> pa.Table:
    lengths = character_lengths(table.to_batches(), charset)
    definition, variables = describe(
        table.schema, charset=charset, observations=table.num_rows, character_lengths=lengths
    )
    raw = b"".join(rows(table.to_batches(), variables, order=order, charset=charset))
    assert len(raw) == table.num_rows * definition.obs_length
    blocks = [raw[at : at + cut] for at in range(0, len(raw), cut)]
    return read(definition, variables, blocks, order=order, charset=charset, rows_a_batch=3)


def numeric_field(name: str, length: int) -> pa.Field:
    return pa.field(name, pa.float64(), metadata={"sas.type": "numeric", "sas.length": str(length)})


def cut_to_length(value: float, length: int) -> float:
    """The nearest double towards zero that a numeric of this length holds."""
    kept = np.array([value]).view(np.uint64) & np.uint64((1 << 64) - (1 << 8 * (8 - length)))
    return float(kept.view(np.float64)[0])


@st.composite
def numerics(draw: st.DrawFn) -> tuple[int, list[float | None]]:
    length = draw(st.integers(3, 8))
    doubles = st.floats(allow_nan=False, allow_infinity=False).map(lambda v: cut_to_length(v, length))
    return length, draw(st.lists(st.none() | doubles, min_size=1, max_size=20))


@given(numerics(), st.sampled_from(ORDERS), st.integers(1, 64))
def test_numerics_of_every_length_keep_their_bits(
    column: tuple[int, list[float | None]], order: ByteOrder, cut: int
) -> None:
    length, values = column
    table = pa.table([pa.array(values, pa.float64())], schema=pa.schema([numeric_field("x", length)]))
    again = through_rows(table, order, "utf-8", cut)["x"].to_pylist()
    assert again == values
    assert [math.copysign(1, v) for v in again if v is not None] == [
        math.copysign(1, v) for v in values if v is not None
    ]


@given(st.data(), st.sampled_from(CHARSETS), st.sampled_from(ORDERS), st.integers(1, 64))
def test_characters_keep_their_text_but_for_trailing_blanks(
    data: st.DataObject, charset: str, order: ByteOrder, cut: int
) -> None:
    values = data.draw(st.lists(st.none() | st.text(alphabet(charset), max_size=12), min_size=1, max_size=12))
    table = pa.table({"x": pa.array(range(len(values)), pa.int32()), "c": pa.array(values, pa.string())})
    again = through_rows(table, order, charset, cut)
    assert again["c"].to_pylist() == [(value or "").rstrip(" ") for value in values]
    assert again["x"].to_pylist() == list(range(len(values)))


def test_types_of_tables_become_what_sas_has() -> None:
    moment, first = datetime(2024, 2, 29, 12, 30, 15, 250_000), date(1, 1, 1)
    columns: dict[str, tuple[pa.Array, list[Any], str]] = {
        "i": (pa.array([1, None, -(1 << 53)]), [1.0, None, -(2.0**53)], ""),
        "u": (pa.array([255, None, 0], pa.uint8()), [255.0, None, 0.0], ""),
        "b": (pa.array([True, None, False]), [1.0, None, 0.0], ""),
        "f": (pa.array([1.5, None, math.nan], pa.float32()), [1.5, None, None], ""),
        "m": (pa.array([Decimal("1.25"), None, Decimal("-2.00")]), [1.25, None, -2.0], ""),
        "n": (pa.nulls(3), [None, None, None], ""),
        "d": (pa.array([date(1960, 1, 2), None, first], pa.date64()), [date(1960, 1, 2), None, first], "DATE9."),
        "s": (
            pa.array([moment, None, moment], pa.timestamp("s")),
            [moment.replace(microsecond=0), None, moment.replace(microsecond=0)],
            "DATETIME20.",
        ),
        "ns": (pa.array([moment, None, moment], pa.timestamp("ns", "UTC")), [moment, None, moment], "DATETIME20."),
        "t": (pa.array([time(1, 2, 3), None, time(0)], pa.time32("ms")), [time(1, 2, 3), None, time(0)], "TIME8."),
        "v": (pa.array([timedelta(-1), None, timedelta(9)]), [timedelta(-1), None, timedelta(9)], "TIME8."),
        "c": (pa.array(["a", None, "bb"]).dictionary_encode(), ["a", "", "bb"], ""),
        "l": (pa.array(["", None, "x"], pa.large_string()), ["", "", "x"], ""),
    }
    table = pa.table({name: column for name, (column, _, _) in columns.items()})
    again = through_rows(table, "big", "utf-8")
    for name, (_, values, reference) in columns.items():
        assert again[name].to_pylist() == values, name
        assert (again.schema.field(name).metadata or {}).get(b"sas.format", b"").decode() == reference


@given(st.sampled_from(["s", "ms", "us", "ns"]), st.lists(st.integers(-(2**63) + 1, 2**63 - 1), max_size=20), st.data())
def test_times_of_every_unit_become_the_nearest_double(unit: str, wide: list[int], data: st.DataObject) -> None:
    a_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    near = data.draw(st.lists(st.integers(-(10**4) * a_second, 10**4 * a_second), min_size=1, max_size=20))
    ticks = [*near, *wide]
    assert sas_columns.doubles(pa.array(ticks, pa.duration(unit))).tolist() == [tick / a_second for tick in ticks]
    origin = 3653 * 86_400 * a_second
    moments = pa.array([tick - origin for tick in near], pa.timestamp(unit))
    assert sas_columns.doubles(moments).tolist() == [tick / a_second for tick in near]


def test_slices_and_chunks_of_a_table_are_read_where_they_begin() -> None:
    table = pa.concat_tables(
        [pa.table({"c": ["zero", "éins", "zwei"], "x": [0, 1, 2]}), pa.table({"c": ["drei"], "x": [3]})]
    ).slice(1)
    again = through_rows(table, "little", "latin-1")
    assert again.to_pydict() == {"c": ["éins", "zwei", "drei"], "x": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize(
    ("column", "row", "why"),
    [
        (pa.array([0, (1 << 53) + 1]), "x", "observation 2: the integer is beyond"),
        (pa.array([0, (1 << 64) - 1], pa.uint64()), "x", "observation 2: the integer is beyond"),
        (pa.array([1.0, -math.inf]), "x", "observation 2: a SAS numeric cannot be infinite"),
        (pa.array(["a", "€", "b"]), "x", "observation 2: '€' is not in character set latin-1"),
        (pa.array([[1]]), "x", "no counterpart in SAS"),
        (pa.array([b"raw"]), "x", "no counterpart in SAS"),
    ],
)
def test_what_sas_cannot_hold_is_refused_by_column_and_observation(column: pa.Array, row: str, why: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        through_rows(pa.table({"x": column}), "big", "latin-1")
    assert refused.value.row == row
    assert why in refused.value.why


def test_a_short_numeric_refuses_what_it_would_change() -> None:
    schema = pa.schema([numeric_field("x", 4)])
    assert through_rows(pa.table([[2_097_152.0]], schema=schema), "big", "utf-8")["x"].to_pylist() == [2_097_152.0]
    with pytest.raises(InvalidInputError, match="does not fit a numeric of length 4"):
        through_rows(pa.table([[0.1]], schema=schema), "big", "utf-8")


@pytest.mark.parametrize("names", [["x" * 33], ["é" * 17], ["a", "A"], [" "]])
def test_names_that_sas_cannot_have_are_refused(names: list[str]) -> None:
    with pytest.raises(InvalidInputError) as refused:
        describe(pa.schema([(name, pa.float64()) for name in names]), charset="utf-8", observations=0)
    assert refused.value.code == "variable-name"


def test_everything_known_of_a_data_set_survives_parquet_and_sending() -> None:
    metadata = {
        "sas.label": "Employees", "sas.dataset_type": "CORR", "sas.compress": "BINARY", "sas.sort_variables": "1",
        "sas.sort_collating": "ASCII", "sas.sort_flags": "3",
    }  # fmt: skip
    schema = pa.schema(
        [
            pa.field("salary", pa.float64(), metadata={
                "sas.type": "numeric", "sas.length": "5", "sas.label": "Gehalt in €", "sas.format": "COMMAX12.2",
                "sas.informat": "8.2", "sas.nsort": "1",
            }),
            pa.field("name", pa.string(), metadata={
                "sas.type": "character", "sas.length": "40", "sas.format": "$CHAR40.",
            }),
        ],
        metadata,
    )  # fmt: skip
    table = pa.table([[1.5, None], ["Ada", "Grace"]], schema=schema)
    sink = io.BytesIO()
    assert write_parquet(schema, table.to_batches(max_chunksize=1), sink) == 2
    reader = read_parquet(io.BytesIO(sink.getvalue()))
    assert reader.schema.equals(schema, check_metadata=True)
    definition, variables = describe(reader.schema, charset="cp1252", observations=2)
    assert definition.obs_length == 45
    block = list(rows(reader, variables, order="little", charset="cp1252"))
    again = read(definition, variables, block, order="little", charset="cp1252")
    for key, value in metadata.items():
        assert again.schema.metadata[key.encode()].decode() == value
    for field in schema:
        assert field.metadata.items() <= again.schema.field(field.name).metadata.items()
    assert again.to_pydict() == {"salary": [1.5, None], "name": ["Ada", "Grace"]}


@given(st.from_regex(r"(\$?[A-Z_][A-Z0-9_]{0,30}[A-Z_])?", fullmatch=True), st.integers(0, 32767), st.integers(0, 31))
def test_format_references_are_read_as_they_are_written(name: str, width: int, decimals: int) -> None:
    reference = format_names.SasFormat(name, width, decimals)
    assert format_names.parse(str(reference)) == reference


@pytest.mark.parametrize(
    ("parts", "reference"),
    [
        (("DATE", 9), "DATE9."),
        (("BEST", 12, 2), "BEST12.2"),
        (("", 8, 2), "8.2"),
        (("$CHAR", 20), "$CHAR20."),
        ((), ""),
    ],
)
def test_format_references_look_as_in_sas(parts: tuple[Any, ...], reference: str) -> None:
    assert str(format_names.SasFormat(*parts)) == reference


@pytest.mark.parametrize(
    ("rows", "name", "compression", "has_dictionary"),
    [(3, "Ada", "SNAPPY", False), (300, "Ada" * 2000, "SNAPPY", False), (2000, "Ada", "ZSTD", True)],
)
def test_short_tables_are_written_without_what_costs_more_than_they_hold(
    rows: int, name: str, compression: str, *, has_dictionary: bool
) -> None:
    table = pa.table({"name": [name] * rows, "salary": [1.5] * rows})
    sink = io.BytesIO()
    assert write_parquet(table.schema, table.to_batches(), sink) == rows
    column = pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata.row_group(0).column(0)
    assert (column.compression, column.has_dictionary_page) == (compression, has_dictionary)
    assert pq.read_table(io.BytesIO(sink.getvalue())).equals(table)
