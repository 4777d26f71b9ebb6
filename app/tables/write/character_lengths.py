"""Lengths of character variables, for formats that need them, where a table does not say them."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from app.dataset import side_columns


def unknown(schema: pa.Schema, names: Sequence[str]) -> list[str]:
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
        said = {**(schema.field(at).metadata or {}), **told}
        schema = schema.set(at, schema.field(at).with_metadata(said))
    return schema


def _lacks_length(field: pa.Field) -> bool:
    is_told = (field.metadata or {}).get(b"sas.type") == b"character" and b"sas.length" in field.metadata
    return pa.types.is_string(field.type) and not is_told and not side_columns.is_side(field)
