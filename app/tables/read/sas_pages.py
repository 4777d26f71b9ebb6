"""Find where a sas7bdat or sas7bcat file is damaged, which its parser does not report.

Such a file has a header, which states the size and number of its pages, and the pages. Their layout is the one that
ReadStat and "SAS7BDAT Database Binary Format" (Shotwell) describe.
"""

import struct
from typing import BinaryIO, Final

from app.model.errors import InvalidInputError
from app.tables.read.damage_errors import SAS7BDAT, damaged

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
