"""Numbers and times of typed files are sent as the doubles nearest to their exact values, or refused, never changed."""

import json
import struct
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.dataset import sas_columns
from tests.tables.read.reading import defined, opened, sent, whole

# --- INT96, the timestamps of Spark: the number of a Julian day, and nanoseconds in it ------------------------------

JULIAN_1970 = 2_440_588
NANOSECONDS_A_DAY = 86_400 * 10**9
FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)


def with_int96(*nanoseconds: int | None) -> bytes:
    """A Parquet file whose INT96 values are these nanoseconds since 1970, however far away."""
    there = [each for each in nanoseconds if each is not None]
    markers = [struct.pack("<qi", 1, JULIAN_1970 + 10_000 + at) for at in range(len(there))]
    days = iter(range(10_000, 10_000 + len(there)))
    marked = [None if each is None else next(days) * NANOSECONDS_A_DAY + 1 for each in nanoseconds]
    sink = BytesIO()
    table = pa.table({"n": range(len(marked)), "T": pa.array(marked, pa.timestamp("ns"))})
    pq.write_table(
        table, sink, use_deprecated_int96_timestamps=True, use_dictionary=False, compression="none", store_schema=False
    )
    data = sink.getvalue()
    for marker, value in zip(markers, there, strict=True):
        day, rest = divmod(value, NANOSECONDS_A_DAY)
        assert data.count(marker) == 1
        data = data.replace(marker, struct.pack("<qi", rest, JULIAN_1970 + day))
    return data


def test_int96_of_all_years_is_what_duckdb_reads(tmp_path: Path) -> None:
    random = Random(96)
    edges = [FIRST, LAST, datetime(1677, 9, 20), datetime(2262, 4, 12), datetime(1500, 6, 1)]
    moments = edges + [FIRST + random.random() * (LAST - FIRST) for _ in range(500)]
    ticks = [(moment - datetime(1970, 1, 1)) // timedelta(microseconds=1) for moment in moments]
    data = with_int96(None, *(tick * 1000 for tick in ticks))
    (tmp_path / "a.parquet").write_bytes(data)
    theirs = duckdb.execute(f"select T from '{tmp_path / 'a.parquet'}'").fetchall()
    assert theirs == [(each,) for each in (None, *moments)]
    definition = defined(data)
    assert [fault.code for fault in definition.warnings] == ["range"]
    assert sent(definition)["T"].to_pylist() == [None, *moments]


def test_what_microseconds_do_not_hold_of_int96_is_told() -> None:
    third_of_a_century = 33 * 366 * NANOSECONDS_A_DAY
    rounded = defined(with_int96(None, -1000, third_of_a_century * 100, third_of_a_century * 100 + 1))
    assert [(fault.variable, fault.row, fault.code) for fault in rounded.warnings if fault.code != "range"] == [
        ("T", 4, "rounded")
    ]
    most = (1 << 63) * 1000
    for beyond in (most + NANOSECONDS_A_DAY, -most - NANOSECONDS_A_DAY):
        (fault,) = defined(with_int96(0, None, beyond)).errors
        assert (fault.variable, fault.row, fault.code) == ("T", 3, "value")
        assert "beyond the range of timestamp[us]" in fault.why


# --- decimals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.decimal32(9, scale) for scale in (1, 2, 9)),
        *(pa.decimal64(18, scale) for scale in (2, 4, 17)),
        *(pa.decimal128(38, scale) for scale in (1, 2, 6, 20, 30, 38)),
        *(pa.decimal256(76, scale) for scale in (2, 40, 76)),
    ],
    ids=str,
)
def test_decimals_are_the_nearest_doubles(kind: pa.DataType) -> None:
    random = Random(f"{kind}")
    values = [Decimal(number).scaleb(-kind.scale) for number in range(-2_000, 2_000)]
    values += [
        Decimal(
            f"{random.choice('-+')}{random.getrandbits(random.randrange(1, 250)) % 10**kind.precision}e-{kind.scale}"
        )
        for _ in range(2_000)
    ]
    definition = defined(whole(pa.table({"X": pa.array([None, *values], kind)})))
    assert sent(definition)["X"].to_pylist() == [None, *map(float, values)]
    # Only values with many digits may be rounded, and 38 of them are.
    rounded = [fault.row or 0 for fault in definition.warnings]
    assert all(row > 4_001 for row in rounded)
    assert rounded or kind.precision < 38


TYPES = (("T", "time"), ("D", "datetime"))


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("unit", "a_second"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
@pytest.mark.parametrize(("make", "origin"), [(pa.duration, 0), (pa.timestamp, 3653 * 86_400)])
def test_times_are_the_nearest_doubles(make: Any, origin: int, unit: str, a_second: int) -> None:
    random = Random(f"{make.__name__} {unit}")
    most = min((1 << 63) - 1, 300_000_000_000 * a_second)
    ticks = [*range(-1_000, 1_000), *(n - origin * a_second for n in range(-1_000, 1_000)), -most, most]
    ticks += [
        random.choice((-1, 1)) * random.randrange(1 << random.randrange(1, most.bit_length())) for _ in range(9_000)
    ]
    ticks = [tick for tick in ticks if -most <= tick <= most]
    doubles = sas_columns.doubles(pa.array(ticks, pa.int64()).view(make(unit)))
    # A quotient of integers is correctly rounded in Python.
    assert doubles.tolist() == [(tick + origin * a_second) / a_second for tick in ticks]


@pytest.mark.parametrize(("make", "origin"), [(pa.duration, 0), (pa.timestamp, 3653 * 86_400)])
@pytest.mark.parametrize("unit", ["us", "ns"])
def test_a_fraction_that_a_double_does_not_hold_is_told(make: Any, origin: int, unit: str) -> None:
    random = Random(f"{make.__name__} {unit}")
    a_second = {"us": 10**6, "ns": 10**9}[unit]
    most = min((1 << 63) - 1, 200_000_000_000 * a_second)
    ticks = [random.randrange(1 << random.randrange(1, most.bit_length())) for _ in range(300)]
    ticks += [tick // 1000 * 1000 for tick in ticks] + [tick // a_second * a_second for tick in ticks]

    def is_held(tick: int) -> bool:
        exact = Fraction(tick, a_second) + origin
        return exact * 10**6 == round(Fraction(float(exact)) * 10**6)

    held = list(filter(is_held, ticks))
    assert 300 < len(held) < len(ticks)
    sound = defined(whole(pa.table({"T": pa.array(held, pa.int64()).view(make(unit))}))).warnings
    assert [fault.code for fault in sound if fault.code == "rounded"] == []
    for lost in [each for each in ticks if not is_held(each)][:20]:
        column = pa.array([None, *held[:50], lost], pa.int64()).view(make(unit))
        told = [fault for fault in defined(whole(pa.table({"T": column}))).warnings if fault.code == "rounded"]
        assert [(fault.row, fault.why) for fault in told] == [
            (52, "fractions of a second are lost that a double does not hold")
        ]


@pytest.mark.parametrize("name", ["a.csv", "a.json"])
def test_times_in_texts_are_the_nearest_doubles(name: str) -> None:
    random = Random(name)
    ticks = [random.randrange(60_000) * 1_000 for _ in range(500)] + [
        random.randrange(86_400 * 10**6) for _ in range(500)
    ]
    days = [random.randrange(-100_000, 100_000) for _ in ticks]
    moments = [datetime(1960, 1, 1) + timedelta(day, microseconds=tick) for day, tick in zip(days, ticks, strict=True)]
    rows = [(f"{each:%H:%M:%S.%f}", f"{each.year:04}-{each:%m-%dT%H:%M:%S.%f}") for each in moments]
    if name == "a.csv":
        data = "\n".join(["T,D", *map(",".join, rows)]).encode()
    else:
        columns = [{"itemOID": n, "name": n, "label": n, "dataType": t, "targetDataType": "integer"} for n, t in TYPES]
        data = json.dumps(
            {"datasetJSONVersion": "1.1", "records": len(rows), "columns": columns, "rows": rows}
        ).encode()
    table = sent(defined(opened(data, name)))
    times, instants = (sas_columns.doubles(table[column].combine_chunks()).tolist() for column in "TD")
    assert times == [tick / 10**6 for tick in ticks]
    assert instants == [(day * 86_400 * 10**6 + tick) / 10**6 for day, tick in zip(days, ticks, strict=True)]
