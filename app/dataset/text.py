"""Fixed-width character values <-> Arrow strings, a column at a time.

SAS character values have a fixed length in bytes and are padded with blanks; there is no null, so a blank value becomes
the empty string. Trailing blanks are therefore not kept, leading ones are.
"""

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.dataset.errors import BadValueError, refuse_any

Bytes = NDArray[np.uint8]

_ASCII = bytes(range(128))
_EVERY_PAIR = bytes(b for first in range(256) for second in range(256) for b in (first, second))


@cache
def _keeps_ascii(charset: str) -> bool:
    """Whether the bytes 0 to 127 mean ASCII in this character set."""
    return _ASCII.decode(charset, "replace") == _ASCII.decode("ascii")


@cache
def _is_single_byte(charset: str) -> bool:
    """Whether every byte is one character. Only then no pair of bytes decodes to fewer than two."""
    return len(_EVERY_PAIR.decode(charset, "replace")) == len(_EVERY_PAIR)


@cache
def _is_utf8(charset: str) -> bool:
    return "é€\U0001f600".encode(charset, "replace") == "é€\U0001f600".encode()


@cache
def _utf8_sizes(charset: str) -> NDArray[np.int32]:
    """For each byte of a single-byte character set, the size of its character in UTF-8."""
    return np.array([len(c.encode()) for c in bytes(range(256)).decode(charset, "replace")], np.int32)


def blank(charset: str) -> int:
    """The byte that pads character values. Raises ValueError for a character set whose blank is not one byte."""
    encoded = " ".encode(charset)
    if len(encoded) != 1:
        raise ValueError(f"character set {charset} has no blank of one byte")
    return encoded[0]


def _strings(offsets: NDArray[np.int32], data: bytes | Bytes) -> pa.StringArray:
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))


def decode(cells: Bytes, charset: str) -> pa.StringArray:
    """The strings of a column given as an array of rows by length bytes.

    What the character set cannot say becomes U+FFFD: a damaged value never costs its row.
    """
    rows, length = cells.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(length)
    data = np.ascontiguousarray(cells).reshape(-1)
    if (_keeps_ascii(charset) and (data.size == 0 or data.max() < 0x80)) or _is_utf8(charset):
        return _valid(pc.ascii_rtrim(_strings(offsets, data), characters=" "))
    if _is_single_byte(charset):
        ends = np.concatenate(([0], np.cumsum(_utf8_sizes(charset)[data], dtype=np.int32)), dtype=np.int32)
        text = data.tobytes().decode(charset, "replace").encode()
        return pc.ascii_rtrim(_strings(ends[offsets], text), characters=" ")
    raw = data.tobytes()
    values = (raw[at : at + length].decode(charset, "replace").rstrip(" ") for at in range(0, len(raw), length))
    return pa.array([""] * rows if length == 0 else list(values), pa.string())


def _valid(strings: pa.StringArray) -> pa.StringArray:
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([v.decode("utf-8", "replace") for v in strings.cast(pa.binary()).to_pylist()], pa.string())
    return strings


def _encoded(strings: pa.StringArray, charset: str) -> tuple[NDArray[np.int32], Bytes]:
    """Offsets and data of non-null strings in a character set. Raises BadValueError."""
    strings = _rebased(strings)
    _, offset_buffer, data_buffer = strings.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(strings) + 1)
    data = np.frombuffer(data_buffer or b"", np.uint8)[: offsets[-1]]
    if _is_utf8(charset) or (_keeps_ascii(charset) and (data.size == 0 or data.max() < 0x80)):
        return offsets, data
    if _is_single_byte(charset):
        characters = np.concatenate(([0], np.cumsum((data & 0xC0) != 0x80, dtype=np.int32)), dtype=np.int32)
        offsets = characters[offsets]
        try:
            return offsets, np.frombuffer(data.tobytes().decode().encode(charset), np.uint8)
        except UnicodeEncodeError as e:
            row = int(np.searchsorted(offsets, e.start, "right")) - 1
            raise BadValueError(row, f"{e.object[e.start]!r} is not in character set {charset}") from None
    values = []
    for row, value in enumerate(strings.to_pylist()):
        try:
            values.append(value.encode(charset))
        except UnicodeEncodeError as e:
            raise BadValueError(row, f"{value[e.start]!r} is not in character set {charset}") from None
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return offsets, np.frombuffer(b"".join(values), np.uint8)


def _rebased(strings: pa.StringArray) -> pa.StringArray:
    """The same strings with their first offset at 0."""
    return pa.concat_arrays([strings, pa.array([], pa.string())]) if strings.offset else strings


def encode(strings: pa.StringArray, length: int, charset: str) -> Bytes:
    """A column of rows by length bytes, padded with blanks; null is blank.

    Trailing blanks beyond the length are dropped, as they mean nothing. Raises BadValueError for a value that is longer
    or has a character outside the character set.
    """
    trimmed = pc.ascii_rtrim(pc.fill_null(strings, ""), characters=" ")
    offsets, data = _encoded(trimmed, charset)
    sizes = np.diff(offsets)
    refuse_any(sizes > length, f"the value needs more than the variable's {length} bytes in character set {charset}")
    cells = np.full((len(sizes), length), blank(charset), np.uint8)
    cells[np.arange(length, dtype=np.int32) < sizes[:, None]] = data
    return cells


def longest(strings: pa.StringArray, charset: str) -> int:
    """The bytes that the longest value needs in a character set, trailing blanks apart. Raises BadValueError."""
    offsets, _ = _encoded(pc.ascii_rtrim(pc.fill_null(strings, ""), characters=" "), charset)
    return int(np.diff(offsets).max(initial=0))
