"""A table of many files as one for output: only the requested columns, files and row groups are read."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.dataset as ds

from app.tables.write.output_table import OutputOptions, OutputTable, TableFormat
from app.tables.write.stored_table import ROWS_A_BATCH, OutputRows, row_range, selected


def outgoing(
    table: ds.Dataset, schema: pa.Schema, rows: int, options: OutputOptions, known: TableFormat, created: datetime
) -> OutputTable:
    """Return the part of a table with this number of rows that settled options choose, for a format.

    Raises OptionError.

    The types are as in `schema`; the files may have integers in place of times. Reading is from one thread at a
    time.
    """
    first, taken = row_range(options, rows)
    chosen = OutputRows(lambda names: head(table, schema, names, first, taken), taken, created)
    return selected(schema, options, known, chosen)


def head(table: ds.Dataset, schema: pa.Schema, names: Sequence[str], first: int, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield these columns of a number of rows from the first on. One batch of one row group is in memory."""
    wanted = pa.schema([schema.field(name) for name in names], schema.metadata)
    begin = 0
    for piece, size in _pieces(table) if rows else ():
        end = begin + size
        if first < end:
            for batch in _batches(piece, table.schema, wanted):
                taken = batch.slice(max(first - begin, 0), rows)
                begin += batch.num_rows
                if taken.num_rows:
                    yield taken
                    rows -= taken.num_rows
                if not rows:
                    return
        begin = end


def _pieces(table: ds.Dataset) -> Iterator[tuple[ds.Fragment, int]]:
    """Yield the table's row groups, or its other fragments, with their numbers of rows."""
    for fragment in table.get_fragments():
        if isinstance(fragment, ds.ParquetFileFragment):
            yield from ((piece, piece.row_groups[0].num_rows) for piece in fragment.split_by_row_group())
        else:
            yield fragment, fragment.count_rows()


def _batches(piece: ds.Fragment, schema: pa.Schema, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    reading = {"batch_size": ROWS_A_BATCH, "batch_readahead": 0, "fragment_readahead": 0, "use_threads": False}
    for batch in piece.to_batches(schema=schema, columns=wanted.names, **reading):
        if wanted:
            arrays = [
                column if column.type == field.type else column.view(field.type)
                for column, field in zip(batch.columns, wanted, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)
        else:
            yield batch
