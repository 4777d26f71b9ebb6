"""A stored Parquet file as a table for output: only the requested columns and row groups are read."""

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

from app.tables.out import lengths
from app.tables.out.options import Options
from app.tables.out.selection import select
from app.tables.out.table import Outgoing, TableFormat

ROWS_A_BATCH = 16_384


def outgoing(file: pq.ParquetFile, options: Options, known: TableFormat, created: datetime) -> Outgoing:
    """Return the part of a file that settled options choose, for a format. Raises OptionError.

    Reading is from one thread at a time.
    """
    selection = select(file.schema_arrow, options, known)
    first = min(options.offset or 0, file.metadata.num_rows)
    rows = file.metadata.num_rows - first
    if options.limit is not None:
        rows = min(rows, options.limit)
    unknown = lengths.unknown(file.schema_arrow, selection.sources) if known.needs_lengths else []
    if unknown:
        told = lengths.with_lengths(file.schema_arrow, unknown, _batches(file, unknown, first, rows))
        selection = select(told, options, known)
    batches = (selection.apply(batch) for batch in _batches(file, selection.sources, first, rows))
    return Outgoing(selection.schema, batches, rows, created)


def _batches(file: pq.ParquetFile, names: list[str], first: int, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield these columns (by name: Parquet's paths have dots) of a number of rows from the first on."""
    begin = 0
    for group in range(file.num_row_groups):
        end = begin + file.metadata.row_group(group).num_rows
        if rows and first < end:
            # pyarrow would read a Python file from all its threads at once.
            for batch in file.iter_batches(ROWS_A_BATCH, row_groups=[group], columns=names, use_threads=False):
                taken = batch.slice(max(first - begin, 0), rows)
                begin += batch.num_rows
                if taken.num_rows:
                    rows -= taken.num_rows
                    yield taken
        begin = end
