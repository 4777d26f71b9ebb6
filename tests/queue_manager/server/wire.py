"""Frames between the client library and the queue manager.

A request is its length, its verb and arguments; a reply is its length, a completion code, a reason and results.
Numbers have 32 bits in native order, and a length counts what follows it. `tests/queue_manager/mqi.c` is the other end.
"""

import asyncio
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple, cast

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.structures import Buffer


class Verb(IntEnum):
    """The calls. `CONTROL` is the tests' own door."""

    MQCONN = 1
    MQDISC = 2
    MQOPEN = 3
    MQCLOSE = 4
    MQPUT = 5
    MQPUT1 = 6
    MQGET = 7
    MQCMIT = 8
    MQBACK = 9
    MQBEGIN = 10
    MQINQ = 11
    MQSET = 12
    MQCRTMH = 13
    MQDLTMH = 14
    MQSETMP = 15
    MQINQMP = 16
    MQDLTMP = 17
    MQBUFMH = 18
    MQMHBUF = 19
    CONTROL = 99


class Reply(NamedTuple):
    completion: int = mq.MQCC_OK
    reason: int = mq.MQRC_NONE
    parts: tuple[Buffer, ...] = ()


_LENGTH = struct.Struct("=I")
_REQUEST = struct.Struct("=II")
_REPLY = struct.Struct("=Iii")
_FIRST_BUFFER = 1 << 17


class Frames(asyncio.BufferedProtocol):
    """One connection's frames. Bytes arrive in one buffer and are handed out as views of it, valid during the call."""

    def __init__(self, on_request: Callable[[int, memoryview], None], on_lost: Callable[[], None]) -> None:
        self._on_request, self._on_lost = on_request, on_lost
        self._buffer = memoryview(bytearray(_FIRST_BUFFER))
        self._end = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    @property
    def address(self) -> str:
        """The address of who is connected; empty before that."""
        return "" if self._transport is None else str(self._transport.get_extra_info("peername")[0])

    def connection_lost(self, error: Exception | None) -> None:
        self._on_lost()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._end :]

    def buffer_updated(self, count: int) -> None:
        self._end += count
        start = 0
        while self._end - start >= _REQUEST.size:
            length, verb = _REQUEST.unpack_from(self._buffer, start)
            end = start + _LENGTH.size + length
            if end > self._end:
                self._make_room(end - start)
                break
            self._on_request(verb, self._buffer[start + _REQUEST.size : end])
            start = end
        if start:
            rest = bytes(self._buffer[start : self._end])
            self._buffer[: len(rest)] = rest
            self._end = len(rest)

    def _make_room(self, size: int) -> None:
        if size > len(self._buffer):
            larger = memoryview(bytearray(size))
            larger[: self._end] = self._buffer[: self._end]
            self._buffer = larger

    def send(self, reply: Reply) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        completion, reason, parts = reply
        length = _REPLY.size - _LENGTH.size + sum(map(len, parts))
        # From Python 3.12 to 3.13, a transport tries for ever to write an empty part that comes last.
        self._transport.writelines([_REPLY.pack(length, completion, reason), *filter(len, parts)])

    def close(self) -> None:
        """Ends the connection after what was sent has gone out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Breaks the connection at once."""
        if self._transport is not None:
            self._transport.abort()
