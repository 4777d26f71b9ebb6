"""A stored Parquet file as a table for output: only the requested columns and row groups are read."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

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
    """Return the part of a file that settled options choose, for a format.

    Raises OptionError, also if the options ask for value labels and there are none.

    `catalog` has the value labels that are shown in place of values if the options ask for it. Reading is from one
    thread at a time.
    """
    shown = Labelling(file.schema_arrow, ())
    if options.labels:
        try:
            shown = labelling(file.schema_arrow, catalog or {})
        except ValueError as error:
            raise OptionError("labels", str(error)) from None
        if not shown.labelled:
            raise OptionError(
                "labels", "there are no value labels: neither in the data set nor in a catalog of its message"
            )
    first, rows = row_range(options, file.metadata.num_rows)

    def read(names: list[str]) -> Iterator[pa.RecordBatch]:
        return map(shown.apply, batches(file, shown.sources(names), first, rows))

    return selected(shown.schema, options, known, OutputRows(read, rows, created))


class OutputRows(NamedTuple):
    """The rows for output: a function that yields these columns of them, their number, and their time of creation."""

    read: Callable[[list[str]], Iterator[pa.RecordBatch]]
    number: int
    created: datetime


def row_range(options: OutputOptions, rows: int) -> tuple[int, int]:
    """Return the first row that options choose of this number of rows, and how many they choose."""
    first = min(options.offset or 0, rows)
    return first, rows - first if options.limit is None else min(rows - first, options.limit)


def selected(schema: pa.Schema, options: OutputOptions, known: TableFormat, rows: OutputRows) -> OutputTable:
    """Return the columns that settled options choose, for a format. Raises OptionError.

    If the format needs lengths of texts that the schema does not state, all these texts are read first.
    """
    selection = select(schema, options, known)
    unknown = []
    for field in map(schema.field, selection.sources) if known.needs_lengths else ():
        is_stated = (field.metadata or {}).get(b"sas.type") == b"character" and b"sas.length" in field.metadata
        if pa.types.is_string(field.type) and not is_stated and not side_columns.is_side(field):
            unknown.append(field.name)
    if unknown:
        longest = dict.fromkeys(unknown, 0)
        for batch in rows.read(unknown):
            for name, column in zip(unknown, batch.columns, strict=True):
                longest[name] = max(longest[name], pc.max(pc.binary_length(column)).as_py() or 0)
        for name, length in longest.items():
            at = schema.get_field_index(name)
            stated = {b"sas.type": b"character", b"sas.length": str(max(length, 1)).encode()}
            metadata = {**(schema.field(at).metadata or {}), **stated}
            schema = schema.set(at, schema.field(at).with_metadata(metadata))
        selection = select(schema, options, known)
    return OutputTable(selection.schema, map(selection.apply, rows.read(selection.sources)), rows.number, rows.created)


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
