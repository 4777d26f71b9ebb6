"""Convert fixed-width character values to Arrow strings and back, a column at a time.

SAS character values have a fixed length in bytes and are padded with blanks. SAS has no null, so a blank value becomes
the empty string. Trailing blanks are therefore lost; leading ones are kept.
"""

import codecs
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.dataset.conversion_error import BadValueError, refuse_any

Bytes = NDArray[np.uint8]

GUESSES = ("cp1252", "latin-1")
"""The character sets of texts that are not UTF-8, if none is declared: Windows Latin 1, and Latin-1, which has a
character for each of the five bytes that the first one lacks."""

_LINE_FEED = 0x0A
_BLANKS = pc.TrimOptions(" ")
_ASCII = bytes(range(128))
_EVERY_PAIR = bytes(b for first in range(256) for second in range(256) for b in (first, second))


def constants(texts: Sequence[str]) -> pa.StringArray:
    """Return a column of these texts.

    It is for constants of modules: pa.array() imports pandas where it is installed, for which every command would wait.
    """
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


@cache
def _has_shifts(charset: str) -> bool:
    """Tell whether bytes may change the meaning of all those after them, so that each text is decoded by itself."""
    name = codecs.lookup(charset).name
    return name.startswith("iso2022") or name in {"hz", "utf-7", "utf-8-sig"}


@cache
def _keeps_ascii(charset: str) -> bool:
    """Tell whether the bytes 0 to 127 are ASCII in this character set."""
    return not _has_shifts(charset) and _ASCII.decode(charset, "replace") == _ASCII.decode("ascii")


@cache
def _is_single_byte(charset: str) -> bool:
    """Tell whether every byte is one character. Only then does no pair of bytes decode to fewer than two characters."""
    return not _has_shifts(charset) and len(_EVERY_PAIR.decode(charset, "replace")) == len(_EVERY_PAIR)


@cache
def _is_utf8(charset: str) -> bool:
    return "é€\U0001f600".encode(charset, "replace") == "é€\U0001f600".encode()


class _SingleBytes(NamedTuple):
    """A single-byte character set as tables for `bytes.translate`, by byte.

    `to_ascii` is its character in ASCII, FF if ASCII does not have it. `more` is the number of bytes above one of its
    character in UTF-8. `undefined` is 1 for a byte without a character, else 0.
    """

    to_ascii: bytes
    more: bytes
    undefined: bytes


@cache
def _single_bytes(charset: str) -> _SingleBytes:
    characters = bytes(range(256)).decode(charset, "replace")
    return _SingleBytes(
        bytes(ord(character) if ord(character) < 0x80 else 0xFF for character in characters),
        bytes(len(character.encode()) - 1 for character in characters),
        bytes(character == "\N{REPLACEMENT CHARACTER}" for character in characters),
    )


@cache
def _from_ascii(charset: str) -> bytes | None:
    """Return a single-byte character set's bytes of ASCII, for `bytes.translate`; None if it lacks some of ASCII."""
    try:
        return _ASCII.decode("ascii").encode(charset) + bytes(128)
    except UnicodeEncodeError:
        return None


def blank(charset: str) -> int:
    """Return the byte that pads character values. Raises ValueError for a character set whose blank is not one byte."""
    encoded = " ".encode(charset)
    if len(encoded) != 1:
        raise ValueError(f"character set {charset} has no blank of one byte")
    return encoded[0]


class CharacterColumn(NamedTuple):
    """A character column.

    `damaged` has the whole cells, with trailing blanks, that the character set cannot decode, and null for all others.
    It is None if there are none.
    """

    strings: pa.StringArray
    damaged: pa.BinaryArray | None = None


def decodes(raw: bytes, charset: str) -> bool:
    """Tell whether all bytes are in a character set."""
    try:
        raw.decode(charset)
    except UnicodeDecodeError:
        return False
    return True


def shown(raw: bytes, charset: str) -> str:
    r"""Return a text of metadata, which has no side column: `\xHH` keeps each byte that is not in the character set."""
    return raw.decode(charset, "backslashreplace")


def decode(cells: Bytes, charset: str) -> pa.StringArray:
    """Return the strings of a column given as an array of rows by length bytes.

    Undecodable bytes become U+FFFD: a damaged value never costs its row.
    """
    return read(cells, charset).strings


def read(cells: Bytes, charset: str) -> CharacterColumn:
    """Return the strings of a column given as an array of rows by length bytes, and its undecodable cells."""
    rows, length = cells.shape
    if not cells.size:
        return CharacterColumn(pa.array([""] * rows, pa.string()))
    data = side_by_side(cells)
    if _keeps_ascii(charset) and data.max() < 0x80:
        return CharacterColumn(_trimmed(_ends(rows, length), data))
    if _is_utf8(charset):
        strings = _valid(_trimmed(_ends(*cells.shape), data))
        return _read_each(cells, "utf-8") if strings is None else CharacterColumn(strings)
    if _is_single_byte(charset):
        return _read_single_bytes(cells, data.tobytes(), charset)
    return _read_many_bytes(cells, charset)


def reread(latin_1: pa.StringArray, charset: str) -> CharacterColumn:
    """Return strings without nulls whose bytes, in this character set, were read as Latin-1."""
    offsets, data = buffers(latin_1)
    if not data.size or (_keeps_ascii(charset) and data.max() < 0x80):
        return CharacterColumn(pc.call_function("ascii_rtrim", [latin_1], _BLANKS))
    offsets, data = _single_encoded(offsets, data, "latin-1", None)
    if _is_utf8(charset) and (strings := _valid(_trimmed(offsets, data))) is not None:
        return CharacterColumn(strings)
    return read(_padded(offsets, data, int(np.diff(offsets).max()), charset), charset)


def side_by_side(cells: Bytes) -> Bytes:
    """Return the bytes of cells without the bytes between them. Whole cells are copied, rather than single bytes."""
    length = cells.shape[1]
    return np.ascontiguousarray(cells.view(f"V{length}")).view(np.uint8).reshape(-1)


def _valid(strings: pa.StringArray) -> pa.StringArray | None:
    """Return strings if each of them is UTF-8, else None."""
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return strings


def _read_single_bytes(cells: Bytes, raw: bytes, charset: str) -> CharacterColumn:
    tables = _single_bytes(charset)
    ascii_only = np.frombuffer(raw.translate(tables.to_ascii), np.uint8)
    if ascii_only.max() < 0x80:
        return CharacterColumn(_trimmed(_ends(*cells.shape), ascii_only))
    rows, length = cells.shape
    more = np.frombuffer(raw.translate(tables.more), np.uint8)
    longer = np.flatnonzero(more > 0)
    ends = _ends(rows, length)
    ends[1:] += np.cumsum(np.bincount(longer // length, more[longer], rows)).astype(np.int32)
    strings = _trimmed(ends, raw.decode(charset, "replace").encode())
    undefined = np.flatnonzero(np.frombuffer(raw.translate(tables.undefined), np.bool_))
    damaged = np.zeros(rows, np.bool_)
    damaged[undefined // length] = True
    return CharacterColumn(strings, _damaged(cells, damaged))


def _read_many_bytes(cells: Bytes, charset: str) -> CharacterColumn:
    """Decode all values at once, with line feeds between them: no character has a line feed as its last byte."""
    rows, length = cells.shape
    if not _keeps_ascii(charset) or (cells == _LINE_FEED).any():
        return _read_each(cells, charset)
    lines = np.full((rows, length + 1), _LINE_FEED, np.uint8)
    lines[:, :length] = cells
    try:
        encoded = np.frombuffer(lines.tobytes().decode(charset).encode(), np.uint8)
    except UnicodeError:
        return _read_each(cells, charset)
    feeds = encoded == _LINE_FEED
    ends = np.zeros(rows + 1, np.int32)
    ends[1:] = np.flatnonzero(feeds) - np.arange(rows)
    return CharacterColumn(_trimmed(ends, encoded[~feeds]))


def _read_each(cells: Bytes, charset: str) -> CharacterColumn:
    """Decode the values one at a time, for columns with damaged values."""
    values = []
    damaged = np.zeros(len(cells), np.bool_)
    has_shifts = _has_shifts(charset)
    for row, cell in enumerate(cells):
        raw = cell.tobytes().rstrip(b" ") if has_shifts else cell.tobytes()  # blanks are no characters when shifted
        try:
            value = raw.decode(charset)
        except UnicodeError:
            value = raw.decode(charset, "replace")
            damaged[row] = True
        values.append(value.rstrip(" "))
    return CharacterColumn(pa.array(values, pa.string()), _damaged(cells, damaged))


def _ends(rows: int, length: int) -> NDArray[np.int32]:
    return np.arange(rows + 1, dtype=np.int32) * np.int32(length)


def _trimmed(offsets: NDArray[np.int32], data: bytes | Bytes) -> pa.StringArray:
    strings = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
    return pc.call_function("ascii_rtrim", [strings], _BLANKS)


def _damaged(cells: Bytes, rows: NDArray[np.bool_]) -> pa.BinaryArray | None:
    if not rows.any():
        return None
    ends = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(rows, out=ends[1:], dtype=np.int32)
    buffers = [
        pa.py_buffer(np.packbits(rows, bitorder="little")),
        pa.py_buffer(ends * np.int32(cells.shape[1])),
        pa.py_buffer(np.ascontiguousarray(cells[rows])),
    ]
    return pa.Array.from_buffers(pa.binary(), len(rows), buffers)


def _encoded(strings: pa.StringArray, charset: str) -> tuple[NDArray[np.int32], Bytes]:
    """Return offsets and data of non-null strings in a character set. Raises BadValueError."""
    if codecs.lookup(charset).name in _ONE_WAY_CODECS:
        changed = pc.match_substring_regex(strings, _ONE_WAY).to_numpy(zero_copy_only=False)
        refuse_any(changed, f"a yen sign or an overline is not in character set {charset}")
    offsets, data = buffers(strings)
    is_ascii = data.size == 0 or data.max() < 0x80
    if _is_utf8(charset) or (_keeps_ascii(charset) and is_ascii):
        return offsets, data
    if _is_single_byte(charset):
        return _single_encoded(offsets, data, charset, _from_ascii(charset) if is_ascii else None)
    if _keeps_ascii(charset) and not (data == _LINE_FEED).any():
        with suppress(UnicodeEncodeError):
            return _many_encoded(offsets, data, charset)
    return _each_encoded(strings, charset)


_ONE_WAY_CODECS = frozenset({"euc_jp", "shift_jis"})
_ONE_WAY = "[\u00a5\u203e]"
"""The characters that these codecs write as the backslash and the tilde of ASCII."""


def _single_encoded(
    offsets: NDArray[np.int32], data: Bytes, charset: str, table: bytes | None
) -> tuple[NDArray[np.int32], Bytes]:
    if table is not None:
        return offsets, np.frombuffer(data.tobytes().translate(table), np.uint8)
    characters = np.zeros(len(data) + 1, np.int32)
    np.cumsum((data & 0xC0) != 0x80, out=characters[1:], dtype=np.int32)
    offsets = characters[offsets]
    try:
        return offsets, np.frombuffer(data.tobytes().decode().encode(charset), np.uint8)
    except UnicodeEncodeError as e:
        row = int(np.searchsorted(offsets, e.start, "right")) - 1
        raise BadValueError(row, f"{e.object[e.start]!r} is not in character set {charset}") from None


def _many_encoded(offsets: NDArray[np.int32], data: Bytes, charset: str) -> tuple[NDArray[np.int32], Bytes]:
    """Encode all values at once, with line feeds between them, as `_read_many_bytes` reads them."""
    rows = np.arange(len(offsets) - 1, dtype=np.int32)
    lines = np.full(len(data) + len(rows), _LINE_FEED, np.uint8)
    of_data = np.ones(len(lines), np.bool_)
    of_data[offsets[1:] + rows] = False
    lines[of_data] = data
    encoded = np.frombuffer(lines.tobytes().decode().encode(charset), np.uint8)
    feeds = encoded == _LINE_FEED
    ends = np.zeros(len(offsets), np.int32)
    ends[1:] = np.flatnonzero(feeds) - rows
    return ends, encoded[~feeds]


def _each_encoded(strings: pa.StringArray, charset: str) -> tuple[NDArray[np.int32], Bytes]:
    values = []
    for row, value in enumerate(strings.to_pylist()):
        try:
            values.append(value.encode(charset))
        except UnicodeEncodeError as e:
            raise BadValueError(row, f"{value[e.start]!r} is not in character set {charset}") from None
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return offsets, np.frombuffer(b"".join(values), np.uint8)


def buffers(values: pa.StringArray | pa.BinaryArray) -> tuple[NDArray[np.int32], Bytes]:
    """Return offsets and data of non-null values, the first offset at 0."""
    if values.offset:
        values = pa.concat_arrays([values, pa.array([], values.type)])
    _, offset_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(values) + 1)
    return offsets, np.frombuffer(data_buffer or b"", np.uint8)[: offsets[-1]]


def encode(strings: pa.StringArray, length: int, charset: str, damaged: pa.BinaryArray | None = None) -> Bytes:
    """Return a column of rows by length bytes, padded with blanks; null is blank.

    Cells of `damaged` are copied unchanged.

    Trailing blanks beyond the length are dropped, as they have no meaning. Raises BadValueError for a value that is
    longer or has a character outside the character set.
    """
    if damaged is None or damaged.null_count == len(damaged):
        return _padded(*_encoded(_without_blanks(strings), charset), length, charset)
    cells = _padded(*_encoded(_without_blanks(strings, damaged), charset), length, charset)
    rows = damaged.is_valid().to_numpy(zero_copy_only=False)
    kept = _padded(*buffers(pc.fill_null(damaged, b"")), length, charset)
    cells[rows] = kept[rows]
    return cells


def _padded(offsets: NDArray[np.int32], data: Bytes, length: int, charset: str) -> Bytes:
    sizes = np.diff(offsets)
    refuse_any(sizes > length, f"the value needs more than the variable's {length} bytes in character set {charset}")
    cells = np.full((len(sizes), length), blank(charset), np.uint8)
    cells[np.arange(length, dtype=np.int32) < sizes[:, None]] = data
    return cells


def _without_blanks(strings: pa.StringArray, damaged: pa.BinaryArray | None = None) -> pa.StringArray:
    """Return the strings to encode, without trailing blanks; damaged values are not encoded."""
    if damaged is not None:
        strings = pc.if_else(damaged.is_valid(), "", strings)
    return pc.ascii_rtrim(pc.fill_null(strings, ""), characters=" ")


def longest(strings: pa.StringArray, charset: str, damaged: pa.BinaryArray | None = None) -> int:
    """Return the bytes of the longest value in a character set without trailing blanks. Raises BadValueError."""
    sizes = np.diff(_encoded(_without_blanks(strings, damaged), charset)[0])
    kept = 0 if damaged is None else pc.max(pc.binary_length(damaged)).as_py() or 0
    return max(int(sizes.max(initial=0)), kept)
