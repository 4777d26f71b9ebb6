"""The constants of tibrvMsg on the wire."""

from enum import IntEnum
from typing import Final

MAGIC: Final = bytes.fromhex("9955EEAA")
"""Follows the length of each message, nested ones too."""

HEADER_SIZE: Final = 8
"""Bytes of a message's length and its magic."""

MOST_BYTES: Final = (1 << 30) - 1
"""The longest message, in bytes."""

MOST_NAME_BYTES: Final = 255
"""The longest name area: the name, its NUL and its identifier."""

MOST_DEPTH: Final = 32
"""How deep messages may be nested when they are read."""

MOST_XML_BYTES: Final = 1 << 20
"""The longest XML text that is expanded when it is read, in bytes."""

SHORT_SIZE_LIMIT: Final = 120
"""Data of fewer bytes have a size of one byte."""

MEDIUM_SIZE_LIMIT: Final = 30_000
"""Data of fewer bytes have a size of two bytes after MEDIUM_SIZE, others one of four bytes after LONG_SIZE."""

MEDIUM_SIZE: Final = 0x79
LONG_SIZE: Final = 0x7A


class WireType(IntEnum):
    """The type byte of a field. Numbers have their width as their size: 10 to 13 stand for several API types each."""

    MSG = 1
    SUBJECT = 2
    DATETIME = 3
    OPAQUE = 7
    STRING = 8
    BOOL = 9
    IP = 10
    INT = 11
    UINT = 12
    REAL = 13
    ENCRYPTED = 32
    I8ARRAY = 34
    U8ARRAY = 35
    I16ARRAY = 36
    U16ARRAY = 37
    I32ARRAY = 38
    U32ARRAY = 39
    I64ARRAY = 40
    U64ARRAY = 41
    F32ARRAY = 44
    F64ARRAY = 45
    XML = 47
    STRINGARRAY = 48
    MSGARRAY = 49


SCALARS: Final = frozenset({WireType.DATETIME, WireType.BOOL, WireType.IP, WireType.INT, WireType.UINT, WireType.REAL})
"""Types whose size always has one byte."""

NUMBERS: Final = {
    "I8": (WireType.INT, "b"),
    "I16": (WireType.INT, "h"),
    "I32": (WireType.INT, "i"),
    "I64": (WireType.INT, "q"),
    "U8": (WireType.UINT, "B"),
    "U16": (WireType.UINT, "H"),
    "U32": (WireType.UINT, "I"),
    "U64": (WireType.UINT, "Q"),
    "F32": (WireType.REAL, "f"),
    "F64": (WireType.REAL, "d"),
}
"""The API's types of numbers: their wire type, and their code of `struct`."""

ARRAYS: Final = {
    WireType.I8ARRAY: "b",
    WireType.U8ARRAY: "B",
    WireType.I16ARRAY: "h",
    WireType.U16ARRAY: "H",
    WireType.I32ARRAY: "i",
    WireType.U32ARRAY: "I",
    WireType.I64ARRAY: "q",
    WireType.U64ARRAY: "Q",
    WireType.F32ARRAY: "f",
    WireType.F64ARRAY: "d",
}
"""The code of `struct` of the elements of an array."""

RAW: Final = "RAW"
"""The name that a field of an unknown type has here instead of one of the API's."""
