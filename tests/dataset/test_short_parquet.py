"""Short tables are written by another library than others. Every reader finds in their files what pyarrow would have
written."""

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

from app.dataset.parquet import DATA_SET_TYPES, SHORT_ROWS, parquet_file, write_parquet

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.float64(): st.floats(),
    pa.date32(): st.dates(date(1582, 10, 15), date(9999, 12, 31)),
    pa.timestamp("us"): st.datetimes(datetime(1582, 10, 15), datetime(9999, 12, 31)),
    pa.time64("us"): st.times(),
    pa.duration("us"): st.timedeltas(timedelta(-9999), timedelta(9999)),
    pa.string(): st.text(max_size=9),
    pa.binary(): st.binary(max_size=9),
}


@st.composite
def short_tables(draw: st.DrawFn) -> pa.RecordBatch:
    """Draw some rows of a larger table, with metadata."""
    rows, skipped, left = draw(st.integers(1, 20)), draw(st.integers(0, 3)), draw(st.integers(0, 3))
    fields, columns = [], []
    for number in range(draw(st.integers(1, 18))):
        kind = draw(st.sampled_from([*VALUES]))
        has_nulls = draw(st.booleans())
        values = st.none() | VALUES[kind] if has_nulls else VALUES[kind]
        size = skipped + rows + left
        columns.append(pa.array(draw(st.lists(values, min_size=size, max_size=size)), kind).slice(skipped, rows))
        metadata = {"sas.label": draw(st.text(max_size=5))}
        fields.append(pa.field(f"v{number}ü", kind, has_nulls or draw(st.booleans()), metadata))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, {"sas.member": draw(st.text(max_size=3))}))


@given(short_tables())
def test_a_short_table_is_read_as_it_was(table: pa.RecordBatch) -> None:
    file = parquet_file(table)
    read = pq.read_table(io.BytesIO(file))
    assert read.schema.equals(table.schema, check_metadata=True)
    for column, expected in zip(read.columns, table.columns, strict=True):
        assert repr(column.to_pylist()) == repr(expected.to_pylist()), "NaN is not equal to itself"
    sink = io.BytesIO()
    copied = pa.ipc.read_record_batch(pa.ipc.read_message(table.serialize()), table.schema)
    assert write_parquet(table.schema, [copied.slice(0, 1), copied.slice(1)], sink) == len(table)
    assert sink.getvalue() == file, "in several batches, and with buffers of its own"


def test_all_types_of_data_sets_are_tried() -> None:
    assert VALUES.keys() == DATA_SET_TYPES


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
    (batch,) = table.to_batches()
    (tmp_path / "short.parquet").write_bytes(parquet_file(batch))
    pq.write_table(table, tmp_path / "usual.parquet")
    with duckdb.connect() as database:
        short, usual = (database.execute(f"from '{tmp_path}/{name}.parquet'").fetchall() for name in ("short", "usual"))
        counted = database.execute(f"from '{tmp_path}/short.parquet' where number > 1 and text = 'a'").fetchall()
    assert short == usual
    assert (len(short), len(counted)) == (16, 4)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"x": [1.0] * SHORT_ROWS}),
        pa.table({"x": pa.array([1], pa.int8())}),
        pa.table({"x": ["y" * (1 << 21)]}),
    ],
    ids=["rows", "type", "bytes"],
)
def test_other_tables_are_written_by_pyarrow(table: pa.Table) -> None:
    sink = io.BytesIO()
    write_parquet(table.schema, table.to_batches(), sink)
    file = pq.ParquetFile(io.BytesIO(sink.getvalue()))
    assert file.metadata.created_by.startswith("parquet-cpp-arrow")
    assert file.read().equals(table)
