"""Texts and byte strings of a column <-> Arrow strings and binaries.

Texts are padded with blanks, byte strings with zeros. Blanks after texts are therefore not kept; nor are zeros after
the byte strings whose length varies.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.dataset import character_columns
from app.dataset.conversion_error import refuse_any
from app.dataset.numeric import validity
from app.wire.kinds import Order

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]

_UNIT: Final = 2
_UCS2: Final[dict[str, Order]] = {"utf-16-le": "<", "utf-16-be": ">"}
"""The codecs whose characters have two bytes, or four, and their byte order."""
_HIGH, _LOW, _PLAIN = 0xD800, 0xDC00, 0xE000
"""Where the first and the second halves of pairs of units begin, and where these end."""


def strings(cells: Bytes, absent: Flags, codec: str) -> pa.StringArray:
    """Return the texts of a column's cells. Raises BadValueError for bytes that the codec does not have."""
    if not cells.shape[1]:
        return _with_nulls(pa.array([""] * len(cells), pa.string()), absent)
    if codec in _UCS2:
        return _with_nulls(_wide_strings(cells, absent, _UCS2[codec]), absent)
    found = character_columns.read(cells, codec)
    if found.damaged is not None:
        refuse_any(found.damaged.is_valid().to_numpy(zero_copy_only=False) & ~absent, f"bytes that {codec} lacks")
    return _with_nulls(found.strings, absent)


def _wide_strings(cells: Bytes, absent: Flags, order: Order) -> pa.StringArray:
    if cells.shape[1] % _UNIT:
        refuse_any(~absent, f"{cells.shape[1]} bytes are no characters of two bytes")
        return pa.array([""] * len(cells), pa.string())
    units = np.ascontiguousarray(cells).view(f"{order}u2")
    if absent.any():
        units = units.copy()
        units[absent] = 0
    if units.max(initial=0) < 0x80:
        return character_columns.read(units.astype(np.uint8), "ascii").strings
    is_high = (units >= _HIGH) & (units < _LOW)
    is_low = (units >= _LOW) & (units < _PLAIN)
    # Pairs do not reach from one cell into the next.
    follows = np.zeros(is_low.shape, np.bool_)
    follows[:, 1:] = is_high[:, :-1]
    refuse_any((follows != is_low).any(axis=1) | is_high[:, -1], "half a pair of UTF-16 units")
    sizes = 1 + (units >= 0x80).astype(np.int32) + (units >= 0x800)
    sizes[is_high | is_low] = 2
    ends = np.zeros(len(cells) + 1, np.int32)
    np.cumsum(sizes.sum(axis=1), out=ends[1:])
    data = units.tobytes().decode(f"utf-16-{'le' if order == '<' else 'be'}").encode()
    joined = pa.StringArray.from_buffers(len(cells), pa.py_buffer(ends), pa.py_buffer(data))
    return pc.ascii_rtrim(joined, characters=" ")


def binaries(cells: Bytes, absent: Flags, *, trimmed: bool) -> pa.BinaryArray:
    """Return the byte strings of a column's cells, without the zeros after them where they are to be trimmed."""
    rows, width = cells.shape
    sizes = np.full(rows, width, np.int32)
    if trimmed and width:
        is_set = cells != 0
        last = width - np.argmax(is_set[:, ::-1], axis=1).astype(np.int32)
        sizes = np.where(is_set.any(axis=1), last, 0)
    ends = np.zeros(rows + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    data = cells[np.arange(width) < sizes[:, None]] if trimmed else np.ascontiguousarray(cells)
    bitmap, nulls = validity(absent)
    return pa.Array.from_buffers(pa.binary(), rows, [bitmap, pa.py_buffer(ends), pa.py_buffer(data)], nulls)


def _with_nulls(array: pa.StringArray, absent: Flags) -> pa.StringArray:
    bitmap, nulls = validity(absent)
    if not nulls:
        return array
    return pa.Array.from_buffers(pa.string(), len(array), [bitmap, *array.buffers()[1:]], nulls, array.offset)


def encode_strings(column: pa.StringArray, width: int, codec: str) -> Bytes:
    """Return the cells of texts, padded with blanks to `width` bytes. Raises BadValueError for a text that is longer,
    or has a character that the codec lacks."""
    if codec not in _UCS2:
        return character_columns.encode(column, width, codec)
    cells = np.full((len(column), width // _UNIT), ord(" "), f"{_UCS2[codec]}u2")
    column = pc.ascii_rtrim(pc.fill_null(column, ""), characters=" ")
    _, characters = character_columns.buffers(column)
    data = np.frombuffer(characters.tobytes().decode().encode(codec), f"{_UCS2[codec]}u2")
    sizes = wide_lengths(column)
    refuse_any(sizes > cells.shape[1], f"the value needs more than the column's {cells.shape[1]} characters")
    cells[np.arange(cells.shape[1]) < sizes[:, None]] = data
    return cells.view(np.uint8).reshape(len(column), width // _UNIT * _UNIT)


def wide_lengths(column: pa.StringArray) -> NDArray[np.int64]:
    """Return the units of UTF-16 that each text takes; none for a null."""
    column = pc.fill_null(column, "")
    characters = pc.utf8_length(column)
    if pc.all(pc.string_is_ascii(column)).as_py() is False:
        characters = pc.add(characters, pc.count_substring_regex(column, "[\U00010000-\U0010ffff]"))
    units: NDArray[np.int64] = characters.to_numpy(zero_copy_only=False).astype(np.int64)
    return units


def encode_binaries(column: pa.BinaryArray, width: int, *, trimmed: bool) -> Bytes:
    """Return the cells of byte strings, padded with zeros to `width` bytes.

    Raises BadValueError for one that is longer, and for one whose end looks like padding.
    """
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    column = pc.fill_null(column.cast(pa.binary()), b"")
    ends, data = character_columns.buffers(column)
    sizes = np.diff(ends)
    refuse_any(sizes > width, f"the value has more than the column's {width} bytes")
    if trimmed:
        ends_in_zero = np.zeros(len(sizes), np.bool_)
        ends_in_zero[sizes > 0] = data[ends[1:][sizes > 0] - 1] == 0
        refuse_any(ends_in_zero, "zeros at the end of a byte string look like its padding")
    else:
        refuse_any((sizes < width) & ~is_null, _NOT_WHOLE)
    cells = np.zeros((len(column), width), np.uint8)
    cells[np.arange(width) < sizes[:, None]] = data
    return cells


_NOT_WHOLE: Final = "the value has fewer bytes than its column, whose byte strings have one length"
