"""Programmable command formats (PCF): the structures of commands and responses, in any byte order and character set.

Source: IBM MQ, "Structures for commands and responses".
"""

import operator
import struct
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.structures import padded, trimmed

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


# --- commands and responses ---------------------------------------------------------------------------------------

Value = int | str | bytes | tuple[int, ...] | tuple[str, ...]
Parameters = dict[int, Any]
Record = list[tuple[int, Value]]
"""Selectors and values that a response tells of one object."""
RESPONSE = 2

FILTER = -1
"""The key of a filter among the parameters: it may stand beside one of its name, and there is one of them at most."""


class Filter(NamedTuple):
    """What an attribute must be for its object to be told of."""

    selector: int
    operator: int
    value: int | str

    @property
    def known(self) -> bool:
        return self.operator in _OPERATORS

    def lets_pass(self, value: int | str) -> bool:
        kept: bool = _OPERATORS[self.operator](value, self.value)
        return kept


def _like(text: Any, pattern: Any) -> bool:
    return fnmatchcase(text.rstrip(), pattern)


_OPERATORS: dict[int, Callable[[Any, Any], bool]] = {
    1: operator.lt,
    2: operator.eq,
    3: operator.le,
    4: operator.gt,
    5: operator.ne,
    6: operator.ge,
    18: _like,
    21: lambda text, pattern: not _like(text, pattern),
}
"""By MQCFOP number."""


def read(data: bytes) -> tuple[int, Parameters]:
    """The command and its parameters, of a program on this machine."""
    _, _, _, command, *_ = struct.unpack_from("=" + HEADER, data)
    parameters: Parameters = {}
    for kind, piece in structures(data, HEADER_SIZE, "="):
        value = _value(kind, piece)
        parameters[FILTER if isinstance(value, Filter) else struct.unpack_from("=i", piece, 8)[0]] = value
    return command, parameters


def _value(kind: int, piece: bytes) -> Any:
    if kind == INTEGER:
        return struct.unpack_from("=i", piece, 12)[0]
    if kind == STRING:
        (length,) = struct.unpack_from("=i", piece, 16)
        return trimmed(piece[20 : 20 + length])
    if kind == INTEGER_LIST:
        (count,) = struct.unpack_from("=i", piece, 12)
        return struct.unpack_from(f"={count}i", piece, 16)
    if kind == STRING_LIST:
        count, length = struct.unpack_from("=2i", piece, 16)
        return tuple(trimmed(piece[24 + n * length : 24 + (n + 1) * length]) for n in range(count))
    if kind == BYTE_STRING:
        (length,) = struct.unpack_from("=i", piece, 12)
        return piece[16 : 16 + length]
    if kind == INTEGER_FILTER:
        return Filter(*struct.unpack_from("=3i", piece, 8))
    if kind == STRING_FILTER:
        selector, how, _, length = struct.unpack_from("=4i", piece, 8)
        return Filter(selector, how, trimmed(piece[24 : 24 + length]))
    return None


class Outcome(NamedTuple):
    """How a command ended."""

    command: int
    completion: int
    reason: int


def response(outcome: Outcome, sequence: int, record: Record, ccsid: int, *, last: bool) -> bytes:
    """One response message of a command."""
    command, completion, reason = outcome
    head = (RESPONSE, HEADER_SIZE, 1, command, sequence, int(last), completion, reason, len(record))
    return struct.pack("=" + HEADER, *head) + b"".join(_written(ccsid, *attribute) for attribute in record)


def _written(ccsid: int, selector: int, value: Value) -> bytes:
    """A parameter of a response."""
    if isinstance(value, int):
        return struct.pack("=4i", INTEGER, 16, selector, value)
    if isinstance(value, bytes):
        return struct.pack("=4i", BYTE_STRING, 16 + len(value), selector, len(value)) + value
    if isinstance(value, str):
        text = padded(value, -(-len(value) // 4) * 4)
        return struct.pack("=5i", STRING, 20 + len(text), selector, ccsid, len(value)) + text
    if not value or isinstance(value[0], str):
        length = max((len(text) for text in value if isinstance(text, str)), default=0)
        texts = b"".join(padded(text, length) for text in value if isinstance(text, str))
        texts += b" " * (-len(texts) % 4)
        return struct.pack("=6i", STRING_LIST, 24 + len(texts), selector, ccsid, len(value), length) + texts
    return struct.pack(f"={4 + len(value)}i", INTEGER_LIST, 16 + 4 * len(value), selector, len(value), *value)
