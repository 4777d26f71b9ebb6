"""The result of a query: rows of any Arrow types, and the formats in which clients get them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from io import BytesIO
from typing import Final, Literal, NamedTuple

import orjson
import pyarrow as pa

from app.tables.write import text_cells
from app.tables.write.csv_writer import write_csv
from app.tables.write.json_rows import row_arrays, separated
from app.tables.write.output_pieces import Piece
from app.tables.write.output_table import OutputOptions, OutputTable

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


class PlainRows(NamedTuple):
    """Rows that can be iterated once."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]


def plain(rows: PlainRows) -> PlainRows:
    """Return rows whose every column is text, a number, a boolean or a time; other types become text."""
    fields = [
        field.with_type(field.type if any(includes(field.type) for includes in _PLAIN) else pa.string())
        for field in rows.schema
    ]
    schema = pa.schema(fields, rows.schema.metadata)
    columns = (
        [_plain_column(*pair) for pair in zip(batch.columns, schema.types, strict=True)] for batch in rows.batches
    )
    return PlainRows(schema, (pa.RecordBatch.from_arrays(each, schema=schema) for each in columns))


def _plain_column(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if column.type == wanted:
        return column
    if any(includes(column.type) for includes in _TEXTUAL):
        return column.cast(pa.string())
    return pa.array([None if value is None else _text_of(value) for value in column.to_pylist()], pa.string())


def _text_of(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, pa.MonthDayNano):
        # Such as `50:00:00`, or `1 months 00:00:00`, since a month has no fixed length in hours.
        clock = pa.scalar(value.days * _DAY + value.nanoseconds // 1000, pa.duration("us"))
        written = text_cells.written(pa.array([clock]))[0].as_py()
        return f"{value.months} months {written}" if value.months else str(written)
    return orjson.dumps(value, default=str).decode()


QueryFormat = Literal["json", "csv", "arrow"]

_OPTIONS: Final = OutputOptions(missing="column")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _write_json(found: pa.Table, types: pa.Schema, is_cut: bool) -> Iterator[Piece]:
    """Yield the columns with their types, and the rows as arrays."""
    made = _outgoing(found)
    columns = [{"name": field.name, "type": str(field.type)} for field in types]
    yield b'{"columns":' + orjson.dumps(columns) + b',"rows":['
    yield from separated(row_arrays(made, _OPTIONS))
    yield b'],"truncated":' + orjson.dumps(is_cut) + b"}"


def _write_arrow(found: pa.Table, _types: pa.Schema, _is_cut: bool) -> Iterator[Piece]:
    stream = BytesIO()
    with pa.ipc.new_stream(stream, found.schema) as writer:
        writer.write_table(found)
    yield stream.getvalue()


def _outgoing(found: pa.Table) -> OutputTable:
    rows = plain(PlainRows(found.schema, found.combine_chunks().to_batches()))
    return OutputTable(rows.schema, rows.batches, found.num_rows, _EPOCH)


QUERY_WRITERS: Mapping[QueryFormat, Callable[[pa.Table, pa.Schema, bool], Iterator[Piece]]] = {
    "json": _write_json,
    "csv": lambda found, _types, _is_cut: write_csv(_outgoing(found), _OPTIONS),
    "arrow": _write_arrow,
}
"""The writers of a result, from its rows, the types that its columns have in DuckDB, and whether rows are left out."""
