"""The values of fields: bytes -> Python, by wire type and size, and back."""

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from app.codecs.rendezvous.constants import (
    ARRAYS,
    LONG_SIZE,
    MEDIUM_SIZE,
    MEDIUM_SIZE_LIMIT,
    MOST_XML_BYTES,
    NUMBERS,
    SHORT_SIZE_LIMIT,
    WireType,
)
from app.wire import WireError
from app.wire.kinds import Buffer

_U32 = struct.Struct(">I")
_INFLATION: Final = 1032
"""The most that deflate makes of a byte."""


class DateTime(NamedTuple):
    """Seconds since 1970-01-01 UTC and microseconds."""

    seconds: int
    microseconds: int


class FieldValue(NamedTuple):
    """A value as read: the API's name of its type, and the value."""

    type: str
    value: Any


_NUMBER_TYPES: Final = {
    (wire, struct.calcsize(code)): (name, struct.Struct(f">{code}")) for name, (wire, code) in NUMBERS.items()
}
_ELEMENTS: Final = {wire: struct.calcsize(code) for wire, code in ARRAYS.items()}


def read_value(wire_type: int, data: Buffer, row: str, at: int) -> FieldValue | None:
    """Return the value of a field's data; None for a type that is not known. `row` and `at` (the byte where the data
    begin) are for errors. Raises WireError for data that their type cannot have."""
    known = _READERS.get(wire_type)
    return None if known is None else known(data, row, at)


def _number(wire_type: WireType) -> Callable[[Buffer, str, int], FieldValue]:
    def read(data: Buffer, row: str, at: int) -> FieldValue:
        found = _NUMBER_TYPES.get((wire_type, len(data)))
        if found is None:
            raise WireError(row, at, f"{wire_type.name} of {len(data)} bytes")
        name, code = found
        return FieldValue(name, code.unpack(data)[0])

    return read


def _string(data: Buffer, _row: str, _at: int) -> FieldValue:
    """Text up to the first NUL: some senders write none, or bytes after it."""
    return FieldValue("STRING", bytes(data).partition(b"\0")[0].decode("latin-1"))


def _bool(data: Buffer, row: str, at: int) -> FieldValue:
    _require(len(data) == 1, row, at, f"BOOL of {len(data)} bytes")
    return FieldValue("BOOL", bool(data[0]))


def _ip(data: Buffer, row: str, at: int) -> FieldValue:
    if len(data) == 2:
        return FieldValue("IPPORT16", int.from_bytes(data, "big"))
    _require(len(data) == 4, row, at, f"an IP address or port of {len(data)} bytes")
    return FieldValue("IPADDR32", ".".join(map(str, data)))


def _datetime(data: Buffer, row: str, at: int) -> FieldValue:
    """Return seconds of 32 bits; the high byte of the other word belongs to seconds beyond them, where it is not 0."""
    _require(len(data) == 8, row, at, f"DATETIME of {len(data)} bytes")
    return FieldValue("DATETIME", DateTime(int.from_bytes(data[:4], "big"), int.from_bytes(data[4:], "big")))


def _subject(data: Buffer, row: str, at: int) -> FieldValue:
    _require(len(data) > 0, row, at, "a subject without its count of elements")
    elements, place = [], 1
    for _ in range(data[0]):
        _require(place < len(data), row, at + place, "a subject that ends before its last element")
        end = place + data[place]
        is_whole = place + 2 <= end <= len(data) and not data[end - 1]
        _require(is_whole, row, at + place, "an element of a subject that does not end in a NUL where its length says")
        elements.append(str(data[place + 1 : end - 1], "latin-1"))
        place = end
    _require(place == len(data), row, at + place, f"{len(data) - place} bytes after a subject")
    return FieldValue("SUBJECT", ".".join(elements))


def _xml(data: Buffer, row: str, at: int) -> FieldValue:
    """Text that is compressed, after the number of its bytes. Longer texts than MOST_XML_BYTES are refused."""
    first = data[0] if data else 0
    width = {MEDIUM_SIZE: 2, LONG_SIZE: 4}.get(first, 0)
    is_known = first < SHORT_SIZE_LIMIT or width
    _require(len(data) > width and bool(is_known), row, at, "XML without the number of its bytes")
    head, size = 1, first
    if width:
        number = int.from_bytes(data[1 : 1 + width], "big")
        _require(number >= width, row, at, f"a size of {number} that counts its own {width} bytes")
        head, size = 1 + width, number - width
    packed = data[head:]
    limit = min(MOST_XML_BYTES, len(packed) * _INFLATION)
    _require(size <= limit, row, at, f"XML of {size} bytes in {len(packed)}, but at most {limit} are expanded")
    try:
        text = zlib.decompressobj().decompress(packed, size + 1)
    except zlib.error as error:
        raise WireError(row, at + head, f"XML that does not expand: {error}") from None
    _require(len(text) == size, row, at, f"XML of {len(text)} bytes, but its size says {size}")
    return FieldValue("XML", text.partition(b"\0")[0].decode("latin-1"))


def _array(wire_type: WireType) -> Callable[[Buffer, str, int], FieldValue]:
    code, size = ARRAYS[wire_type], _ELEMENTS[wire_type]

    def read(data: Buffer, row: str, at: int) -> FieldValue:
        count, rest = divmod(len(data), size)
        _require(not rest, row, at, f"{len(data)} bytes are not elements of {size}")
        return FieldValue(wire_type.name, list(struct.unpack(f">{count}{code}", data)))

    return read


def _strings(data: Buffer, row: str, at: int) -> FieldValue:
    _require(len(data) >= _U32.size, row, at, "STRINGARRAY without a count")
    (count,) = _U32.unpack_from(data)
    *texts, rest = bytes(data[_U32.size :]).split(b"\0")
    _require(len(texts) == count and not rest, row, at, f"{len(texts)} texts, but the count says {count}")
    return FieldValue("STRINGARRAY", [text.decode("latin-1") for text in texts])


def _require(is_right: bool, row: str, at: int, why: str) -> None:
    if not is_right:
        raise WireError(row, at, why)


_READERS: Final[Mapping[int, Callable[[Buffer, str, int], FieldValue]]] = {
    WireType.SUBJECT: _subject,
    WireType.DATETIME: _datetime,
    WireType.OPAQUE: lambda data, _row, _at: FieldValue("OPAQUE", bytes(data)),
    WireType.STRING: _string,
    WireType.BOOL: _bool,
    WireType.IP: _ip,
    **{wire: _number(wire) for wire in (WireType.INT, WireType.UINT, WireType.REAL)},
    WireType.XML: _xml,
    **{wire: _array(wire) for wire in ARRAYS},
    WireType.STRINGARRAY: _strings,
}


# --- writing ----------------------------------------------------------------------------------------------------------


def write_value(api_type: str, value: Any) -> tuple[WireType, bytes]:
    """Return the wire type and the data of a value of one of the API's types.

    Raises KeyError for a type that has no writer here, and struct.error, ValueError or TypeError for a value that its
    type cannot have.
    """
    if api_type in NUMBERS:
        wire, code = NUMBERS[api_type]
        return wire, struct.pack(f">{code}", value)
    wire = _WIRE_TYPES[api_type]
    return wire, _WRITERS[api_type](value)


def _write_subject(subject: str) -> bytes:
    elements = [element.encode("latin-1") + b"\0" for element in subject.split(".")]
    return bytes([len(elements)]) + b"".join(bytes([len(element) + 1]) + element for element in elements)


def _write_xml(text: str) -> bytes:
    data = text.encode("latin-1") + b"\0"
    return size_of(len(data)) + zlib.compress(data)


def _write_array(wire: WireType) -> Callable[[Sequence[Any]], bytes]:
    return lambda values: struct.pack(f">{len(values)}{ARRAYS[wire]}", *values)


_WRITERS: Final[Mapping[str, Callable[[Any], bytes]]] = {
    "SUBJECT": _write_subject,
    "DATETIME": lambda value: struct.pack(">II", *value),
    "OPAQUE": bytes,
    "STRING": lambda text: text.encode("latin-1") + b"\0",
    "BOOL": lambda value: bytes([bool(value)]),
    "IPADDR32": lambda text: bytes(map(int, text.split("."))),
    "IPPORT16": lambda value: struct.pack(">H", value),
    "XML": _write_xml,
    **{wire.name: _write_array(wire) for wire in ARRAYS},
    "STRINGARRAY": lambda texts: _U32.pack(len(texts)) + b"".join(text.encode("latin-1") + b"\0" for text in texts),
}
_WIRE_TYPES: Final = {name: WireType.IP if name.startswith("IP") else WireType[name] for name in _WRITERS}


def size_of(length: int, *, medium: bool = False) -> bytes:
    """Return the size of data of this length as it is written; with `medium`, in at least two bytes."""
    if length < SHORT_SIZE_LIMIT and not medium:
        return bytes([length])
    if length < MEDIUM_SIZE_LIMIT:
        return struct.pack(">BH", MEDIUM_SIZE, length + 2)
    return struct.pack(">BI", LONG_SIZE, length + 4)
