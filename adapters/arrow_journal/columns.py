"""A journal batch's columns: physical messages to Arrow and back.

`body_crc32` is the CRC-32C of a row's body. `batch_crc32`, the same in every row, is that of everything else: of the
batch's encapsulated message up to the first body, taken with this column as zeros. A tail of zeros, which a power cut
may leave, would otherwise read as messages without a body.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise, repeat
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from adapters.arrow_journal import ipc
from app.model.message import NO_PROPERTIES, PhysicalMessage
from app.ports import JOURNAL_SCHEMA

FORMAT_VERSION = 1

_U32 = Struct("<I")

SCHEMA = JOURNAL_SCHEMA.insert(
    JOURNAL_SCHEMA.get_field_index("body"), pa.field("batch_crc32", pa.uint32(), nullable=False)
)
_TYPES: dict[str, pa.DataType] = dict(zip(SCHEMA.names, SCHEMA.types, strict=True))
_TIME, _PROPERTIES = _TYPES["received_at"], _TYPES["properties"]

_VERSION_KEY, _CREATED_KEY = b"attachment_gateway.journal", b"attachment_gateway.created_at"
_NO_BYTES = pa.py_buffer(b"")


def segment_schema(created_at: int) -> pa.Schema:
    """The schema of a segment begun at this time (µs)."""
    return SCHEMA.with_metadata({_VERSION_KEY: str(FORMAT_VERSION), _CREATED_KEY: str(created_at)})


def created_at(schema: pa.Schema) -> int:
    """When a segment was begun (µs). Raises ValueError when this is not a journal segment of a version known here."""
    metadata = schema.metadata or {}
    version = metadata.get(_VERSION_KEY, b"none").decode()
    if version != str(FORMAT_VERSION) or not schema.equals(SCHEMA):
        raise ValueError(f"journal format {version}, expected {FORMAT_VERSION}")
    return int(metadata[_CREATED_KEY])


Bytes = bytes | bytearray | memoryview


class Encoded(NamedTuple):
    """A batch ready to be written: `head`, `bodies` and `fill` zeros one behind the other. `offsets` are those of the
    bodies behind the head, one more than there are bodies."""

    head: bytearray
    bodies: Sequence[Bytes]
    fill: int
    offsets: memoryview

    @property
    def size(self) -> int:
        """Bytes of all of it, a multiple of the block."""
        return len(self.head) + int(self.offsets[-1]) + self.fill


def encode(messages: Sequence[PhysicalMessage]) -> Encoded:
    """One record batch of these messages; their bodies are not copied."""
    count = len(messages)
    values: dict[str, Sequence[Any]] = dict(zip(PhysicalMessage._fields, zip(*messages, strict=True), strict=True))
    bodies = values["body"]
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(map(len, bodies), np.int64, count), out=offsets[1:])
    values["put_time"] = [time or None for time in values["put_time"]]
    made = {
        "properties": _properties(values["properties"]),
        "body_crc32": pa.array(np.fromiter(map(crc32c, bodies), np.uint32, count)),
        "batch_crc32": pa.array(np.zeros(count, np.uint32)),
        "body": pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(bytes(offsets.nbytes)), _NO_BYTES]),
    }
    columns = [made[name] if name in made else pa.array(values[name], kind) for name, kind in _TYPES.items()]
    head = bytearray(pa.RecordBatch.from_arrays(columns, schema=SCHEMA).serialize())
    fill = ipc.fill_in(head, offsets)
    head[_batch_crc32_in(len(head), count)] = _U32.pack(crc32c(head)) * count
    return Encoded(head, bodies, fill, memoryview(offsets.tobytes()).cast("q"))


def _properties(each: Sequence[Mapping[str, str]]) -> pa.Array:
    offsets = np.zeros(len(each) + 1, np.int32)
    if not any(each):
        keys: list[str] = []
        items: list[str] = []
    else:
        np.cumsum(np.fromiter(map(len, each), np.int32, len(each)), out=offsets[1:])
        keys = list(chain.from_iterable(each))
        items = list(chain.from_iterable(one.values() for one in each))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(keys, pa.string()), pa.array(items, pa.string()), _PROPERTIES
    )


def decode(batch: pa.RecordBatch, bodies: Sequence[memoryview]) -> list[PhysicalMessage]:
    """The messages of a batch whose bodies are these views."""
    values: dict[str, Sequence[Any]] = {
        name: _plain(batch.column(name)) for name in PhysicalMessage._fields if name not in ("body", "properties")
    }
    values["body"] = bodies
    values["properties"] = _mappings(batch.column("properties"))
    return list(map(PhysicalMessage._make, zip(*(values[name] for name in PhysicalMessage._fields), strict=True)))


def _plain(column: pa.Array) -> list[Any]:
    if column.type == _TIME:
        column = column.view(pa.int64()).fill_null(0)
    values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return values


def _mappings(column: pa.MapArray) -> list[Mapping[str, str]]:
    if not len(column.keys):
        return list(repeat(NO_PROPERTIES, len(column)))
    return [dict(pairs) if pairs else NO_PROPERTIES for pairs in column.to_pylist()]


class BodyLayout(NamedTuple):
    """Where a batch's bodies lie in its file: body i is bytes [start + offsets[i], start + offsets[i + 1])."""

    start: int
    offsets: memoryview

    def slices(self, view: memoryview) -> list[memoryview]:
        """The bodies, out of a view of the file."""
        start = self.start
        return [view[start + begin : start + end] for begin, end in pairwise(self.offsets)]


def body_layout(batch: pa.RecordBatch, file_address: int) -> BodyLayout:
    """Where the bodies of a batch lie that was read from a file mapped at this address: right behind their offsets."""
    _, offsets, _ = batch.column("body").buffers()
    length = 8 * (len(batch) + 1)
    return BodyLayout(offsets.address - file_address + length, memoryview(bytes(offsets)[:length]).cast("q"))


def bad_rows(batch: pa.RecordBatch, start: int, layout: BodyLayout, view: memoryview) -> list[int]:
    """The rows of a batch that are not as they were written; its message begins at `start` of the file in `view`."""
    count = len(batch)
    head = bytearray(view[start : layout.start])
    written = _batch_crc32_in(len(head), count)
    expected, head[written] = head[written], bytes(4 * count)
    if expected != _U32.pack(crc32c(head)) * count:
        return list(range(count))
    crcs = batch.column("body_crc32").to_pylist()
    return [row for row, body in enumerate(layout.slices(view)) if crc32c(body) != crcs[row]]


def _batch_crc32_in(length: int, count: int) -> slice:
    """Where the column `batch_crc32` lies in the head of a batch: last but for the offsets of the bodies."""
    size = 4 * count
    start = length - 8 * (count + 1) - ipc.padding(size) - size
    return slice(start, start + size)
