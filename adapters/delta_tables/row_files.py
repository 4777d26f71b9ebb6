"""Writing of the Parquet files of tables, in row groups of bounded size, with statistics of each file.

By the statistics readers skip files without matching rows. They are numbers of nulls, and the least and the greatest
value, of the first 32 columns (Delta's own choice), from the file's row groups. Bounds may be too wide and never too
narrow. Long texts are cut, and a cut greatest text gets the last character of Unicode appended. Columns with NaN, or
with bounds that JSON cannot represent, have none.

Source: Delta transaction log protocol, "Per-file Statistics".
"""

import json
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from adapters.delta_tables import checked_files, delta_schema
from adapters.delta_tables.checked_files import ChecksummedFile
from adapters.delta_tables.table_storage import TableStorage
from app.ports import TableFile

ROW_GROUP_BYTES = 32 << 20
ROW_GROUP_ROWS = 1 << 20

COLUMNS = 32
LONGEST_TEXT = 32
_LAST_CHARACTER = "\U0010ffff"

_OPTIONS = {"compression": "zstd", "compression_level": 1, "store_schema": False, "write_page_checksum": True}
"""Our readers compare the file's own checksums; those of its pages are for others."""


class RowWriter:
    """Writes batches to a Parquet file. Holds one row group of at most `group_bytes` and a batch."""

    def __init__(self, writer: pq.ParquetWriter, schema: pa.Schema, group_bytes: int) -> None:
        self._writer, self._schema, self._group_bytes = writer, schema, group_bytes
        self._group: list[pa.RecordBatch] = []
        self._size = self._rows = 0
        self.nans: set[str] = set()

    def add(self, batch: pa.RecordBatch) -> None:
        self._group.append(delta_schema.with_types(batch, self._schema))
        self._size += batch.nbytes
        self._rows += batch.num_rows
        if self._size >= self._group_bytes or self._rows >= ROW_GROUP_ROWS:
            self.end_group()

    def end_group(self) -> None:
        if not self._group:
            return
        group = pa.Table.from_batches(self._group, self._schema)
        self.nans.update(
            field.name
            for field in list(group.schema)[:COLUMNS]
            if pa.types.is_floating(field.type) and pc.any(pc.is_nan(group[field.name])).as_py()
        )
        self._writer.write_table(group, row_group_size=max(1, group.num_rows))
        self._group, self._size, self._rows = [], 0, 0


class WrittenRows:
    """A file of a table while it is written. `file` says what was written when the block of `writing` has ended."""

    rows: RowWriter
    file: TableFile


@contextmanager
def writing(
    storage: TableStorage, folder: str, schema: pa.Schema, group_bytes: int = ROW_GROUP_BYTES
) -> Iterator[WrittenRows]:
    """Open a new file of rows with this schema in a table's folder. It is durable when the block ends."""
    path = f"{uuid4()}{checked_files.ENDING}"
    stored = delta_schema.stored_schema(schema)
    collector: list[pq.FileMetaData] = []
    written = WrittenRows()
    with storage.create(f"{folder}/{path}") as opened:
        file = ChecksummedFile(opened)
        with pq.ParquetWriter(file, stored, metadata_collector=collector, **_OPTIONS) as writer:
            written.rows = RowWriter(writer, stored, group_bytes)
            yield written
            written.rows.end_group()
            writer.add_key_value_metadata(file.end_rows())
        file.finish()
    said = _statistics(collector[0], written.rows.nans)
    written.file = TableFile(path, storage.size(f"{folder}/{path}"), collector[0].num_rows, said)


def _statistics(metadata: pq.FileMetaData, without_bounds: Collection[str]) -> str:
    """Return the statistics as Delta's JSON text. The columns `without_bounds` get only a number of nulls."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for at in range(min(metadata.num_columns, COLUMNS)):
        name = metadata.schema.column(at).name
        groups = [metadata.row_group(n).column(at).statistics for n in range(metadata.num_row_groups)]
        if any(group is None or not group.has_null_count for group in groups):
            continue
        nulls[name] = sum(group.null_count for group in groups)
        bounds = None if name in without_bounds else _bounds(groups)
        if bounds is not None:
            least[name], greatest[name] = bounds
    return json.dumps(
        {"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls},
        ensure_ascii=False,
        allow_nan=False,
    )


def _bounds(groups: list[pq.Statistics]) -> tuple[Any, Any] | None:
    held = [group for group in groups if group.num_values]
    if not held or not all(group.has_min_max for group in held):
        return None
    try:
        least, greatest = min(group.min for group in held), max(group.max for group in held)
    except (ValueError, OverflowError):  # a time outside Python's range
        return None
    bounds = (*_json_values(least), *_json_values(greatest, is_greatest=True))
    return (bounds[0], bounds[1]) if len(bounds) == 2 else None


def _json_values(value: Any, *, is_greatest: bool = False) -> Iterator[Any]:
    """Yield the value in its JSON form; yield nothing if JSON cannot represent it."""
    if isinstance(value, float):
        if math.isfinite(value):
            yield value
    elif isinstance(value, str):
        text = value[:LONGEST_TEXT]
        if len(value) == len(text) or not is_greatest:
            yield text
        elif value[LONGEST_TEXT] != _LAST_CHARACTER:
            yield text + _LAST_CHARACTER
    elif isinstance(value, datetime):
        yield value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    elif isinstance(value, date):
        yield value.isoformat()
    elif isinstance(value, int):
        yield value
