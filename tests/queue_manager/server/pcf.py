"""Programmable command formats (PCF): the structures of commands and responses, in any byte order and character set.

Source: IBM MQ, "Structures for commands and responses".
"""

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused

HEADER = "9i"
"""MQCFH."""
HEADER_SIZE = struct.calcsize(HEADER)
_START = "2i"

INTEGER, STRING, INTEGER_LIST, STRING_LIST, BYTE_STRING = 3, 4, 5, 6, 9
INTEGER_FILTER, STRING_FILTER, BYTE_STRING_FILTER = 13, 14, 15
GROUP, INTEGER64, INTEGER64_LIST = 20, 23, 25

Transcode = Callable[[bytes, int], bytes]
"""Gives characters of a character set in another one."""


class _Layout(NamedTuple):
    """The numbers behind type and length, and what follows them."""

    numbers: int
    rest: str
    """`i` and `q` numbers, `c` characters, `b` bytes, or nothing."""
    ccsid: int | None = None
    """Which of the numbers is the character set."""
    length: int | None = None
    """Which of the numbers is the length of the characters or bytes, or of each string of a list."""


_LAYOUTS = {
    INTEGER: _Layout(2, ""),
    STRING: _Layout(3, "c", ccsid=1, length=2),
    INTEGER_LIST: _Layout(2, "i"),
    STRING_LIST: _Layout(4, "c", ccsid=1, length=3),
    BYTE_STRING: _Layout(2, "b", length=1),
    INTEGER_FILTER: _Layout(3, ""),
    STRING_FILTER: _Layout(4, "c", ccsid=2, length=3),
    BYTE_STRING_FILTER: _Layout(3, "b", length=2),
    GROUP: _Layout(2, ""),
    INTEGER64: _Layout(2, "q"),
    INTEGER64_LIST: _Layout(2, "q"),
}
"""By type of structure."""


def structures(data: bytes, at: int, order: str) -> Iterator[tuple[int, bytes]]:
    """The type and the bytes of each structure from a place on. Raises Refused for one that cannot be."""
    start = struct.Struct(order + _START)
    while at + start.size <= len(data):
        kind, length = start.unpack_from(data, at)
        if length < start.size or at + length > len(data):
            raise Refused(mq.MQRC_FORMAT_ERROR)
        yield kind, data[at : at + length]
        at += length
    if at != len(data):
        raise Refused(mq.MQRC_FORMAT_ERROR)


def convert(data: bytes, source: str, target: str, ccsid: int, transcode: Transcode) -> bytes:
    """A whole message from one byte order into another and from its character sets into `ccsid`.

    Raises Refused where the data are no PCF.
    """
    if len(data) < HEADER_SIZE:
        raise Refused(mq.MQRC_FORMAT_ERROR)
    head = struct.unpack_from(source + HEADER, data)
    if head[1] != HEADER_SIZE:
        raise Refused(mq.MQRC_FORMAT_ERROR)
    found = (_converted(kind, piece, source, target, ccsid, transcode) for kind, piece in structures(data, 36, source))
    return struct.pack(target + HEADER, *head) + b"".join(found)


def _converted(kind: int, piece: bytes, source: str, target: str, ccsid: int, transcode: Transcode) -> bytes:
    layout = _LAYOUTS.get(kind)
    if layout is None or len(piece) < 8 + 4 * layout.numbers:
        raise Refused(mq.MQRC_FORMAT_ERROR)
    numbers = list(struct.unpack_from(f"{source}{layout.numbers}i", piece, 8))
    rest = piece[8 + 4 * layout.numbers :]
    if layout.rest in ("i", "q"):
        count = len(rest) // struct.calcsize(source + layout.rest)
        rest = struct.pack(f"{target}{count}{layout.rest}", *struct.unpack_from(f"{source}{count}{layout.rest}", rest))
    if layout.rest == "c" and layout.ccsid is not None and layout.length is not None:
        length = numbers[layout.length]
        if length < 0 or length > len(rest):
            raise Refused(mq.MQRC_FORMAT_ERROR)
        strings = numbers[2] if kind == STRING_LIST else 1
        texts = [transcode(rest[n * length : (n + 1) * length], numbers[layout.ccsid]) for n in range(strings)]
        numbers[layout.length] = longest = max(map(len, texts), default=0)
        numbers[layout.ccsid] = ccsid
        rest = b"".join(text.ljust(longest) for text in texts)
        rest += bytes(-len(rest) % 4)
    length = 8 + 4 * layout.numbers + len(rest)
    return struct.pack(f"{target}{2 + layout.numbers}i", kind, length, *numbers) + rest
