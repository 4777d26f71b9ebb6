"""What an Encoding and a CodedCharSetId mean to Python.

Source: IBM MQ, "Machine encodings" (the bits of Encoding) and "Code page conversion" (the identifiers).
"""

from typing import Final, Literal

from app.wire.kinds import Order

MQENC_INTEGER_MASK = 0x00F
MQENC_DECIMAL_MASK = 0x0F0
MQENC_FLOAT_MASK = 0xF00
MQENC_BIG_ENDIAN: Final = 273
"""Integers, packed decimals and IEEE floats with the high byte first, as on AIX and IBM i."""
MQENC_LITTLE_ENDIAN: Final = 546
"""All of them with the low byte first, as on x86."""
MQENC_S390: Final = 785
"""High byte first with hexadecimal floats, as on z/OS."""

FloatFormat = Literal["ieee-big", "ieee-little", "s390", "tns"]

_ORDERS: dict[int, Order] = {1: ">", 2: "<"}
_FLOATS: dict[int, FloatFormat] = {0x100: "ieee-big", 0x200: "ieee-little", 0x300: "s390", 0x400: "tns"}

_CHARSETS = {
    37: "cp037",
    273: "cp273",
    367: "ascii",
    437: "cp437",
    500: "cp500",
    813: "iso8859-7",
    819: "latin-1",
    850: "cp850",
    858: "cp858",
    912: "iso8859-2",
    915: "iso8859-5",
    920: "iso8859-9",
    923: "iso8859-15",
    932: "cp932",
    943: "cp932",
    950: "big5",
    954: "euc-jp",
    970: "euc-kr",
    1026: "cp1026",
    1140: "cp1140",
    1208: "utf-8",
    1250: "cp1250",
    1251: "cp1251",
    1252: "cp1252",
    1253: "cp1253",
    1254: "cp1254",
    1255: "cp1255",
    1256: "cp1256",
    1257: "cp1257",
    1258: "cp1258",
    1381: "gb2312",
    1383: "gb2312",
    1386: "gbk",
    5050: "euc-jp",
    5488: "gb18030",
    33722: "euc-jp",
}
_UTF_16 = frozenset({1200, 13488, 17584})


def integer_order(encoding: int) -> Order | None:
    """The byte order of binary integers; None where the Encoding does not say it."""
    return _ORDERS.get(encoding & MQENC_INTEGER_MASK)


def decimal_order(encoding: int) -> Order | None:
    """The byte order of packed decimals; None where the Encoding does not say it."""
    return _ORDERS.get((encoding & MQENC_DECIMAL_MASK) >> 4)


def float_format(encoding: int) -> FloatFormat | None:
    """How floating-point numbers are written; None where the Encoding does not say it."""
    return _FLOATS.get(encoding & MQENC_FLOAT_MASK)


def charset(ccsid: int, encoding: int = MQENC_BIG_ENDIAN) -> str | None:
    """The Python codec of a CodedCharSetId; None for one that Python cannot read, whose bytes are then kept as they
    are. UTF-16 has the byte order of the Encoding's integers."""
    if ccsid in _UTF_16:
        return "utf-16-le" if integer_order(encoding) == "<" else "utf-16-be"
    return _CHARSETS.get(ccsid)
