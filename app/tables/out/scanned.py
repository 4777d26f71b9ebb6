"""A table of many files as one for output: only the requested columns, files and row groups are read."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from app.dataset import side
from app.tables.out.options import Options
from app.tables.out.selection import select
from app.tables.out.stored import ROWS_A_BATCH
from app.tables.out.table import Outgoing, TableFormat


def outgoing(
    table: ds.Dataset, schema: pa.Schema, rows: int, options: Options, known: TableFormat, created: datetime
) -> Outgoing:
    """Return the part of a table with this number of rows that settled options choose, for a format.

    Raises OptionError.

    The types are those of `schema`; the files may have integers in place of times. Reading is from one thread at a
    time.
    """
    selection = select(schema, options, known)
    first = min(options.offset or 0, rows)
    taken = rows - first if options.limit is None else min(rows - first, options.limit)
    unknown = [name for name in selection.sources if _lacks_length(schema.field(name))]
    if known.needs_lengths and unknown:
        longest = _longest(unknown, head(table, schema, unknown, first, taken))
        selection = select(_with_lengths(schema, longest), options, known)
    batches = (selection.apply(batch) for batch in head(table, schema, selection.sources, first, taken))
    return Outgoing(selection.schema, batches, taken, created)


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


def _lacks_length(field: pa.Field) -> bool:
    is_told = (field.metadata or {}).get(b"sas.type") == b"character" and b"sas.length" in field.metadata
    return pa.types.is_string(field.type) and not is_told and not side.is_side(field)


def _longest(names: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Mapping[str, int]:
    """Return the size in bytes of the longest text of each column."""
    longest = dict.fromkeys(names, 0)
    for batch in batches:
        for name, column in zip(names, batch.columns, strict=True):
            longest[name] = max(longest[name], pc.max(pc.binary_length(column)).as_py() or 0)
    return longest


def _with_lengths(schema: pa.Schema, lengths: Mapping[str, int]) -> pa.Schema:
    for name, length in lengths.items():
        at = schema.get_field_index(name)
        told = {b"sas.type": b"character", b"sas.length": str(max(length, 1)).encode()}
        said = {**(schema.field(at).metadata or {}), **told}
        schema = schema.set(at, schema.field(at).with_metadata(said))
    return schema


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
            arrays = [_as(column, field.type) for column, field in zip(batch.columns, wanted, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)
        else:
            yield batch


def _as(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    return column if column.type == data_type else column.view(data_type)
