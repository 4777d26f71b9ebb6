"""Rows of any Arrow types, such as a query gives, in the types that the formats of this package write."""

from collections.abc import Iterable
from typing import NamedTuple

import orjson
import pyarrow as pa

from app.tables.write import text_cells

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
    fields = [field.with_type(_plain_type(field.type)) for field in rows.schema]
    schema = pa.schema(fields, rows.schema.metadata)
    return PlainRows(schema, (_plain_batch(batch, schema) for batch in rows.batches))


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
    written = text_cells.written(pa.array([clock]))[0].as_py()
    return f"{span.months} months {written}" if span.months else str(written)
