"""Output of rows: to people in a terminal, and to files."""

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from rich.markup import escape

from app.cli.console import Failure, err, out, printable, table
from app.cli.download_formats import choose
from app.cli.files import whole_file
from app.tables.out import FORMATS, Options, Outgoing, text
from app.tables.out.cells import Cell, cells

WRITTEN = ("parquet", "arrow", "arrow-file", "csv", "json", "ndjson")
"""The formats that do not begin with the number of rows, which is unknown before the last row."""

_DAY = 86_400_000_000
_PLAIN = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_duration,
    pa.types.is_string,
)
_TEXTUAL = (pa.types.is_null, pa.types.is_dictionary, pa.types.is_large_string, pa.types.is_string_view)
_TAGS = Options(missing="tag")


class Rows(NamedTuple):
    """Rows that can be iterated once."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]


def plain(rows: Rows) -> Rows:
    """Return rows whose every column is text, a number, a boolean or a time; other types become text."""
    fields = [field.with_type(_plain_type(field.type)) for field in rows.schema]
    schema = pa.schema(fields, rows.schema.metadata)
    return Rows(schema, (_plain_batch(batch, schema) for batch in rows.batches))


def to_terminal(rows: Rows, most: int) -> None:
    """Print rows as a grid, at most `most`; special missing values are shown in their cells."""
    shown = cells(rows.schema, _TAGS)
    grid = table()
    for cell in shown:
        is_number = text.is_bare(cell.type)
        grid.add_column(escape(printable(cell.name)), justify="right" if is_number else "left", overflow="fold")
    more = False
    for batch in rows.batches:
        more = batch.num_rows > most - grid.row_count
        for row in _lines(shown, batch.slice(0, most - grid.row_count)):
            grid.add_row(*row)
        if more:
            break
    out.print(grid)
    if more:
        err.print(f"only the first {most:,} rows are shown")


def to_stream(rows: Rows, word: str) -> None:
    """Write rows in a text format to standard output; special missing values are in their cells."""
    _write(rows, word, _TAGS, sys.stdout.buffer)


def to_file(rows: Rows, output: str) -> None:
    """Write rows to a file in the format of its extension; the file appears when it is complete. Raises Failure."""
    word = choose(None, output, None).word
    if word not in WRITTEN:
        raise Failure(f"{output}: rows cannot be written as {word}", f"known formats: {', '.join(WRITTEN)}")
    with whole_file(Path(output)) as file:
        _write(rows, word, Options(), file)


def _write(rows: Rows, word: str, options: Options, file: BinaryIO) -> None:
    known = FORMATS[word]
    file.writelines(known.write(Outgoing(rows.schema, rows.batches, 0, datetime.now(UTC)), known.settled(options)))
    file.flush()


def _lines(shown: list[Cell], batch: pa.RecordBatch) -> Iterator[list[str]]:
    columns = []
    for cell in shown:
        written, tags = cell.written(batch), cell.tags(batch)
        columns.append((written if tags is None else pc.coalesce(written, tags)).to_pylist())
    for row in zip(*columns, strict=True):
        yield ["[dim]null[/]" if value is None else escape(printable(value)) for value in row]


def _plain_type(data_type: pa.DataType) -> pa.DataType:
    return data_type if any(includes(data_type) for includes in _PLAIN) else pa.string()


def _plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [_plain_column(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain_column(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if column.type == wanted:
        return column
    if any(includes(column.type) for includes in _TEXTUAL):
        return column.cast(pa.string())
    return pa.array([None if value is None else _told(value) for value in column.to_pylist()], pa.string())


def _told(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, pa.MonthDayNano):
        return _span(value)
    return orjson.dumps(value, default=str).decode()


def _span(span: pa.MonthDayNano) -> str:
    """Return a span such as `50:00:00`, or `1 months 00:00:00`, since a month has no fixed length in hours."""
    clock = pa.scalar(span.days * _DAY + span.nanoseconds // 1000, pa.duration("us"))
    written = text.written(pa.array([clock]))[0].as_py()
    return f"{span.months} months {written}" if span.months else str(written)
