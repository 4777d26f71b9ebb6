"""A stored Parquet file, or a table of many files, for output: only the requested columns and row groups are read."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.dataset import side_columns
from app.dataset.description import sas_metadata
from app.dataset.value_labels import Catalog
from app.model.names import folded
from app.tables.write.output_table import OptionError, OutputOptions, OutputTable, TableFormat
from app.tables.write.selection import Labelling, labelling, select
from app.tables.xpt.xpt_limits import DEFAULT_CHARSET, charset_of

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset, Fragment  # takes a quarter of a second to load

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

    If the format needs lengths of texts that the schema does not state, all these texts are read first. Stated lengths
    are of the original character set: a file of which the texts become UTF-8 may need more.
    """
    selection = select(schema, options, known)
    is_recoded = sas_metadata(schema.metadata).get("encoding", DEFAULT_CHARSET) != charset_of(schema) == DEFAULT_CHARSET
    unknown = []
    for field in map(schema.field, selection.sources) if known.needs_lengths else ():
        is_stated = (field.metadata or {}).get(b"sas.type") == b"character" and b"sas.length" in field.metadata
        is_character = pa.types.is_string(field.type) or known.as_digits(field.type)
        if is_character and (is_recoded or not is_stated) and not side_columns.is_side(field):
            unknown.append(field.name)
    if unknown:
        longest = dict.fromkeys(unknown, 0)
        for batch in rows.read(unknown):
            for name, column in zip(unknown, batch.columns, strict=True):
                longest[name] = max(longest[name], pc.max(pc.binary_length(column)).as_py() or 0)
        for name, length in longest.items():
            at = schema.get_field_index(name)
            known_length = int(sas_metadata(schema.field(at).metadata).get("length", "1"))
            stated = {b"sas.type": b"character", b"sas.length": str(max(length, known_length, 1)).encode()}
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


def outgoing_of_files(
    table: "Dataset", schema: pa.Schema, rows: int, options: OutputOptions, known: TableFormat, created: datetime
) -> OutputTable:
    """Return the part of a table of many files with this number of rows that settled options choose, for a format.

    Raises OptionError.

    The types are as in `schema`; the files may have integers in place of times. Reading is from one thread at a
    time.
    """
    schema = _named_apart(schema)
    first, taken = row_range(options, rows)
    chosen = OutputRows(lambda names: head(table, schema, names, first, taken), taken, created)
    return selected(schema, options, known, chosen)


def _named_apart(schema: pa.Schema) -> pa.Schema:
    """Return a table's schema with the columns' own names where several columns are of variables of one name."""
    own = [(field.metadata or {}).get(b"sas.name", b"").decode("utf-8", "replace") for field in schema]
    times = Counter(
        each for name, of in zip(schema.names, own, strict=True) for each in {folded(name), folded(of or name)}
    )
    fields = []
    for field, name in zip(schema, own, strict=True):
        if times[folded(name)] > 1:
            kept = {key: value for key, value in field.metadata.items() if key != b"sas.name"}
            fields.append(field.with_metadata(kept))
        else:
            fields.append(field)
    return pa.schema(fields, schema.metadata)


def head(table: "Dataset", schema: pa.Schema, names: Sequence[str], first: int, rows: int) -> Iterator[pa.RecordBatch]:
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


def _pieces(table: "Dataset") -> Iterator[tuple["Fragment", int]]:
    """Yield the table's row groups, or its other fragments, with their numbers of rows."""
    from pyarrow.dataset import ParquetFileFragment  # noqa: PLC0415 - takes a quarter of a second to load

    for fragment in table.get_fragments():
        if isinstance(fragment, ParquetFileFragment):
            yield from ((piece, piece.row_groups[0].num_rows) for piece in fragment.split_by_row_group())
        else:
            yield fragment, fragment.count_rows()


def _batches(piece: "Fragment", schema: pa.Schema, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
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
