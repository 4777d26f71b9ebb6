"""A stored Parquet file as a table for output: only the requested columns and row groups are read."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.dataset import side_columns
from app.dataset.value_labels import Catalog
from app.tables.write.output_table import OptionError, OutputOptions, OutputTable, TableFormat
from app.tables.write.selection import select
from app.tables.write.shown_labels import Labelling, labelling

ROWS_A_BATCH = 16_384


def outgoing(
    file: pq.ParquetFile,
    options: OutputOptions,
    known: TableFormat,
    created: datetime,
    catalog: Catalog | None = None,
) -> OutputTable:
    """Return the part of a file that settled options choose, for a format. Raises OptionError.

    `catalog` has the value labels that are shown in place of values if the options ask for it. Reading is from one
    thread at a time.
    """
    shown = _labelling(file.schema_arrow, options, catalog or {})
    selection = select(shown.schema, options, known)
    first = min(options.offset or 0, file.metadata.num_rows)
    rows = file.metadata.num_rows - first
    if options.limit is not None:
        rows = min(rows, options.limit)

    def read(names: list[str]) -> Iterator[pa.RecordBatch]:
        return map(shown.apply, batches(file, shown.sources(names), first, rows))

    unknown = lacking_lengths(shown.schema, selection.sources) if known.needs_lengths else []
    if unknown:
        told = with_lengths(shown.schema, unknown, read(unknown))
        selection = select(told, options, known)
    return OutputTable(selection.schema, map(selection.apply, read(selection.sources)), rows, created)


def _labelling(schema: pa.Schema, options: OutputOptions, catalog: Catalog) -> Labelling:
    """Return the labelling that options ask for. Raises OptionError if there are no value labels."""
    if not options.labels:
        return Labelling(schema, ())
    try:
        found = labelling(schema, catalog)
    except ValueError as error:
        raise OptionError("labels", str(error)) from None
    if not found.labelled:
        raise OptionError(
            "labels", "there are no value labels: neither in the data set nor in a catalog of its message"
        )
    return found


def batches(file: pq.ParquetFile, names: list[str], first: int, rows: int) -> Iterator[pa.RecordBatch]:
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


def lacking_lengths(schema: pa.Schema, names: Sequence[str]) -> list[str]:
    """Return which of these columns are texts whose length the schema does not say."""
    return [name for name in names if _lacks_length(schema.field(name))]


def with_lengths(schema: pa.Schema, names: Sequence[str], batches: Iterable[pa.RecordBatch]) -> pa.Schema:
    """Return the schema with the lengths of these columns, of which alone the batches are. Reads every batch."""
    longest = dict.fromkeys(names, 0)
    for batch in batches:
        for name, column in zip(names, batch.columns, strict=True):
            longest[name] = max(longest[name], pc.max(pc.binary_length(column)).as_py() or 0)
    for name, length in longest.items():
        at = schema.get_field_index(name)
        told = {b"sas.type": b"character", b"sas.length": str(max(length, 1)).encode()}
        metadata = {**(schema.field(at).metadata or {}), **told}
        schema = schema.set(at, schema.field(at).with_metadata(metadata))
    return schema


def _lacks_length(field: pa.Field) -> bool:
    is_told = (field.metadata or {}).get(b"sas.type") == b"character" and b"sas.length" in field.metadata
    return pa.types.is_string(field.type) and not is_told and not side_columns.is_side(field)
