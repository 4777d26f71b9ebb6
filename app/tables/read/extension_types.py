"""Columns of Arrow's extension types, which Parquet has as logical types, as plain ones.

JSON becomes text, a UUID its text with hyphens (RFC 9562), and a boolean of 8 bits a boolean. DuckDB and polars write
such columns. Any other extension type is read as the type that stores its values: what it means is not known here.
Extension types that Arrow itself does not know come as their storage anyway. Nested ones are refused like all nested
types.

Source: Apache Arrow, "Canonical Extension Types"; Apache Parquet, "Parquet Logical Type Definitions".
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class _Plain(NamedTuple):
    """A plain type, None for that of the storage, and how the values of an extension type become it."""

    type: pa.DataType | None
    values: Callable[[pa.ExtensionArray], pa.Array]


_UUID_BYTES = 16
_DIGITS = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), "S2")
"""The two hexadecimal digits of each byte."""
_HYPHENS = (8, 12, 16, 20)
"""The digits of a UUID before which a hyphen stands."""


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with plain types."""
    return pa.schema([field.with_type(_plain_type(field.type)) for field in schema], schema.metadata)


def plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the types of this schema, which `plain_schema` has made of its own."""
    if batch.schema.types == schema.types:
        return batch
    columns = [
        _PLAIN.get(column.type.extension_name, _STORED).values(column)
        if isinstance(column.type, pa.BaseExtensionType)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain_type(data_type: pa.DataType) -> pa.DataType:
    if not isinstance(data_type, pa.BaseExtensionType):
        return data_type
    return _PLAIN.get(data_type.extension_name, _STORED).type or data_type.storage_type


def _uuid_texts(column: pa.ExtensionArray) -> pa.StringArray:
    """Return UUIDs as texts of 36 characters."""
    storage = column.storage
    _, data = storage.buffers()
    held = np.frombuffer(data or b"", np.uint8)[_UUID_BYTES * storage.offset :][: _UUID_BYTES * len(storage)]
    digits = _DIGITS[held].view(np.uint8).reshape(len(column), 2 * _UUID_BYTES)
    texts = np.insert(digits, _HYPHENS, ord("-"), axis=1)
    size = texts.shape[1]
    offsets = np.arange(0, (len(column) + 1) * size, size, dtype=np.int32)
    made = pa.StringArray.from_buffers(len(column), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(texts)))
    return pc.if_else(storage.is_valid(), made, None)


_PLAIN: Mapping[str, _Plain] = {
    "arrow.uuid": _Plain(pa.string(), _uuid_texts),
    "arrow.bool8": _Plain(pa.bool_(), lambda column: column.storage.cast(pa.bool_())),
}
_STORED = _Plain(None, lambda column: column.storage)
"""That of all extension types that `_PLAIN` does not have."""
