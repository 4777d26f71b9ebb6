"""tibrvMsg messages made by the specification, field by field, by code that shares nothing with the codec."""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MAGIC = bytes.fromhex("9955EEAA")


class Made(NamedTuple):
    """One field without its name: the wire's type, and the data."""

    kind: int
    data: bytes


def i16(value: int) -> Made:
    return Made(11, struct.pack(">h", value))


def i32(value: int) -> Made:
    return Made(11, struct.pack(">i", value))


def i64(value: int) -> Made:
    return Made(11, struct.pack(">q", value))


def u32(value: int) -> Made:
    return Made(12, struct.pack(">I", value))


def f64(value: float) -> Made:
    return Made(13, struct.pack(">d", value))


def f64_of(bits: bytes) -> Made:
    """A number by its bytes, as a missing value has them."""
    return Made(13, bits)


def string(text: str | bytes, nul: bytes = b"\0") -> Made:
    return Made(8, (text.encode("latin-1") if isinstance(text, str) else text) + nul)


def opaque(data: bytes) -> Made:
    return Made(7, data)


def text(value: str, counted: int = 0) -> list[Made]:
    """A length, which may count the NUL, and a string."""
    return [i32(len(value) + counted), string(value)]


def size(length: int) -> bytes:
    if length < 120:
        return struct.pack(">B", length)
    return struct.pack(">BH", 0x79, length + 2) if length < 30_000 else struct.pack(">BI", 0x7A, length + 4)


def field(name: str, number: int | None, made: Made) -> bytes:
    label = name.encode() + b"\0" + (struct.pack(">H", number) if number is not None else b"")
    return bytes([len(label)]) + label + bytes([made.kind]) + size(len(made.data)) + made.data


def framed(body: bytes) -> bytes:
    return struct.pack(">I", 8 + len(body)) + MAGIC + body


def message(name: str, fields: Iterable[Made]) -> bytes:
    """A message with identifiers from 1 on."""
    return framed(b"".join(field(name, number, each) for number, each in enumerate(fields, 1)))


def fields_in(whole: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message of such names, and where each begins."""
    at = 8
    while at < len(whole):
        size_at = at + 1 + whole[at] + 1
        width, taken = {0x79: (2, 2), 0x7A: (4, 4)}.get(whole[size_at], (0, 0))
        length = int.from_bytes(whole[size_at + 1 : size_at + 1 + width], "big") - taken if width else whole[size_at]
        end = size_at + 1 + width + length
        yield at, whole[at:end]
        at = end


def without_identifiers(name: str, fields: Iterable[Made]) -> bytes:
    return framed(b"".join(field(name, None, each) for each in fields))
