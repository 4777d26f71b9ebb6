"""MQBUFMH and MQMHBUF, which neither pymqi nor ibmmq offers: called by ctypes.

Sources: IBM MQ, "MQBUFMH - Convert buffer into message handle" and "MQMHBUF - Convert message handle into buffer".
"""

import ctypes
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.headers import properties
from tests.queue_manager.build import CLIENT_LIBRARIES, build
from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.structures import MQMD_LENGTH_2, default_descriptor, unpack_descriptor
from tests.support.mqi import load
from tests.support.queue_manager import QueueManager

pytestmark = pytest.mark.broker

FAILED = 2


class Client:
    """Calls about one message handle."""

    def __init__(self, double: QueueManager) -> None:
        pymqi = load("pymqi")
        self._connection = pymqi.connect(double.name, double.channel, double.connection_name)
        self._library = ctypes.CDLL(str(build() / "lib64" / CLIENT_LIBRARIES["pymqi"]))
        self.handle = pymqi.MessageHandle(self._connection)

    def call(self, name: str, *arguments: Any) -> tuple[int, int]:
        completion, reason = ctypes.c_int32(), ctypes.c_int32()
        connection = ctypes.c_int32(self._connection.get_handle())
        message = ctypes.c_int64(self.handle.msg_handle)
        function = getattr(self._library, name)
        function(connection, message, *arguments, ctypes.byref(completion), ctypes.byref(reason))
        return completion.value, reason.value

    def from_buffer(self, format_: bytes, data: bytes, options: int = 1) -> tuple[tuple[int, int], bytes, Any]:
        """MQBUFMH: how it ended, the buffer after it, and the descriptor."""
        descriptor = default_descriptor()
        descriptor.format, descriptor.coded_char_set_id = format_, 1208
        md = ctypes.create_string_buffer(descriptor.packed(), MQMD_LENGTH_2)
        buffer = ctypes.create_string_buffer(data, max(len(data), 1))
        length = ctypes.c_int32()
        ended = self.call(
            "MQBUFMH",
            struct.pack("=4s2i", b"BMHO", 1, options),
            *(md, ctypes.c_int32(len(data)), buffer, ctypes.byref(length)),
        )
        return ended, buffer.raw[: length.value], unpack_descriptor(md.raw)

    def to_buffer(self, name: bytes, size: int = 1000, options: int = 1) -> tuple[tuple[int, int], int, bytes, Any]:
        """MQMHBUF: how it ended, the length that it said, the buffer, and the descriptor."""
        md = ctypes.create_string_buffer(default_descriptor().packed(), MQMD_LENGTH_2)
        buffer, length = ctypes.create_string_buffer(size), ctypes.c_int32()
        text = ctypes.create_string_buffer(name)
        charv = struct.pack("=Q4i", ctypes.addressof(text), 0, 0, len(name), mq.MQCCSI_APPL)
        ended = self.call(
            "MQMHBUF",
            *(struct.pack("=4s2i", b"MHBO", 1, options), charv, md, ctypes.c_int32(size), buffer),
            ctypes.byref(length),
        )
        return ended, length.value, buffer.raw[: length.value], unpack_descriptor(md.raw)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with QueueManager(tmp_path) as double:
        yield Client(double)


DATA = properties(mq, b"<usr><a>1</a></usr>") + b"data"


@pytest.mark.parametrize(("options", "left"), [(0, DATA), (mq.MQBMHO_DELETE_PROPERTIES, b"data")])
def test_properties_of_a_buffer(client: Client, options: int, left: bytes) -> None:
    ended, buffer, descriptor = client.from_buffer(mq.MQFMT_RF_HEADER_2, DATA, options)
    assert (ended, buffer) == ((0, 0), left)
    assert descriptor.format == (mq.MQFMT_STRING if options else mq.MQFMT_RF_HEADER_2)
    assert client.handle.properties.get(b"a") == "1"


def test_a_buffer_that_cannot_be_read(client: Client) -> None:
    broken = properties(mq, b"<usr><a>1</usr>")
    ended, _, _ = client.from_buffer(mq.MQFMT_RF_HEADER_2, broken)
    assert ended == (FAILED, mq.MQRC_RFH_FORMAT_ERROR)


def test_an_empty_buffer(client: Client) -> None:
    assert client.from_buffer(mq.MQFMT_NONE, b"")[:2] == ((0, 0), b"")


@pytest.mark.parametrize(("name", "found"), [(b"%", (b"<a>1</a>", b"<b>2</b>")), (b"f.%", (b"<b>2</b>",))])
def test_a_buffer_of_properties(client: Client, name: bytes, found: tuple[bytes, ...]) -> None:
    client.handle.properties.set(b"a", "1")
    client.handle.properties.set(b"f.b", "2")
    ended, length, buffer, descriptor = client.to_buffer(name)
    assert (ended, descriptor.format, buffer[:4]) == ((0, 0), mq.MQFMT_RF_HEADER_2, b"RFH ")
    assert struct.unpack_from("=i", buffer, 8) == (length,)
    assert [element for element in (b"<a>1</a>", b"<b>2</b>") if element in buffer] == list(found)


def test_a_buffer_that_is_too_small(client: Client) -> None:
    client.handle.properties.set(b"a", "1")
    ended, length, _, _ = client.to_buffer(b"%", size=10, options=3)
    assert (ended, length > 10) == ((FAILED, mq.MQRC_PROPERTY_VALUE_TOO_BIG), True)
    assert client.handle.properties.get(b"a") == "1"


def test_properties_that_go_into_the_buffer(client: Client) -> None:
    client.handle.properties.set(b"a", "1")
    options = mq.MQMHBO_PROPERTIES_IN_MQRFH2 | mq.MQMHBO_DELETE_PROPERTIES
    assert client.to_buffer(b"%", options=options)[0] == (0, 0)
    assert client.to_buffer(b"%", options=options)[0] == (FAILED, mq.MQRC_PROPERTY_NOT_AVAILABLE)
