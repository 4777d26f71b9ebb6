"""Numbers and times of typed files are sent as the doubles nearest to their exact values, or refused, never changed."""

import struct
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.tables.read.reading import defined, sent

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
    theirs = duckdb.sql(f"select T from '{tmp_path / 'a.parquet'}'").fetchall()
    assert theirs == [(each,) for each in (None, *moments)]
    definition = defined(data)
    assert [fault.code for fault in definition.warnings] == ["range"]
    assert sent(definition)["T"].to_pylist() == [None, *moments]


def test_what_microseconds_do_not_hold_of_int96_is_told() -> None:
    third_of_a_century = 33 * 366 * NANOSECONDS_A_DAY
    rounded = defined(with_int96(None, -1000, third_of_a_century * 100, third_of_a_century * 100 + 1))
    assert [(fault.variable, fault.row, fault.why) for fault in rounded.warnings if fault.code != "range"] == [
        ("T", 4, "fractions of a microsecond are lost")
    ]
    most = (1 << 63) * 1000
    for beyond in (most + NANOSECONDS_A_DAY, -most - NANOSECONDS_A_DAY):
        (fault,) = defined(with_int96(0, None, beyond)).errors
        assert (fault.variable, fault.row) == ("T", 3)
        assert "beyond the range of timestamp[us]" in fault.why
