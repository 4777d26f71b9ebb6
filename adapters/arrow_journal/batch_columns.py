"""The columns of a journal batch: conversion of physical messages to Arrow and back.

`body_crc32` is the CRC-32C of a row's body, and `position` is the row's own packed position. `batch_crc32`, the same in
every row, covers everything else: the batch's encapsulated message up to the first body, with this column as zeros,
from a seed that belongs to the segment. So a tail of zeros, which a power failure may leave, does not read as messages
without a body. A reader that looks for batches after damaged bytes recognizes them and their numbers.

A lost batch is replaced by one without rows. The mark after its head confirms that it has none on purpose: its number,
and a CRC-32C of the head and this number.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from adapters.arrow_journal import arrow_ipc
from app.model.message import MAX_ROWS_A_BATCH, PhysicalMessage, Position
from app.ports import JOURNAL_SCHEMA

_U32 = Struct("<I")

_BODY = JOURNAL_SCHEMA.get_field_index("body")
SCHEMA = JOURNAL_SCHEMA.insert(_BODY, pa.field("batch_crc32", pa.uint32(), nullable=False)).insert(
    _BODY, pa.field("position", pa.int64(), nullable=False)
)
_TYPES: dict[str, pa.DataType] = dict(zip(SCHEMA.names, SCHEMA.types, strict=True))
_PROPERTIES = _TYPES["properties"]

_NO_BYTES = pa.py_buffer(b"")

Bytes = bytes | bytearray | memoryview

Area = Callable[[int], memoryview | None]
"""A function that returns aligned memory of a size in bytes, or None."""


class Encoded(NamedTuple):
    """A batch ready to be written: `head`, `bodies` and `fill` zeros in this order.

    `offsets` are the places of the bodies behind the head, one more than the bodies. `crcs` are the checksums of the
    bodies. `staged` has all bytes in aligned memory, where that was prepared; `head` is its beginning then.
    """

    head: bytearray | memoryview
    bodies: Sequence[Bytes]
    fill: int
    offsets: memoryview
    crcs: memoryview
    staged: memoryview | None = None

    @property
    def size(self) -> int:
        """Return the size of all of it in bytes, a multiple of the block."""
        return len(self.head) + int(self.offsets[-1]) + self.fill

    def buffers(self) -> Sequence[Bytes]:
        """Return all of it in pieces."""
        return (self.head, *self.bodies, bytes(self.fill)) if self.staged is None else (self.staged,)


def encode(messages: Sequence[PhysicalMessage], first: Position, seed: int, crcs: memoryview | None = None) -> Encoded:
    """Return a record batch of these messages, from this position on, without copying their bodies.

    `crcs` are the original checksums of bodies that may be damaged.
    """
    encoded = prepare(messages, crcs)
    place(encoded, first, seed)
    return encoded


def prepare(
    messages: Sequence[PhysicalMessage], crcs: Iterable[int] | None = None, area: Area | None = None
) -> Encoded:
    """Return a record batch as `encode` does, without its positions and its checksum, which `place` adds.

    If no checksums are given, and `area` returns memory for a batch of its size, the batch is copied there.
    """
    count = len(messages)
    values: dict[str, Sequence[Any]] = dict(zip(PhysicalMessage._fields, zip(*messages, strict=True), strict=True))
    bodies = values["body"]
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(map(len, bodies), np.int64, count), out=offsets[1:])
    values["put_time"] = [time or None for time in values["put_time"]]
    made = {
        "properties": _properties(values["properties"]),
        "body_crc32": pa.array(np.zeros(count, np.uint32)),
        "position": pa.array(np.zeros(count, np.int64)),
        "batch_crc32": pa.array(np.zeros(count, np.uint32)),
        "body": pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(bytes(offsets.nbytes)), _NO_BYTES]),
    }
    columns = [made[name] if name in made else pa.array(values[name], kind) for name, kind in _TYPES.items()]
    head = bytearray(pa.RecordBatch.from_arrays(columns, schema=SCHEMA).serialize())
    fill = arrow_ipc.fill_in(head, offsets)
    staged = area(len(head) + int(offsets[-1]) + fill) if area is not None and crcs is None else None
    if crcs is None:
        crcs = map(crc32c, bodies) if staged is None else _copied(bodies, staged, len(head))
    sums = np.fromiter(crcs, np.uint32, count).tobytes()
    head[_crcs_before(_positions_in(_batch_crc32_in(len(head), count), count).start, count)] = sums
    batch = Encoded(head, bodies, fill, memoryview(offsets.tobytes()).cast("q"), memoryview(sums).cast("I"))
    if staged is None:
        return batch
    staged[: len(head)] = head
    staged[batch.size - fill :] = bytes(fill)
    return batch._replace(head=staged[: len(head)], staged=staged)


def prepare_all(messages: Sequence[PhysicalMessage], area: Area | None = None) -> list[Encoded]:
    """Return these messages as record batches, each as `prepare` does."""
    starts = range(0, len(messages), MAX_ROWS_A_BATCH)
    return [prepare(messages[at : at + MAX_ROWS_A_BATCH], area=area) for at in starts]


def positions_of(messages: Sequence[PhysicalMessage], segment: int, batch: int) -> list[Position]:
    """Return the positions of messages whose record batches begin with this one of a segment."""
    rows = MAX_ROWS_A_BATCH
    return [Position(segment, batch + at // rows, at % rows) for at in range(len(messages))]


def _copied(bodies: Iterable[Bytes], target: memoryview, at: int) -> Iterator[int]:
    """Copy bodies to a place in memory, and yield the checksum of each. It is computed just before the copy, so that
    memory is read once."""
    for body in bodies:
        crc = crc32c(body)
        end = at + len(body)
        target[at:end] = body
        at = end
        yield crc


def place(encoded: Encoded, first: Position, seed: int) -> None:
    """Give the rows of a batch their positions, from this one on, and the checksum that covers them. It may be placed
    again elsewhere."""
    place_head(encoded.head, len(encoded.bodies), first, seed)


def place_head(head: bytearray | memoryview, count: int, first: Position, seed: int) -> None:
    """Do what `place` does with the head of a batch of `count` rows, however its bodies are held."""
    sums = _batch_crc32_in(len(head), count)
    at = first.pack()
    head[_positions_in(sums, count)] = np.arange(at, at + count, dtype="<i8").tobytes()
    head[sums] = bytes(4 * count)
    head[sums] = _U32.pack(crc32c(head, seed)) * count


def encode_lost(number: int, size: int, seed: int) -> bytes:
    """Return the beginning of a batch without rows of `size` bytes (whole blocks), in place of a lost batch."""
    empty = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in SCHEMA.types], schema=SCHEMA)
    head = bytearray(empty.serialize())
    arrow_ipc.fill_in(head, np.zeros(1, np.int64))
    arrow_ipc.lengthen(head, size)
    return bytes(head) + _lost_mark(head, number, seed)


def _lost_mark(head: bytes | bytearray, number: int, seed: int) -> bytes:
    packed = _U32.pack(number)
    return packed + _U32.pack(crc32c(packed, crc32c(head, seed)))


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


class BodyLayout(NamedTuple):
    """The place of a batch's bodies in its file, and their checksums: body i is bytes [start + offsets[i], start +
    offsets[i + 1])."""

    start: int
    offsets: memoryview
    crcs: memoryview


NO_LAYOUT = BodyLayout(0, memoryview(bytes(8)).cast("q"), memoryview(b"").cast("I"))


class Head(NamedTuple):
    """A batch up to its first body: bytes [start, layout.start) of its file.

    The batch ends at `end`. A lost batch has no rows.
    """

    number: int
    start: int
    end: int
    layout: BodyLayout
    data: bytes

    @property
    def rows(self) -> int:
        return len(self.layout.crcs)

    def record_batch(self) -> pa.RecordBatch:
        """Return the columns. The values of `body` are invalid and must not be read."""
        message = bytearray(self.data)
        arrow_ipc.without_bodies(message)
        return pa.ipc.read_record_batch(pa.ipc.read_message(pa.py_buffer(message)), SCHEMA)


HEAD_BYTES = 256 << 20
"""More than the size of any batch's head."""


def read_head(get: Callable[[int, int], bytes], start: int, segment: int, seed: int) -> Head | None:
    """Return the head of the batch that begins at `start`; None where there is no undamaged head.

    `get` returns bytes [start, end) of the file, fewer at its end.
    """
    frame = unverified_frame(get, start)
    if frame is None or frame.rows > MAX_ROWS_A_BATCH or frame.head > HEAD_BYTES:
        return None
    data = get(start, start + frame.head)
    if len(data) < frame.head:
        return None
    if frame.rows:
        column = _batch_crc32_in(frame.head, frame.rows)
        places = _positions_in(column, frame.rows).start
        crcs = _crcs_before(places, frame.rows).start
        if crcs < frame.metadata:
            return None
        crc = crc32c(data[column.stop :], crc32c(bytes(4 * frame.rows), crc32c(memoryview(data)[: column.start], seed)))
        if data[column] != _U32.pack(crc) * frame.rows:
            return None
        place = Position.unpack(int.from_bytes(data[places : places + 8], "little"))
        return _head(place.batch, start, frame, data, crcs) if place.segment == segment and not place.row else None
    mark = get(start + frame.head, start + frame.head + 2 * _U32.size)
    number = int(_U32.unpack_from(mark.ljust(_U32.size))[0])
    return _head(number, start, frame, data, 0) if mark == _lost_mark(data, number, seed) else None


def unverified_frame(get: Callable[[int, int], bytes], start: int) -> arrow_ipc.BatchFrame | None:
    """Return the frame of the batch that begins at `start`, which may be damaged; None where there is none."""
    begin = get(start, start + 8)
    end = arrow_ipc.metadata_end(begin)
    return arrow_ipc.frame_of(get(start, start + end)) if end else None


def _head(number: int, start: int, frame: arrow_ipc.BatchFrame, data: bytes, crcs: int) -> Head:
    offsets = memoryview(data[frame.head - 8 * (frame.rows + 1) : frame.head]).cast("q")
    sums = memoryview(data[crcs : crcs + 4 * frame.rows]).cast("I")
    return Head(number, start, start + frame.end, BodyLayout(start + frame.head, offsets, sums), data)


def _positions_in(sums: slice, count: int) -> slice:
    """Return the place of the column `position`, just before the column `batch_crc32`."""
    return slice(sums.start - 8 * count, sums.start)


def _crcs_before(end: int, count: int) -> slice:
    """Return the place of the column `body_crc32`, which is padded and ends before the next column."""
    start = end - 4 * count - arrow_ipc.padding(4 * count)
    return slice(start, start + 4 * count)


def _batch_crc32_in(length: int, count: int) -> slice:
    """Return the place of the column `batch_crc32` in a batch's head: just before the offsets of the bodies.

    The positions are in front of it, and the checksums of the bodies in front of these.
    """
    size = 4 * count
    start = length - 8 * (count + 1) - arrow_ipc.padding(size) - size
    return slice(start, start + size)
