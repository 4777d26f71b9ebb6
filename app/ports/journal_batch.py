"""The record batches of a journal: their columns, and the physical messages in their rows."""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa

from app.model.message import NO_PROPERTIES, UNREADABLE, PhysicalMessage
from app.model.records import DAMAGED_MESSAGE

_JOURNAL_TYPES: dict[str, pa.DataType] = {
    "source": pa.string(),
    "framing": pa.string(),
    "message_id": pa.binary(),
    "msg_type": pa.int64(),
    "correl_id": pa.binary(),
    "group_id": pa.binary(),
    "msg_seq_number": pa.int64(),
    "offset": pa.int64(),
    "msg_flags": pa.int64(),
    "original_length": pa.int64(),
    "encoding": pa.int64(),
    "ccsid": pa.int64(),
    "format": pa.string(),
    "put_time": pa.timestamp("us", "UTC"),
    "received_at": pa.timestamp("us", "UTC"),
    "properties": pa.map_(pa.string(), pa.string()),
    "body_crc32": pa.uint32(),
    "body": pa.large_binary(),
}
JOURNAL_SCHEMA = pa.schema([pa.field(name, kind, nullable=name == "put_time") for name, kind in _JOURNAL_TYPES.items()])
"""The columns of a journal's record batches: one physical message a row, with the CRC-32C of its body. An unknown put
time is null. A journal may add columns of its own."""


def messages_of(rows: pa.RecordBatch, bodies: Sequence[memoryview]) -> list[PhysicalMessage]:
    """Return the messages of these rows, which have the columns of JOURNAL_SCHEMA. Column `body` is not read."""
    values: dict[str, Sequence[Any]] = {
        name: _values(rows.column(name)) for name in PhysicalMessage._fields if name not in ("body", "properties")
    }
    values["body"] = bodies
    values["properties"] = _properties(rows.column("properties"))
    return list(map(PhysicalMessage._make, zip(*(values[name] for name in PhysicalMessage._fields), strict=True)))


def is_damaged(message: PhysicalMessage) -> bool:
    """Tell whether the journal could not read the body of a message back."""
    return message.framing == UNREADABLE and message.properties.get("refused-code") == DAMAGED_MESSAGE


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64()).fill_null(0)
    values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return values


def _properties(column: pa.MapArray) -> list[Mapping[str, str]]:
    if not len(column.keys):
        return list(repeat(NO_PROPERTIES, len(column)))
    return [dict(pairs) if pairs else NO_PROPERTIES for pairs in column.to_pylist()]
