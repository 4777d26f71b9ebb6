"""What the header and the pages of sas7bdat and sas7bcat files show: the character set, and where a file is damaged.

Such a file has a header, which states the size and number of its pages, and the pages. Byte 70 of the header has SAS's
number of the character set. Sources: "SAS7BDAT Database Binary Format" (Shotwell), ReadStat and Parso, and
"Encoding Values in SAS Language Elements" of SAS's documentation.
"""

import codecs
import io
import struct
from collections.abc import Mapping
from typing import BinaryIO, Final, NamedTuple

from app.dataset import character_columns
from app.model.errors import InvalidInputError
from app.tables.read.damage_errors import SAS7BDAT, damaged
from app.tables.read.read_request import unreadable
from app.tables.read.text_charsets import known

AT: Final = 70
"""The byte of the header with the number."""

LATIN_1: Final = 29
"""The number of the character set that makes one character of every byte."""

_UNSTATED: Final[Mapping[int, str]] = {0: "none", 204: "any"}
_UNSTATED_CODEC: Final = "cp1252"

_CODECS: Final[Mapping[int, tuple[str, str]]] = {
    20: ("utf-8", "utf-8"),
    28: ("us-ascii", "ascii"),
    29: ("latin1", "latin-1"),
    30: ("latin2", "iso8859-2"),
    31: ("latin3", "iso8859-3"),
    32: ("latin4", "iso8859-4"),
    33: ("cyrillic", "iso8859-5"),
    34: ("arabic", "iso8859-6"),
    35: ("greek", "iso8859-7"),
    36: ("hebrew", "iso8859-8"),
    37: ("latin5", "iso8859-9"),
    38: ("latin6", "iso8859-10"),
    39: ("thai", "iso8859-11"),
    40: ("latin9", "iso8859-15"),
    41: ("pcoem437", "cp437"),
    42: ("pcoem850", "cp850"),
    43: ("pcoem852", "cp852"),
    44: ("pcoem857", "cp857"),
    45: ("pcoem858", "cp858"),
    46: ("pcoem862", "cp862"),
    47: ("pcoem864", "cp864"),
    48: ("pcoem865", "cp865"),
    49: ("pcoem866", "cp866"),
    50: ("pcoem869", "cp869"),
    51: ("pcoem874", "cp874"),
    52: ("pcoem921", "iso8859-13"),
    53: ("pcoem922", "ibm922"),
    54: ("pcoem1129", "ibm1129"),
    55: ("msdos720", "cp720"),
    56: ("msdos737", "cp737"),
    57: ("msdos775", "cp775"),
    58: ("pcoem860", "cp860"),
    59: ("pcoem863", "cp863"),
    60: ("wlatin2", "cp1250"),
    61: ("wcyrillic", "cp1251"),
    62: ("wlatin1", "cp1252"),
    63: ("wgreek", "cp1253"),
    64: ("wturkish", "cp1254"),
    65: ("whebrew", "cp1255"),
    66: ("warabic", "cp1256"),
    67: ("wbaltic", "cp1257"),
    68: ("wvietnamese", "cp1258"),
    69: ("macroman", "mac-roman"),
    70: ("macarabic", "mac-arabic"),
    71: ("machebrew", "mac-hebrew"),
    72: ("macgreek", "mac-greek"),
    73: ("macthai", "mac-thai"),
    75: ("macturkish", "mac-turkish"),
    76: ("macukraine", "mac-cyrillic"),
    118: ("ms-950", "cp950"),
    119: ("euc-tw", "euc-tw"),
    123: ("big5", "big5"),
    125: ("euc-cn", "gb18030"),
    126: ("ms-936", "gbk"),
    128: ("zpce", "ibm1381"),
    134: ("euc-jp", "euc-jp"),
    136: ("ms-932", "cp932"),
    137: ("ibm-942", "ibm942"),
    138: ("shift-jis", "cp932"),
    140: ("euc-kr", "euc-kr"),
    141: ("kpce", "cp949"),
    142: ("ms-949", "cp949"),
    163: ("maciceland", "mac-iceland"),
    167: ("iso-2022-jp", "iso2022-jp"),
    168: ("iso-2022-kr", "iso2022-kr"),
    169: ("iso-2022-cn", "iso2022-cn"),
    172: ("iso-2022-cn-ext", "iso2022-cn-ext"),
    205: ("gb18030", "gb18030"),
    227: ("latin8", "iso8859-14"),
    242: ("latin7", "iso8859-13"),
    245: ("maccroatian", "mac-croatian"),
    246: ("maccyrillic", "mac-cyrillic"),
    247: ("macromania", "mac-romanian"),
    248: ("shift-jisx0213", "shift-jisx0213"),
}
"""By number: SAS's name and Python's codec."""

_HOST: Final[Mapping[int, str]] = {
    **dict(enumerate(("ebcdic424", "ebcdic500", "ebcdic838", "ebcdic870", "ebcdic875"), 87)),
    78: "ebcdic037",
    95: "ebcdic1025",
    98: "ebcdic1112",
    99: "ebcdic1122",
    **dict(enumerate(("open_ed-424", "open_ed-838", "open_ed-870", "open_ed-875"), 102)),
    **dict(enumerate(("open_ed-1025", "open_ed-1026", "open_ed-1047", "open_ed-1112", "open_ed-1122"), 108)),
    117: "ibm-937",
    124: "ibm-935",
    129: "ibm-939",
    130: "ibm-930",
    139: "ibm-933",
    173: "open_ed-037",
    **{183 + at: f"ebcdic{1140 + at}" for at in range(9)},
    **{192 + at: f"open_ed-{1140 + at}" for at in range(9)},
    207: "ebcdic1097",
    208: "open_ed-1097",
    211: "ebcdic1149",
    212: "open_ed-1149",
    **dict(enumerate(("open_ed-930", "open_ed-933", "open_ed-935", "open_ed-937", "open_ed-939"), 234)),
}
"""Character sets of z/OS. Numbers in such files may be IBM floating point, which nothing in the file states."""

_HEADER: Final = 288
"""The bytes of a header up to and with the number of pages."""

_WIDE: Final = 0x33
"""The mark of files of 64-bit systems, and of headers with 4 bytes more before the sizes."""

_LITTLE: Final = 1
_DELETED: Final = 0x0080
"""The mark in a page's type that it has deleted observations."""

_PAGE_TYPES: Final = frozenset({0x0000, 0x0100, 0x0200, 0x0400, 0x4000, 0x8000, 0x9000})
_POINTERS_32, _POINTERS_64 = 24, 40
"""The bytes of a page before the pointers to its subheaders; their number is 4 bytes before them."""

_COLUMN_SIZE: Final = b"\xf6\xf6\xf6\xf6"
"""The signature of the subheader with the number of variables."""

_SIZES: Final = range(1024, (1 << 24) + 1)
_MOST_PAGES: Final = 10_000
"""The maximum number of pages that are looked at."""


class SasCharset(NamedTuple):
    """Python's codec of the texts of a file. `unstated` if neither the file nor the sender states one."""

    codec: str
    unstated: bool = False


def charset_of(file: BinaryIO, kind: str, given: str | None) -> SasCharset:
    """Return the character set of a file: the given one, or the one of its header.

    Raises InvalidInputError for one that is not supported.
    """
    if given is not None:
        codec = known(given)
        try:
            character_columns.blank(codec)
        except ValueError as error:
            raise unreadable(f"a {kind} cannot be in it: {error}") from None
        return SasCharset(codec)
    file.seek(AT)
    (number,) = file.read(1) or b"\0"
    if number in _UNSTATED:
        return SasCharset(_UNSTATED_CODEC, unstated=True)
    name, codec = _CODECS.get(number, (_HOST.get(number, f"number {number}"), ""))
    try:
        return SasCharset(codecs.lookup(codec).name)
    except LookupError:
        why = f"the character set of the {kind}, {name}, is not supported (byte {AT} of its header is {number})"
        raise unreadable(
            f"{why}; state one in which its texts can be read as `encoding`, or write it anew in UTF-8"
        ) from None


class AsLatin1:
    """A file whose header states Latin-1, in which each byte is one character: its reader then changes no text."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int | None = -1) -> bytes:
        at = self._file.tell()
        piece = self._file.read(-1 if size is None else size)
        if not at <= AT < at + len(piece):
            return piece
        return piece[: AT - at] + bytes([LATIN_1]) + piece[AT - at + 1 :]


def explained(file: BinaryIO, kind: str, what: str, where: str = "", row: int | None = None) -> InvalidInputError:
    """Return the error of a file that cannot be parsed.

    If header and pages do not show what is wrong and where, it is what the caller knows.
    """
    file.seek(0)
    head = file.read(_HEADER)
    if len(head) < _HEADER:
        return damaged(kind, f"its header is cut off after {len(head):,} bytes")
    is_wide, order, header, page = _layout(head)
    (pages,) = struct.unpack_from(order + ("q" if is_wide else "i"), head, 204 + 4 * (head[35] == _WIDE))
    if header not in _SIZES or page not in _SIZES or pages < 0:
        stated = f"its header states {header:,} bytes for itself and {pages:,} pages of {page:,} bytes"
        return damaged(kind, stated, "at byte 196")
    size = file.seek(0, 2)
    whole = max(0, size - header) // page
    if whole < pages:
        place = _place(whole, pages, header + whole * page)
        return damaged(kind, f"it has {size:,} bytes of the {header + pages * page:,} that its header states", place)
    if kind == SAS7BDAT:
        for number in range(min(pages, _MOST_PAGES)):
            at = header + number * page
            file.seek(at + (32 if is_wide else 16))
            (found,) = struct.unpack(f"{order}H", file.read(2))
            if found & ~_DELETED not in _PAGE_TYPES:
                return damaged(kind, f"a page has the unknown type {found:#06x}", _place(number, pages, at))
    return damaged(kind, what, where, row)


def has_no_variables(file: BinaryIO) -> bool:
    """Tell whether the first page of a sas7bdat file states that the data set has no variables."""
    file.seek(0)
    head = file.read(_HEADER)
    if len(head) < _HEADER:
        return False
    is_wide, order, header, page = _layout(head)
    file.seek(header)
    first = file.read(page if page in _SIZES else 0)
    size, pointers = (8, _POINTERS_64) if is_wide else (4, _POINTERS_32)
    try:
        (count,) = struct.unpack_from(f"{order}H", first, pointers - 4)
        for number in range(count):
            (at,) = struct.unpack_from(order + ("q" if is_wide else "i"), first, pointers + 3 * size * number)
            if first[at : at + 4] == _COLUMN_SIZE or first[at + size - 4 : at + size] == _COLUMN_SIZE:
                return not any(first[at + size : at + 2 * size])
    except struct.error:
        return False
    return False


def _layout(head: bytes) -> tuple[bool, str, int, int]:
    """Return from a header whether the file is of a 64-bit system, its byte order, and the sizes of header and page."""
    is_wide, shift = head[32] == _WIDE, 4 * (head[35] == _WIDE)
    order = "<" if head[37] == _LITTLE else ">"
    header, page = struct.unpack_from(f"{order}ii", head, 196 + shift)
    return is_wide, order, header, page


def _place(number: int, pages: int, at: int) -> str:
    return f"in page {number + 1:,} of {pages:,} (from byte {at:,} on)"
