"""Conversion between Arrow schemas and Delta schemas.

Delta has no time of day and no duration: they are stored as `long`, in microseconds, and the field's metadata name the
Arrow type (`arrow.type`). A timestamp without a zone is Delta's `timestamp_ntz`, a table feature that every table
created here declares. A field's metadata are in Delta's field; a schema's metadata are in the table's
configuration. Other programs show a field's `comment`: it is the variable's label, and the meaning of a `long`. A
comment that another program has written stays if the column has neither.

Source: Delta transaction log protocol, "Schema Serialization Format" and "Timestamp without timezone (TimestampNtz)".
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from app.model.errors import GatewayError

ARROW_TYPE = "arrow.type"
PROTOCOL: Mapping[str, Any] = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["timestampNtz"],
    "writerFeatures": ["timestampNtz"],
}

_DELTA: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
}
_ARROW: Mapping[str, pa.DataType] = {delta: arrow for arrow, delta in _DELTA.items()}
_DECIMAL = re.compile(r"decimal\((\d|[12]\d|3[0-8]), ?(\d|[12]\d|3[0-8])\)")
_COMMENT, _LABEL = "comment", "sas.label"
_UNITS: Mapping[str, str] = {
    "time64[us]": "time of day, in microseconds since midnight",
    "duration[us]": "duration, in microseconds",
}
_AS_LONG: Mapping[str, pa.DataType] = {str(kind): kind for kind in (pa.time64("us"), pa.duration("us"))}


def delta_schema(schema: pa.Schema) -> dict[str, Any]:
    """Return Delta's schema as a JSON object. Raises GatewayError for unsupported types."""
    fields: list[dict[str, Any]] = []
    for field in schema:
        metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        if str(field.type) in _AS_LONG:
            metadata[ARROW_TYPE] = str(field.type)
        if comment := _comment(metadata, field.type):
            metadata[_COMMENT] = comment
        stored = stored_type(field.type)
        delta = _DELTA.get(stored)
        if pa.types.is_decimal128(stored) and stored.scale >= 0:
            delta = f"decimal({stored.precision},{stored.scale})"
        if delta is None:
            raise GatewayError(f"tables do not support type {field.type} of column {field.name}")
        fields.append({"name": field.name, "type": delta, "nullable": True, "metadata": metadata})
    return {"type": "struct", "fields": fields}


def arrow_schema(schema: Mapping[str, Any], metadata: Mapping[str, str]) -> pa.Schema:
    """Return the Arrow schema of a Delta schema, with these metadata. Raises GatewayError for unsupported types."""
    fields: list[pa.Field] = []
    for field in schema["fields"]:
        entries = {key: text if isinstance(text, str) else json.dumps(text) for key, text in field["metadata"].items()}
        delta = field["type"]
        arrow = _AS_LONG.get(entries.pop(ARROW_TYPE, "")) if delta == "long" else None
        if arrow is None and isinstance(delta, str):
            decimal = _DECIMAL.fullmatch(delta)
            arrow = _ARROW.get(delta) if decimal is None else pa.decimal128(*map(int, decimal.groups()))
        if arrow is None:
            raise GatewayError(f"the column {field['name']} has the unsupported type {delta}")
        if _COMMENT in entries and entries[_COMMENT] == _comment(entries, arrow):
            del entries[_COMMENT]
        fields.append(pa.field(field["name"], arrow, metadata=entries or None))
    return pa.schema(fields, dict(metadata) or None)


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the Parquet files."""
    return pa.schema([pa.field(field.name, stored_type(field.type)) for field in schema])


def stored_type(data_type: pa.DataType) -> pa.DataType:
    return pa.int64() if str(data_type) in _AS_LONG else data_type


def with_types(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a schema with the schema's types and unchanged values. A missing column has nulls."""
    arrays = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        arrays.append(pa.nulls(batch.num_rows, field.type) if at < 0 else _as(batch.column(at), field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    if array.type == data_type:
        return array
    if str(data_type) in _AS_LONG:
        return _as(array, pa.int64()).view(data_type)
    return array.view(data_type) if str(array.type) in _AS_LONG else array.cast(data_type)


def _comment(metadata: Mapping[str, str], data_type: pa.DataType) -> str:
    """Return the comment that describes a column; empty if nothing is known of it but its name."""
    return "; ".join(filter(None, (metadata.get(_LABEL), _UNITS.get(str(data_type)))))
