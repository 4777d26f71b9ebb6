"""The meaning of Encoding and CodedCharSetId, as byte orders and Python codecs.

Sources: IBM MQ, "Machine encodings" (the bits of Encoding), "Codeset names and CCSIDs" and "Character set identifiers
for .NET applications" (the identifiers). Python lacks some of IBM's host code pages; `code_pages` adds those that
SAS uses. The others, among them all of East Asia, have no codec here: the gateway keeps their bytes as they are.
"""

from typing import Final, Literal

from app.codecs import code_pages
from app.wire.kinds import Order

code_pages.register()

MQENC_INTEGER_MASK = 0x00F
MQENC_FLOAT_MASK = 0xF00
MQENC_BIG_ENDIAN: Final = 273
"""Integers, packed decimals and IEEE floats with the high byte first, as on AIX and IBM i."""
MQENC_LITTLE_ENDIAN: Final = 546
"""All of them with the low byte first, as on x86."""
MQENC_S390: Final = 785
"""High byte first with hexadecimal floats, as on z/OS."""

LATIN_1_CCSID: Final = 819

EBCDIC: Final = "cp500"
"""An EBCDIC code page whose control characters, capitals, digits and blanks are the same in all EBCDIC code pages."""

FloatFormat = Literal["ieee-big", "ieee-little", "s390", "tns"]

_ORDERS: dict[int, Order] = {1: ">", 2: "<"}
_FLOATS: dict[int, FloatFormat] = {0x100: "ieee-big", 0x200: "ieee-little", 0x300: "s390", 0x400: "tns"}

_CHARSETS = {
    37: "cp037",
    273: "cp273",
    367: "ascii",
    424: "cp424",
    437: "cp437",
    500: "cp500",
    737: "cp737",
    775: "cp775",
    813: "iso8859-7",
    819: "latin-1",
    850: "cp850",
    852: "cp852",
    855: "cp855",
    857: "cp857",
    858: "cp858",
    860: "cp860",
    861: "cp861",
    862: "cp862",
    863: "cp863",
    864: "cp864",
    865: "cp865",
    866: "cp866",
    869: "cp869",
    874: "cp874",
    875: "cp875",
    878: "koi8-r",
    912: "iso8859-2",
    913: "iso8859-3",
    914: "iso8859-4",
    915: "iso8859-5",
    916: "iso8859-8",
    920: "iso8859-9",
    921: "iso8859-13",
    923: "iso8859-15",
    932: "cp932",
    943: "cp932",
    949: "cp949",
    950: "cp950",
    954: "euc-jp",
    970: "euc-kr",
    1026: "cp1026",
    1051: "hp-roman8",
    1089: "iso8859-6",
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
    1363: "cp949",
    1381: "gbk",
    1383: "gb2312",
    1386: "gbk",
    5050: "euc-jp",
    5346: "cp1250",
    5347: "cp1251",
    5348: "cp1252",
    5349: "cp1253",
    5350: "cp1254",
    5351: "cp1255",
    5352: "cp1256",
    5353: "cp1257",
    5354: "cp1258",
    5488: "gb18030",
    33722: "euc-jp",
    **code_pages.HOST_CCSIDS,
}
# fmt: off
_EBCDIC_WITHOUT_CODEC = frozenset({
    256, 290, 420, 838, 870, 880, 905, 918, 924, 930, 931, 933, 935, 937, 939,
    1025, 1027, 1097, 1112, 1122, 1123, 1130, 1132, 1137, *range(1153, 1159), 1160, 1164,
    1364, 1371, 1377, 1388, 1390, 1399, 5026, 5035, 16804, 28709,
})
# fmt: on
_UTF_16 = frozenset({1200, 13488, 17584})
_UTF_16_OF_ONE_ORDER = {1201: "utf-16-be", 1202: "utf-16-le", 1203: "utf-16-le", 1204: "utf-16-be", 1205: "utf-16-be"}
"""1204 and 1205 begin with a byte order mark, or are big-endian. UTF-32 (1232 to 1237) has no codec here."""


def integer_order(encoding: int) -> Order | None:
    """Return the byte order of binary integers; None if the Encoding does not state it."""
    return _ORDERS.get(encoding & MQENC_INTEGER_MASK)


def float_format(encoding: int) -> FloatFormat | None:
    """Return the format of floating-point numbers; None if the Encoding does not state it."""
    return _FLOATS.get(encoding & MQENC_FLOAT_MASK)


def charset(ccsid: int, encoding: int = MQENC_BIG_ENDIAN) -> str | None:
    """Return the Python codec of a CodedCharSetId; None if Python has none, in which case the bytes are kept as they
    are. UTF-16 has the byte order of the Encoding's integers, unless the identifier states one.
    """
    if ccsid in _UTF_16_OF_ONE_ORDER:
        return _UTF_16_OF_ONE_ORDER[ccsid]
    if ccsid in _UTF_16:
        return "utf-16-le" if integer_order(encoding) == "<" else "utf-16-be"
    return _CHARSETS.get(ccsid)


def in_charset(text: str, ccsid: int, encoding: int = MQENC_BIG_ENDIAN) -> bytes:
    """Encode control characters, capitals, digits or blanks in a CodedCharSetId; as ASCII if the identifier
    is unknown.
    """
    return text.encode(charset(ccsid, encoding) or (EBCDIC if is_ebcdic(ccsid) else "ascii"))


def is_ebcdic(ccsid: int) -> bool | None:
    """Tell whether capitals, digits and blanks have their EBCDIC codes (True) or their ASCII codes (False).

    Return None for a CodedCharSetId that is unknown, or whose characters take two bytes.
    """
    if ccsid in _EBCDIC_WITHOUT_CODEC:
        return True
    codec = _CHARSETS.get(ccsid)
    return None if codec is None else "A".encode(codec) != b"A"
