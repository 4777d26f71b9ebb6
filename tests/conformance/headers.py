"""Headers in front of a message's data, as the tests write and read them: in this machine's byte order."""

import struct
from types import ModuleType
from typing import Any

GROUP = b"group".ljust(24, b"\0")

_EXTENSION = "4s4i8si24s4i"


def extension(c: ModuleType, order: str = "=", codec: str = "latin-1", **fields: Any) -> bytes:
    """An MQMDE; by default of a message in a group, for data that is text in Windows' Latin 1."""
    values: dict[str, Any] = {
        "StrucId": "MDE ".encode(codec),
        "Version": 2,
        "StrucLength": 72,
        "Encoding": 273,
        "CodedCharSetId": 1252,
        "Format": "MQSTR   ".encode(codec),
        "Flags": 0,
        "GroupId": GROUP,
        "MsgSeqNumber": 3,
        "Offset": 0,
        "MsgFlags": c.MQMF_MSG_IN_GROUP,
        "OriginalLength": -1,
    }
    return struct.pack(order + _EXTENSION, *(values | fields).values())


def fields_of(mde: bytes) -> tuple[Any, ...]:
    """An MQMDE's fields."""
    return struct.unpack("=" + _EXTENSION, mde)


def properties(c: ModuleType, folder: bytes) -> bytes:
    """An MQRFH2 with one folder, for data that is text in UTF-8."""
    folder += b" " * (-len(folder) % 4)
    fixed = struct.pack(
        "=4s4i8s3i", b"RFH ", 2, 40 + len(folder), c.MQENC_NATIVE, 1208, b"MQSTR   ", 0, 1208, len(folder)
    )
    return fixed + folder


def dead_letter_header(c: ModuleType, destination: str) -> bytes:
    """An MQDLH of which the data is text in code page 500."""
    return struct.pack(
        "=4s2i48s48s2i8si28s8s8s",
        b"DLH ",
        1,
        c.MQRC_BACKOUT_THRESHOLD_REACHED,
        destination.encode().ljust(48),
        b"QM1".ljust(48),
        785,
        500,
        b"MQSTR   ",
        6,
        b"a program".ljust(28),
        b"20010203",
        b"04050607",
    )
