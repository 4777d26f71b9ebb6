"""Small tables are written without pyarrow's writer. Every reader finds in their files what it would have written."""

import io
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dataset.parquet import parquet_files, write_parquet
from app.dataset.small_parquet import MOST_BYTES, MOST_ROWS, Rows, small_files

TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.float64(): st.floats(),
    pa.date32(): st.dates(date(1582, 10, 15), date(9999, 12, 31)),
    pa.timestamp("us"): st.datetimes(datetime(1582, 10, 15), datetime(9999, 12, 31)),
    pa.time64("us"): st.times(),
    pa.duration("us"): st.timedeltas(timedelta(-9999), timedelta(9999)),
    pa.string(): st.text(max_size=9),
    pa.binary(): st.binary(max_size=9),
}


@st.composite
def shared(draw: st.DrawFn) -> list[Rows]:
    """Tables that follow one another in columns that they share, each with metadata of its own."""
    sizes = draw(st.lists(st.integers(1, 20), min_size=1, max_size=5))
    rows, skipped = sum(sizes), draw(st.integers(0, 3))
    fields, columns = [], []
    for number in range(draw(st.integers(1, 18))):
        kind = draw(st.sampled_from([*TYPES]))
        has_nulls = draw(st.booleans())
        values = st.none() | TYPES[kind] if has_nulls else TYPES[kind]
        listed = draw(st.lists(values, min_size=rows + skipped, max_size=rows + skipped))
        columns.append(pa.array(listed, kind).slice(skipped))
        metadata = {"sas.label": draw(st.text(max_size=5))}
        fields.append(pa.field(f"v{number}ü", kind, has_nulls or draw(st.booleans()), metadata))
    tables, start = [], 0
    for number, size in enumerate(sizes):
        tables.append(Rows(columns, start, start + size, pa.schema(fields, {"sas.member": f"M{number % 2}"})))
        start += size
    return tables


@given(shared())
def test_each_table_is_read_as_it_was(tables: list[Rows]) -> None:
    files = small_files(tables)
    for table, file in zip(tables, files, strict=True):
        assert file is not None
        read = pq.read_table(io.BytesIO(file))
        assert read.schema.equals(table.schema, check_metadata=True)
        wanted = table.batch()
        for column, expected in zip(read.columns, wanted.columns, strict=True):
            assert repr(column.to_pylist()) == repr(expected.to_pylist()), "NaN is not equal to itself"
        sink = io.BytesIO()
        assert write_parquet(table.schema, [wanted.slice(0, 1), wanted.slice(1)], sink) == len(wanted)
        assert sink.getvalue() == file, "alone, too"


def test_other_readers_find_the_same(tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": pa.array(["a", None, "", "ü" * 9] * 4),
            "number": pa.array([1.5, None, None, -0.0] * 4),
            "day": pa.array([date(1960, 1, 1), None] * 8),
            "at": pa.array([datetime(2026, 1, 2, 3, 4, 5, 6)] * 16, pa.timestamp("us")),
            "time": pa.array([time(1, 2, 3)] * 16, pa.time64("us")),
        }
    )
    (file,) = small_files([_rows(table)])
    assert file is not None
    (tmp_path / "small.parquet").write_bytes(file)
    pq.write_table(table, tmp_path / "usual.parquet")
    with duckdb.connect() as database:
        small, usual = (database.execute(f"from '{tmp_path}/{name}.parquet'").fetchall() for name in ("small", "usual"))
        counted = database.execute(f"from '{tmp_path}/small.parquet' where number > 1 and text = 'a'").fetchall()
    assert small == usual
    assert (len(small), len(counted)) == (16, 4)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"x": pa.array([1.0] * MOST_ROWS)}),
        pa.table({"x": pa.array(["x" * MOST_BYTES])}),
        pa.table({"x": pa.array([1], pa.int8())}),
        pa.table({"x": [1.0]}).replace_schema_metadata({"long": "x" * MOST_BYTES}),
        pa.table({"x\x16\0\x19\x0c": [1.0]}),
    ],
    ids=["rows", "values", "type", "metadata", "name"],
)
def test_tables_that_are_not_small_are_written_by_pyarrow(table: pa.Table) -> None:
    assert small_files([_rows(table)]) == [None]
    (file,) = parquet_files([_rows(table)])
    assert pq.read_table(io.BytesIO(file)).equals(table, check_metadata=True)


def _rows(table: pa.Table) -> Rows:
    return Rows([column.combine_chunks() for column in table.columns], 0, len(table), table.schema)
