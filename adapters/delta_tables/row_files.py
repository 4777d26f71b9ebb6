"""Writing of the Parquet files of tables, in row groups of bounded size."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from adapters.delta_tables import delta_schema
from adapters.delta_tables.statistics import COLUMNS, statistics
from adapters.delta_tables.table_storage import TableStorage
from app.ports import TableFile

ROW_GROUP_BYTES = 32 << 20
ROW_GROUP_ROWS = 1 << 20

_OPTIONS = {"compression": "zstd", "compression_level": 1, "store_schema": False}


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
    path = f"{uuid4()}.zstd.parquet"
    stored = delta_schema.stored_schema(schema)
    collector: list[pq.FileMetaData] = []
    written = WrittenRows()
    with (
        storage.create(f"{folder}/{path}") as file,
        pq.ParquetWriter(file, stored, metadata_collector=collector, **_OPTIONS) as writer,
    ):
        written.rows = RowWriter(writer, stored, group_bytes)
        yield written
        written.rows.end_group()
    said = statistics(collector[0], written.rows.nans)
    written.file = TableFile(path, storage.size(f"{folder}/{path}"), collector[0].num_rows, said)
