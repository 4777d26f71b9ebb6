"""However long a file is, little of it is in memory."""

import tracemalloc
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest

from app.tables.read import csv_reader, file_formats, json_document, json_lines
from app.tables.read.defining import define
from app.tables.read.read_request import DataSetOverrides, DataSetTarget, ReadOptions
from tests.support.tables import long, wide
from tests.tables.out.making import made
from tests.tables.read.reading import opened

BLOCK = 128 << 10
MOST = 12 << 20
"""The table has 20 MiB in Arrow, and up to three times that as objects of Python."""


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return long(110_000)


@pytest.mark.parametrize("name", ["csv", "parquet", "arrow", "ndjson", "dataset-json", "dsjc", "xpt"])
def test_memory_is_flat(table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for module in (csv_reader, json_document, json_lines):
        monkeypatch.setattr(module, "BLOCK_BYTES", BLOCK)
    path = tmp_path / "long"
    path.write_bytes(made(table, name, rows_a_group=20_000))
    before = pa.total_allocated_bytes()
    arrow = rows = 0
    with path.open("rb") as file:
        format_ = file_formats.format_of(BytesIO(file.read(1 << 16)), "", "")
        tracemalloc.start()
        try:
            definition = define(
                file_formats.read(file, format_, ReadOptions()), DataSetOverrides(), DataSetTarget("latin-1", "ibm")
            )
            for batch in definition.batches():
                arrow = max(arrow, pa.total_allocated_bytes() - before)
                rows += batch.num_rows
            python = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (definition.errors, rows) == ((), table.num_rows)
    assert arrow + python < MOST


@pytest.mark.parametrize("name", ["json", "ndjson", "dataset-json", "dataset-ndjson", "dsjc"])
def test_blocks_of_wide_rows_are_larger(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for module in (json_document, json_lines):
        monkeypatch.setattr(module, "BLOCK_BYTES", 16 << 10)
    monkeypatch.setattr(json_lines, "LARGEST_BLOCK", 128 << 10)
    reading = opened(made(wide(rows=200), name, rows_a_group=200), f"x.{name}")
    rows = [batch.num_rows for batch in reading.batches()]
    assert sum(rows) == 200
    assert len(rows) <= 12, "a call on a column has many cells, as blocks do not have 16 KiB"
