"""Observations -> table -> observations, bit by bit, whatever a data set has in it."""

import math
from datetime import datetime, timedelta
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.sas.data_set_messages import DataSetDefinition, Variable
from app.dataset import encode, missing, numeric
from app.dataset.decode import Unforeseen, batches, first_plan
from app.dataset.numeric import FloatFormat
from app.dataset.observation_layout import Representation
from tests.dataset.reading import read
from tests.support.ibm_float import ibm

CHARSETS = ("utf-8", "latin-1", "cp1252", "ascii", "cp037", "cp500", "cp932", "euc-kr", "gb18030", "big5")
FORMATS = ("", "BEST", "DATE", "DATETIME", "TIME", "TOD", "MONEY")
MISSING = st.sampled_from([0, *missing.LETTERS.encode()])

Value = tuple[float, int]
"""A number and no tag, or NaN and the tag of a missing value."""

numbers = {
    "DATE": st.integers(-138_061, 2_936_549).map(float),
    "DATETIME": st.integers(-(10**16), 10**17).map(lambda ticks: (ticks // 10**6) + (ticks % 10**6) / 10**6),
    "TIME": st.integers(0, 86_399_999_999).map(lambda ticks: ticks / 10**6) | st.integers(-(10**6), 10**6).map(float),
    "TOD": st.integers(0, 2_000_000_000).map(float),
}


def held(value: float, length: int, float_format: FloatFormat) -> float:
    """The nearest double towards zero that a numeric of this length holds."""
    cut = numeric.encode(np.array([value]), 8, "big", float_format)
    cut[:, length:] = 0
    return float(numeric.decode(cut, "big", float_format)[0])


@st.composite
def numeric_cells(draw: st.DrawFn, how: Representation, variable: Variable, rows: int) -> numeric.Bytes:
    widest = 7e75 if how.float_format == "ibm" else None
    doubles = st.floats(allow_nan=False, allow_infinity=False, min_value=widest and -widest, max_value=widest).filter(
        lambda value: not 0 < abs(value) < 1e-70
    )
    usual = numbers.get(variable.format, doubles) | st.integers(-300, 300).map(float)
    present = (usual | doubles if draw(st.booleans()) else usual).map(
        lambda value: (held(value, variable.length, how.float_format) + 0.0, 0)
    )
    absent = MISSING.map(lambda tag: (math.nan, tag)) if draw(st.booleans()) else st.just((math.nan, 0))
    values: list[Value] = draw(st.lists(present | absent, min_size=rows, max_size=rows))
    tags = np.array([tag for _, tag in values], np.uint8)
    return numeric.encode(
        np.array([value for value, _ in values]), variable.length, how.order, how.float_format, tags, how.charset
    )


def comes_back(cell: bytes, charset: str) -> bool:
    """Whether a character set writes what it reads in the same bytes; some have two codes of one character."""
    try:
        return cell.decode(charset).encode(charset) == cell
    except UnicodeError:
        return True


@st.composite
def character_cells(draw: st.DrawFn, how: Representation, variable: Variable, rows: int) -> numeric.Bytes:
    blank, size = " ".encode(how.charset), variable.length
    words = st.text("aZ09 äé€日本語", max_size=size).map(lambda text: text.encode(how.charset, "ignore")[:size])
    plain = words.map(lambda word: word.ljust(size, blank))
    cell = plain | st.binary(min_size=size, max_size=size) if draw(st.booleans()) else plain
    cells = draw(st.lists(cell.filter(lambda cell: comes_back(cell, how.charset)), min_size=rows, max_size=rows))
    return np.frombuffer(b"".join(cells), np.uint8).reshape(rows, size)


@st.composite
def data_sets(draw: st.DrawFn) -> tuple[DataSetDefinition, list[Variable], Representation, bytes]:
    how = Representation(
        draw(st.sampled_from(["little", "big"])),
        draw(st.sampled_from(["ieee", "ibm"])),
        draw(st.sampled_from(CHARSETS)),
    )
    numeric_variables = st.builds(
        Variable,
        name=st.just(""),
        format=st.sampled_from(FORMATS),
        length=st.integers(2 if how.float_format == "ibm" else 3, 8),
        format_length=st.integers(0, 32),
        informat=st.sampled_from(["", "DATE"]),
        nsort=st.binary(min_size=1, max_size=1),
    )
    character_variables = st.builds(
        Variable,
        name=st.just(""),
        type=st.just(b"\2"),
        length=st.integers(1, 20),
        format=st.sampled_from(["", "$CHAR"]),
    )
    drawn = draw(st.lists(numeric_variables | character_variables, min_size=1, max_size=5))
    variables = [
        Variable(**{**{row.name: getattr(each, row.name) for row in Variable.ROWS}, "name": f"v{index}"})
        for index, each in enumerate(drawn)
    ]
    rows = draw(st.integers(0, 12))
    columns = [draw((numeric_cells if each.is_numeric else character_cells)(how, each, rows)) for each in variables]
    length = sum(each.length for each in variables)
    definition = DataSetDefinition(
        type=1,
        label=draw(st.sampled_from(["", "Sales of 2024"])),
        compress=draw(st.sampled_from(["NO", "CHAR", "BINARY"])),
        reuse=draw(
            st.sampled_from([b"R", b"E"]) if not missing.is_ebcdic(how.charset) else st.just("R".encode(how.charset))
        ),
        sort_variables=draw(st.integers(0, 3)),
        sort_flags=draw(st.integers(0, 3)),
        observations=rows,
        variables=len(variables),
        obs_length=length,
    )
    return definition, variables, how, np.hstack(columns).tobytes()


@given(data_sets(), st.integers(1, 100), st.integers(1, 8))
def test_every_bit_comes_back(
    data_set: tuple[DataSetDefinition, list[Variable], Representation, bytes], cut: int, rows_a_batch: int
) -> None:
    definition, variables, how, raw = data_set
    blocks = [raw[at : at + cut] for at in range(0, len(raw), cut)]
    table = read(definition, variables, blocks, rows_a_batch=rows_a_batch, **how._asdict())
    again, described = encode.describe(
        table.schema, charset=how.charset, observations=table.num_rows, float_format=how.float_format
    )
    assert described == variables
    assert again == definition
    written = encode.rows(table.to_batches(), described, **how._asdict())
    assert b"".join(written) == raw


def one_numeric(reference: str, *values: float | None) -> pa.Table:
    """What is read of a data set of one numeric with this format."""
    cells = numeric.encode(np.array([math.nan if value is None else float(value) for value in values]), 8, "little")
    return one_numeric_of(reference, [row.tobytes() for row in cells], Representation("little"))


def one_numeric_of(reference: str, cells: list[bytes], how: Representation) -> pa.Table:
    definition = DataSetDefinition(type=1, observations=len(cells), variables=1, obs_length=8)
    variable = Variable(name="x", format=reference)
    return read(definition, [variable], cells, rows_a_batch=max(1, len(cells) // 2), **how._asdict())


DAY = 86_400.0


@pytest.mark.parametrize(
    ("reference", "values", "data_type"),
    [
        ("DATE", [0, 21_915, None, -138_061, 2_936_549], pa.date32()),
        ("DATE", [0, 21_915.5], pa.float64()),
        ("DATE", [0, 2_936_550], pa.float64()),
        ("YYMMDDN", [None, None], pa.date32()),
        ("NLDATE", [1], pa.date32()),
        ("DEUDFDE", [1], pa.date32()),
        ("MONTH", [1], pa.float64()),
        ("DAYSUP", [1], pa.float64()),
        ("MONEY", [1], pa.float64()),
        ("DATETIME", [0, 2_024_829_015.123456, None], pa.timestamp("us")),
        ("DATETIME", [0, 1 / 3], pa.float64()),
        ("DATETIME", [253_717_919_999.5], pa.timestamp("us")),
        ("DATETIME", [253_717_920_000.0], pa.float64()),
        ("E8601DT", [-1.5], pa.timestamp("us")),
        ("TIME", [0, DAY - 1e-6, None], pa.time64("us")),
        ("TIME", [0, DAY], pa.duration("us")),
        ("HHMM", [5, -0.5], pa.duration("us")),
        ("TIME", [0, DAY, 1e-7], pa.float64()),
        ("TIME", [1e300], pa.float64()),
        ("TOD", [5], pa.time64("us")),
        ("TOD", [5, 2e9], pa.timestamp("us")),
    ],
)
def test_what_numbers_count_by_their_format(reference: str, values: list[float | None], data_type: pa.DataType) -> None:
    table = one_numeric(reference, *values)
    field = table.schema.field("x")
    assert field.type == data_type
    kind = field.metadata.get(b"sas.kind")
    assert (b"sas.inexact" in field.metadata) == (kind is not None and data_type == pa.float64())
    assert [value is None for value in table["x"].to_pylist()] == [value is None for value in values]


def test_dates_and_times_mean_what_sas_means() -> None:
    assert str(one_numeric("DATE", 23_435)["x"][0]) == "2024-02-29"
    assert one_numeric("DATETIME", 2_024_829_015.25)["x"][0].as_py() == datetime(2024, 2, 29, 12, 30, 15, 250_000)
    assert str(one_numeric("TIME", 3723.5)["x"][0]) == "01:02:03.500000"
    assert one_numeric("TIME", -90_000)["x"][0].as_py() == timedelta(hours=-25)


def cut_to_ibm(value: Fraction) -> tuple[bytes, float]:
    """The IBM float that is calculated on z/OS, where further digits are cut off, and the double nearest to it."""
    size, sixteens = abs(value), 0
    while size >= 1:
        size, sixteens = size / 16, sixteens + 1
    while 0 < size < Fraction(1, 16):
        size, sixteens = size * 16, sixteens - 1
    digits, is_negative = int(size * 16**14), value < 0
    double = float(digits * Fraction(16) ** (sixteens - 14)) * (-1 if is_negative else 1)
    return bytes([(sixteens + 64) * (digits > 0) | 128 * is_negative]) + digits.to_bytes(7, "big"), double


MICROSECONDS = 10**6
FINE = 2**32 * MICROSECONDS
"""The times that are further from 1960 have IBM floats less than one to a microsecond, and soon doubles too."""


@given(
    st.lists(
        st.integers(-(10**4) * MICROSECONDS, 10**4 * MICROSECONDS)
        | st.integers(-FINE, FINE)
        | st.integers(-(61 * 10**9) * MICROSECONDS, 253 * 10**9 * MICROSECONDS),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from(["DATETIME", "TIME"]),
)
def test_every_microsecond_is_an_exact_time_in_each_float(ticks: list[int], reference: str) -> None:
    """As the nearest double, as this in an IBM float, and as the IBM float that was cut off."""
    ibm_how = Representation("big", "ibm")
    nearest, fine = [tick / MICROSECONDS for tick in ticks], [tick for tick in ticks if abs(tick) <= FINE]
    column = one_numeric(reference, *nearest)["x"]
    assert [tick / MICROSECONDS for tick in since_1960(column)] == nearest
    assert [found for found, tick in zip(since_1960(column), ticks, strict=True) if abs(tick) <= FINE] == fine
    assert since_1960(one_numeric_of(reference, [ibm(value) for value in nearest], ibm_how)["x"]) == since_1960(column)
    cut = [cut_to_ibm(Fraction(tick, MICROSECONDS))[0] for tick in fine]
    assert since_1960(one_numeric_of(reference, cut, ibm_how)["x"]) == fine


def since_1960(column: pa.ChunkedArray) -> list[int]:
    assert pa.types.is_temporal(column.type)
    origin = 3653 * 86_400 * MICROSECONDS if pa.types.is_timestamp(column.type) else 0
    return [tick + origin for tick in column.cast(pa.int64()).to_pylist()]


def test_a_number_beside_a_microsecond_is_not_a_time() -> None:
    for tick in (5_669_000, 1_100_000, 1_700_000, -300_000, 61_100_000, 2_024_829_015_123_456):
        cut = cut_to_ibm(Fraction(tick, MICROSECONDS))[1]
        for value in (math.nextafter(tick / MICROSECONDS, towards) for towards in (math.inf, -math.inf)):
            assert one_numeric("TIME", value)["x"].type == pa.float64()
            in_ibm = one_numeric_of("TIME", [ibm(value)], Representation("big", "ibm"))["x"]
            assert pa.types.is_temporal(in_ibm.type) == (value == cut), value


def test_why_a_date_stays_a_number_is_said() -> None:
    (metadata,) = (field.metadata for field in one_numeric("DATE", *range(1000), 0.5, 1).schema)
    assert metadata[b"sas.inexact"] == b"observation 1001: 0.5 is not an exact date"


def test_two_passes_are_all_it_takes() -> None:
    """Everything unforeseen is found in one pass, wherever it lies."""
    variables = [
        Variable(name="a", format="DATE"),
        Variable(name="t", format="TIME"),
        Variable(name="x"),
        Variable(name="c", type=b"\2", length=8),
    ]
    usual = numeric.encode(np.zeros(3), 8, "big").tobytes() + b"usual   "
    rows = [usual] * 9
    changes: list[tuple[int, int, bytes]] = [
        (2, 16, bytes.fromhex("FFFFFD0000000000")),
        (4, 0, bytes.fromhex("3FE0000000000000")),
        (5, 8, bytes.fromhex("C0E0000000000000")),
        (7, 24, b"\xff       "),
        (8, 16, bytes.fromhex("7FF8000000000000")),
    ]
    for row, at, cell in changes:
        rows[row] = rows[row][:at] + cell + rows[row][at + 8 :]
    passes: list[int] = []

    def blocks() -> list[bytes]:
        passes.append(1)
        return rows

    definition = DataSetDefinition(type=1, observations=9, variables=4, obs_length=32)
    plan = first_plan(definition, variables, Representation("big"), blocks)
    passes.clear()
    with pytest.raises(Unforeseen) as unforeseen:
        list(batches(plan, blocks(), 2))
    table = pa.Table.from_batches(batches(unforeseen.value.plan, blocks(), 2))
    assert len(passes) == 2
    assert {field.name: field.type for field in table.schema} == {
        "a": pa.float64(),
        "t": pa.duration("us"),
        "x": pa.float64(),
        "x__missing": pa.string(),
        "c": pa.string(),
        "c__bytes": pa.binary(),
    }
    assert table["c__bytes"].to_pylist() == [None] * 7 + [b"\xff       ", None]
    assert table["c"][7].as_py() == "\N{REPLACEMENT CHARACTER}"
    assert table["x__missing"].to_pylist() == [None, None, ".A", *[None] * 6]
    assert table.schema.field("x").metadata[b"sas.odd_missing"] == b"1"


def test_side_columns_have_names_of_their_own() -> None:
    variables = [Variable(name=name) for name in ("x", "X__MISSING", "x__missing_")]
    row = bytes.fromhex("FFFFFD0000000000") * 3
    definition = DataSetDefinition(type=1, observations=1, variables=3, obs_length=24)
    table = read(definition, variables, [row], order="big")
    assert table.column_names == [
        "x", "x__missing__", "X__MISSING", "X__MISSING__missing", "x__missing_", "x__missing___missing",
    ]  # fmt: skip
    again, described = encode.describe(table.schema, charset="utf-8", observations=1)
    assert (again.variables, described) == (3, variables)
    assert b"".join(encode.rows(table.to_batches(), described, order="big", charset="utf-8")) == row
