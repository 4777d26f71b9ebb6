"""Arrow's encapsulated messages, written around bodies that are never copied.

An Arrow stream is a run of encapsulated messages: a marker and a length of 4 bytes each, a flatbuffer (Message.fbs) and
the column buffers. Arrow serialises a batch only into memory of its own, which would copy every body. So Arrow
serialises the batch with empty bodies, and what the true bodies change is filled in: the last column's offsets, which
are the last bytes of that message, the length of the last buffer and the length of the whole. The bodies then follow
in the file as they are. ("Arrow Columnar Format: Encapsulated message format, Recordbatch message")
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
ALIGNMENT = 8
BLOCK = 4096
"""Every message of a segment is a multiple of this, so that it can be written past the system's page cache. Arrow lets
metadata and bodies end in any padding that keeps its own alignment."""
READ_ERRORS = (pa.ArrowException, OSError)

_INT16, _INT32, _INT64 = Struct("<H"), Struct("<i"), Struct("<q")
_MARKER, _PREFIX = 4, 8
_MESSAGE_HEADER, _MESSAGE_BODY_LENGTH, _BATCH_BUFFERS = 2, 3, 2
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
    table = _PREFIX + _INT32.unpack_from(message, _PREFIX)[0]
    batch = _follow(message, _field(message, table, _MESSAGE_HEADER))
    buffers = _follow(message, _field(message, batch, _BATCH_BUFFERS))
    count = _INT32.unpack_from(message, buffers)[0]
    _INT64.pack_into(message, buffers + 4 + (count - 1) * _BUFFER_SIZE + _BUFFER_LENGTH, size)
    body_length = _field(message, table, _MESSAGE_BODY_LENGTH)
    _INT64.pack_into(message, body_length, _INT64.unpack_from(message, body_length)[0] + size + fill)
    return fill


def _field(message: bytearray, table: int, number: int) -> int:
    vtable = table - _INT32.unpack_from(message, table)[0]
    return table + int(_INT16.unpack_from(message, vtable + 4 + 2 * number)[0])


def _follow(message: bytearray, at: int) -> int:
    return at + int(_INT32.unpack_from(message, at)[0])


class Found(NamedTuple):
    """A record batch's message in a stream: its bytes are [start, end)."""

    start: int
    end: int
    message: pa.Message


def schema_of(stream: pa.Buffer) -> pa.Schema:
    """The schema a stream begins with. Raises one of READ_ERRORS or EOFError."""
    return pa.ipc.read_schema(pa.BufferReader(stream))


def walk(stream: pa.Buffer) -> Iterator[Found]:
    """The record batches of a stream, in order; their columns are not touched.

    Ends at the end-of-stream marker or at the end of the bytes; raises one of READ_ERRORS where bytes are no message.
    """
    reader = pa.BufferReader(stream)
    try:
        pa.ipc.read_message(reader)
        while True:
            start = reader.tell()
            message = pa.ipc.read_message(reader)
            yield Found(start, reader.tell(), message)
    except EOFError:
        return
