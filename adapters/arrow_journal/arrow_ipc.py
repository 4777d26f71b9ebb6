"""Arrow's encapsulated messages, written without copying the bodies.

An Arrow stream is a sequence of encapsulated messages: a marker and a length of 4 bytes each, a flatbuffer
(Message.fbs) and the column buffers. Arrow serializes a batch only into memory of its own, which would copy every body.
So Arrow serializes the batch with empty bodies. Then this module fills in the values that depend on the bodies: the
last column's offsets, which are the last bytes of that message, the length of the last buffer, and the length of the
message. The bodies follow in the file unchanged. ("Arrow Columnar Format: Encapsulated message format, Recordbatch
message")
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
"""Every message of a segment is a multiple of this, so that direct writes can bypass the system's page cache. Arrow
allows any padding of metadata and bodies that keeps its own alignment."""
MAX_METADATA = 1 << 20
READ_ERRORS = (pa.ArrowException, OSError)

_INT16, _INT32, _INT64, _TWO_BUFFERS = Struct("<H"), Struct("<i"), Struct("<q"), Struct("<4q")
_MARKER, _PREFIX = 4, 8
_CONTINUATION = END_OF_STREAM[:_MARKER]
_MESSAGE_HEADER, _MESSAGE_BODY_LENGTH, _BATCH_LENGTH, _BATCH_BUFFERS = 2, 3, 0, 2
_BUFFER_SIZE, _BUFFER_LENGTH = 16, 8


def padding(length: int) -> int:
    """Return the padding of a buffer of this length to Arrow's alignment, in bytes."""
    return -length % ALIGNMENT


def block_padding(length: int) -> int:
    """Return the padding of this length to a whole block, in bytes."""
    return -length % BLOCK


def in_blocks(schema: bytes) -> bytes:
    """Return a schema's message padded to whole blocks, in its metadata."""
    fill = block_padding(len(schema))
    size = _INT32.unpack_from(schema, _MARKER)[0] + fill
    return schema[:_MARKER] + _INT32.pack(size) + schema[_PREFIX:] + bytes(fill)


def fill_in(message: bytearray, offsets: npt.NDArray[np.int64]) -> int:
    """Turn a batch serialized with empty bodies into the head of one whose last column has these offsets.

    The bodies (offsets[-1] bytes) must follow in the file, and then padding to a whole block. Return the length of that
    padding in bytes.
    """
    size = int(offsets[-1])
    fill = block_padding(len(message) + size)
    message[len(message) - offsets.nbytes :] = offsets.astype("<i8", copy=False).tobytes()
    _set_bodies(message, size, size + fill)
    return fill


def lengthen(head: bytearray, size: int) -> None:
    """Lengthen the message of a head to `size` bytes. No buffer contains the added bytes."""
    frame = frame_of(head)
    assert frame is not None
    _set_bodies(head, 0, size - frame.end)


def without_bodies(head: bytearray) -> None:
    """Undo `fill_in` except for the offsets. The head becomes a complete message whose bodies must not be read."""
    frame = frame_of(head)
    assert frame is not None
    _set_bodies(head, -frame.bodies, frame.head - frame.end)


def _set_bodies(message: bytearray, size: int, message_size: int) -> None:
    """Add to the lengths of the last buffer and of the message's body."""
    table, _, last = _tables(message)
    for at, more in ((last + _BUFFER_LENGTH, size), (_field(message, table, _MESSAGE_BODY_LENGTH), message_size)):
        _INT64.pack_into(message, at, _INT64.unpack_from(message, at)[0] + more)


class BatchFrame(NamedTuple):
    """The layout of a record batch's message.

    It has `rows`, its `metadata` ends at that byte, and its `head` ends where the last buffer begins. That buffer has
    `bodies` bytes, and the message ends at `end`. The values are unverified until a checksum matches.
    """

    rows: int
    metadata: int
    head: int
    bodies: int
    end: int

    @property
    def size(self) -> int:
        """Return the size of the message without the padding at its end."""
        return self.head + self.bodies


def metadata_end(start: bytes | bytearray | memoryview) -> int | None:
    """Return the end of the metadata of a message that begins with `start`. Return None for bytes of another kind, 0
    for an end of stream."""
    if len(start) < _PREFIX or start[:_MARKER] != _CONTINUATION:
        return None
    size = int(_INT32.unpack_from(start, _MARKER)[0])
    if size == 0:
        return 0
    return _PREFIX + size if 0 < size <= MAX_METADATA and size % ALIGNMENT == 0 else None


def frame_of(message: bytes | bytearray | memoryview) -> BatchFrame | None:
    """Return the frame of a record batch with this metadata. Return None for any other bytes."""
    metadata = metadata_end(message)
    if not metadata or len(message) < metadata:
        return None
    try:
        table, batch, last = _tables(message)
        length_at = _field(message, batch, _BATCH_LENGTH)
        rows = _INT64.unpack_from(message, length_at)[0] if length_at != batch else 0
        before, length, begin, bodies = _TWO_BUFFERS.unpack_from(message, last - _BUFFER_SIZE)
        end = metadata + _INT64.unpack_from(message, _field(message, table, _MESSAGE_BODY_LENGTH))[0]
    except struct_error:
        return None
    frame = BatchFrame(rows, metadata, metadata + begin, bodies, end)
    follows = begin == before + length + padding(length)
    is_sound = rows >= 0 and metadata <= frame.head and 0 <= bodies <= end - frame.head and end % BLOCK == 0
    return frame if follows and is_sound else None


def _tables(message: bytes | bytearray | memoryview) -> tuple[int, int, int]:
    """Return the places of the flatbuffer tables Message and RecordBatch, and of the last buffer in the second."""
    table = _follow(message, _PREFIX)
    batch = _follow(message, _field(message, table, _MESSAGE_HEADER))
    buffers = _follow(message, _field(message, batch, _BATCH_BUFFERS))
    return table, batch, buffers + 4 + (_INT32.unpack_from(message, buffers)[0] - 1) * _BUFFER_SIZE


def _field(message: bytes | bytearray | memoryview, table: int, number: int) -> int:
    vtable = table - _INT32.unpack_from(message, table)[0]
    return table + int(_INT16.unpack_from(message, vtable + 4 + 2 * number)[0])


def _follow(message: bytes | bytearray | memoryview, at: int) -> int:
    return at + int(_INT32.unpack_from(message, at)[0])


def schema_of(stream: bytes | memoryview) -> pa.Schema:
    """Return the schema at the beginning of a stream. Raises one of READ_ERRORS or EOFError."""
    return pa.ipc.read_schema(pa.BufferReader(stream))
