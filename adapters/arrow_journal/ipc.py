"""Arrow's encapsulated messages, written around bodies that are never copied.

An Arrow stream is a run of encapsulated messages: a marker and a length of 4 bytes each, a flatbuffer (Message.fbs) and
the column buffers. Arrow serialises a batch only into memory of its own, which would copy every body. So Arrow
serialises the batch with empty bodies, and what the true bodies change is filled in: the last column's offsets, which
are the last bytes of that message, the length of the last buffer and the length of the whole. The bodies then follow
in the file as they are. ("Arrow Columnar Format: Encapsulated message format, Recordbatch message")
"""

from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
ALIGNMENT = 8
BLOCK = 4096
"""Every message of a segment is a multiple of this, so that it can be written past the system's page cache. Arrow lets
metadata and bodies end in any padding that keeps its own alignment."""
MAX_METADATA = 1 << 20
READ_ERRORS = (pa.ArrowException, OSError)

_INT16, _INT32, _INT64 = Struct("<H"), Struct("<i"), Struct("<q")
_MARKER, _PREFIX = 4, 8
_CONTINUATION = END_OF_STREAM[:_MARKER]
_MESSAGE_HEADER, _MESSAGE_BODY_LENGTH, _BATCH_LENGTH, _BATCH_BUFFERS = 2, 3, 0, 2
_BUFFER_SIZE, _BUFFER_LENGTH = 16, 8


def padding(length: int) -> int:
    """How many bytes fill a buffer of this length up to Arrow's alignment."""
    return -length % ALIGNMENT


def block_padding(length: int) -> int:
    """How many bytes fill so many up to a whole block."""
    return -length % BLOCK


def in_blocks(schema: bytes) -> bytes:
    """A schema's message of whole blocks: its metadata ends in more padding."""
    fill = block_padding(len(schema))
    size = _INT32.unpack_from(schema, _MARKER)[0] + fill
    return schema[:_MARKER] + _INT32.pack(size) + schema[_PREFIX:] + bytes(fill)


def fill_in(message: bytearray, offsets: npt.NDArray[np.int64]) -> int:
    """Turns a batch serialised with empty bodies into the head of one whose last column has these offsets.

    What must follow it in the file are the bodies (offsets[-1] bytes) and so many bytes of padding as are returned, up
    to a whole block.
    """
    size = int(offsets[-1])
    fill = block_padding(len(message) + size)
    message[len(message) - offsets.nbytes :] = offsets.astype("<i8", copy=False).tobytes()
    _set_bodies(message, size, size + fill)
    return fill


def lengthen(head: bytearray, size: int) -> None:
    """Makes the message of a head as long as `size` bytes; what is added is in no buffer."""
    frame = frame_of(head)
    assert frame is not None
    _set_bodies(head, 0, size - frame.end)


def without_bodies(head: bytearray) -> None:
    """Undoes `fill_in` but for the offsets: the head becomes a whole message, whose bodies must not be looked at."""
    frame = frame_of(head)
    assert frame is not None
    _set_bodies(head, -frame.bodies, frame.head - frame.end)


def _set_bodies(message: bytearray, size: int, message_size: int) -> None:
    """Adds to the lengths of the last buffer and of the message's body."""
    table, batch = _tables(message)
    buffers = _follow(message, _field(message, batch, _BATCH_BUFFERS))
    last = buffers + 4 + (_INT32.unpack_from(message, buffers)[0] - 1) * _BUFFER_SIZE
    for at, more in ((last + _BUFFER_LENGTH, size), (_field(message, table, _MESSAGE_BODY_LENGTH), message_size)):
        _INT64.pack_into(message, at, _INT64.unpack_from(message, at)[0] + more)


class Frame(NamedTuple):
    """What a record batch's message says of itself: it has `rows`, its `metadata` ends at that byte, its head ends
    where the last buffer begins, which has so many bytes (`bodies`), and all of it at `end`. Nothing of it is to be
    believed before a checksum says so."""

    rows: int
    metadata: int
    head: int
    bodies: int
    end: int


def metadata_end(start: bytes | bytearray | memoryview) -> int | None:
    """Where the metadata of a message that begins so ends; None where no message does. 0 for the end of a stream."""
    if len(start) < _PREFIX or start[:_MARKER] != _CONTINUATION:
        return None
    size = int(_INT32.unpack_from(start, _MARKER)[0])
    if size == 0:
        return 0
    return _PREFIX + size if 0 < size <= MAX_METADATA and size % ALIGNMENT == 0 else None


def frame_of(message: bytes | bytearray | memoryview) -> Frame | None:
    """The frame of a record batch whose metadata is here, whatever these bytes are; None where they are none."""
    metadata = metadata_end(message)
    if not metadata or len(message) < metadata:
        return None
    try:
        table, batch = _tables(message)
        buffers = _follow(message, _field(message, batch, _BATCH_BUFFERS))
        last = buffers + 4 + (_INT32.unpack_from(message, buffers)[0] - 1) * _BUFFER_SIZE
        rows = _INT64.unpack_from(message, _field(message, batch, _BATCH_LENGTH))[0] if _has(message, batch, 0) else 0
        begin, bodies = _INT64.unpack_from(message, last)[0], _INT64.unpack_from(message, last + _BUFFER_LENGTH)[0]
        end = metadata + _INT64.unpack_from(message, _field(message, table, _MESSAGE_BODY_LENGTH))[0]
    except struct_error:
        return None
    frame = Frame(rows, metadata, metadata + begin, bodies, end)
    is_sound = rows >= 0 and metadata <= frame.head and 0 <= bodies <= end - frame.head and end % BLOCK == 0
    return frame if is_sound else None


def _tables(message: bytes | bytearray | memoryview) -> tuple[int, int]:
    """The flatbuffer tables Message and RecordBatch."""
    table = _follow(message, _PREFIX)
    return table, _follow(message, _field(message, table, _MESSAGE_HEADER))


def _has(message: bytes | bytearray | memoryview, table: int, number: int) -> bool:
    return _field(message, table, number) != table


def _field(message: bytes | bytearray | memoryview, table: int, number: int) -> int:
    vtable = table - _INT32.unpack_from(message, table)[0]
    return table + int(_INT16.unpack_from(message, vtable + 4 + 2 * number)[0])


def _follow(message: bytes | bytearray | memoryview, at: int) -> int:
    return at + int(_INT32.unpack_from(message, at)[0])


def schema_of(stream: bytes | memoryview) -> pa.Schema:
    """The schema a stream begins with. Raises one of READ_ERRORS or EOFError."""
    return pa.ipc.read_schema(pa.BufferReader(stream))
