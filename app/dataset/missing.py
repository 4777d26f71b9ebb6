"""SAS's 28 missing values: `.`, `._` and `.A` to `.Z`.

Inside the gateway each special missing value is a *tag*, the ASCII code of its letter; an ordinary `.` has no tag (0).
In the bytes of a number, a special missing value has a code, in one of four schemes:

- IEEE: the bytes FF FF, then a byte that is the complement of 0 for `._`, 1 for `.`, 2 to 27 for `.A` to `.Z`, then
  zeros (as SAS prints them in HEX16.);
- IEEE, of some programs: that byte is the complement of the ASCII code of `_`, `.` or the letter;
- IBM, as in SAS transport files: the ASCII code of `_`, `.` or the letter, then zeros;
- IBM, if texts are EBCDIC: its EBCDIC code, then zeros.
"""

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.dataset.character_columns import constants
from app.dataset.conversion_error import refuse_any

Tags = NDArray[np.uint8]

LETTERS = "_ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""The letters of the special missing values, in SAS's order; `.` sorts after `_`."""

ORDINARY = ord(".")

_WORDS = constants([f".{letter}" for letter in LETTERS])
_TAGS = np.frombuffer(LETTERS.encode(), np.uint8)
_EBCDIC = "cp037"


def _table(codes: dict[int, int]) -> Tags:
    """Return the ASCII code of the missing value that each byte stands for, 0 for none."""
    table = np.zeros(256, np.uint8)
    table[list(codes)] = list(codes.values())
    return table


def _ieee_code(letter: int) -> int:
    return 0xFF ^ (0 if letter == ord("_") else 1 if letter == ORDINARY else letter - ord("A") + 2)


_ALL = [ORDINARY, *LETTERS.encode()]
_ASCII_CODES = {code: code for code in _ALL}
_EBCDIC_CODES = {chr(code).encode(_EBCDIC)[0]: code for code in _ALL}

OF_IEEE: Tags = _table({0xFF ^ code: code for code in _ALL} | {_ieee_code(code): code for code in _ALL})
"""The ASCII code of `.`, `_` or a letter by the third byte of a missing value in IEEE format; 0 for an unknown byte."""

TO_IEEE: Tags = _table({0: _ieee_code(ORDINARY)} | {code: _ieee_code(code) for code in _ALL})
"""The third byte of a missing value in IEEE format, by its tag."""

_OF_IBM_ASCII = _table({"_".encode(_EBCDIC)[0]: ord("_")} | _ASCII_CODES)
_OF_IBM_EBCDIC = _table(_ASCII_CODES | _EBCDIC_CODES)
_TO_IBM_ASCII = _table({0: ORDINARY} | _ASCII_CODES)
_TO_IBM_EBCDIC = _table({0: ".".encode(_EBCDIC)[0]} | {code: byte for byte, code in _EBCDIC_CODES.items()})


@cache
def is_ebcdic(charset: str) -> bool:
    """Tell whether this character set (a Python codec's name) has the capital letters where EBCDIC has them."""
    return "A".encode(charset, "replace") == "A".encode(_EBCDIC)


def of_ibm(charset: str) -> Tags:
    """Return the ASCII code of `.`, `_` or a letter by the first byte of a missing value in IBM format; 0 if unknown.

    4B is `.` in EBCDIC and `.K` in ASCII: the character set of the data set's texts decides. 6D is `._` in both.
    """
    return _OF_IBM_EBCDIC if is_ebcdic(charset) else _OF_IBM_ASCII


def to_ibm(charset: str) -> Tags:
    """Return the first byte of a missing value in IBM format, by its tag."""
    return _TO_IBM_EBCDIC if is_ebcdic(charset) else _TO_IBM_ASCII


def to_arrow(tags: Tags | None, rows: int) -> pa.StringArray:
    """Return tags as a side column: `._`, `.A` to `.Z`, null for none."""
    if tags is None:
        return pa.nulls(rows, pa.string())
    special = tags != 0
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(special, out=offsets[1:], dtype=np.int32)
    data = np.empty((int(offsets[-1]), 2), np.uint8)
    data[:, 0], data[:, 1] = ORDINARY, tags[special]
    validity = pa.py_buffer(np.packbits(special, bitorder="little"))
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets * np.int32(2)), pa.py_buffer(data), validity)


def from_arrow(side: pa.Array) -> Tags:
    """Return the tags of a side column. An ordinary `.` may be null or `.`, and letters may be lower-case.

    Raises BadValueError for a text that is not a missing value of SAS.
    """
    words = pc.ascii_upper(side.cast(pa.string()))
    found = pc.index_in(words, value_set=_WORDS)
    ordinary = pc.fill_null(pc.equal(words, "."), fill_value=True).to_numpy(zero_copy_only=False)
    known = found.is_valid().to_numpy(zero_copy_only=False)
    refuse_any(~(known | ordinary), "not a SAS missing value (., ._, .A to .Z)")
    tags: Tags = np.where(known, _TAGS[pc.fill_null(found, 0).to_numpy(zero_copy_only=False)], np.uint8(0))
    return tags
