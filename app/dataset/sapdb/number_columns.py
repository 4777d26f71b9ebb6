"""Numbers (VDN) of a column <-> Arrow decimals and doubles.

`app.codecs.sapdb.numbers` says what a number is. Numbers of up to 18 digits are integers of 64 bits on their way;
longer ones, and floating-point ones, are decimal texts, which Arrow reads and writes exactly. Digits are arrays of
places by rows, so that each step runs along the rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.codecs.sapdb.numbers import MOST_DIGITS, field_size
from app.dataset.character_columns import buffers
from app.dataset.conversion_error import BadValueError, first_uncastable, refuse_any
from app.dataset.numeric import validity

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_ZERO, _POSITIVE, _NEGATIVE = 0x80, 0xC0, 0x40
_MOST_EXPONENT: Final = 63
_MOST_BYTES: Final = MOST_DIGITS // 2
_SHORT: Final = 18
"""Digits that an integer of 64 bits has room for."""
_AT_ONCE: Final = 8192
"""Rows that are looked at together, so that their digits stay in the processor's cache."""

_NO_PAIR: Final = 0xFF
_PAIRS: Final = np.array(
    [high * 10 + low if high < 10 and low < 10 else _NO_PAIR for high in range(16) for low in range(16)], np.uint8
)
"""By byte: the number of its two decimal digits."""
_PACKED: Final = np.array([tens << 4 | ones for tens in range(10) for ones in range(10)], np.uint8)
"""By number below 100: the byte of its two decimal digits."""
_POWERS: Final = 10 ** np.arange(_SHORT + 1, dtype=np.int64)
_0, _POINT, _MINUS, _PLUS, _E = b"0.-+e"


# --- reading ----------------------------------------------------------------------------------------------------------


class _Read(NamedTuple):
    """Cells taken apart: the pairs of digits of each mantissa, a row of the array for each place; the exponent, and the
    sign. A number is 0.DDDD x 10^exponent; the pairs of a negative one are the complement still."""

    pairs: Bytes
    exponent: Integers
    is_negative: Flags


def decimals(cells: Bytes, absent: Flags, length: int, frac: int) -> pa.Array:
    """Return numbers of type fixed(length, frac) as decimals. Raises BadValueError for bytes that are no number, and
    for numbers that the type does not have."""
    wanted = pa.decimal128(length, frac)
    words = np.zeros((len(cells), 2), np.int64)
    for at in range(0, len(cells), _AT_ONCE):
        some = slice(at, at + _AT_ONCE)
        with _from_row(at):
            read = _read(cells[some], absent[some])
            # Neither way of reading is made for numbers that are far from the digits of the type.
            if (may_be_large := read.exponent > length - frac).any():
                is_large = may_be_large & (read.exponent - _leading_zeros(read) > length - frac)
                refuse_any(is_large, f"the number does not fit fixed({length},{frac})")
            is_small = (read.exponent <= -frac) & read.pairs.any(axis=0)
            refuse_any(is_small, f"the number has more than {frac} digits after the decimal point")
            if length > _SHORT or len(read.pairs) > _SHORT // 2:
                words[some] = np.frombuffer(_converted(read, wanted).buffers()[1], np.int64).reshape(-1, 2)
            else:
                words[some, 0] = scaled = _scaled(read, frac)
                words[some, 1] = scaled >> 63
    bitmap, nulls = validity(absent)
    return pa.Array.from_buffers(wanted, len(cells), [bitmap, pa.py_buffer(words)], nulls)


def doubles(cells: Bytes, absent: Flags) -> pa.Array:
    """Return numbers as the doubles that are nearest. Raises BadValueError for bytes that are no number."""
    values = np.zeros(len(cells), np.float64)
    for at in range(0, len(cells), _AT_ONCE):
        some = slice(at, at + _AT_ONCE)
        with _from_row(at):
            values[some] = _converted(_read(cells[some], absent[some]), pa.float64()).to_numpy()
    bitmap, nulls = validity(absent)
    return pa.Array.from_buffers(pa.float64(), len(cells), [bitmap, pa.py_buffer(values)], nulls)


@contextmanager
def _from_row(first: int) -> Iterator[None]:
    """Count the row of a bad value from the beginning of its column."""
    try:
        yield
    except BadValueError as error:
        raise BadValueError(first + error.row, error.why) from None


def _read(cells: Bytes, absent: Flags) -> _Read:
    if not cells.shape[1]:
        refuse_any(~absent, "the number has no bytes")
        zeros = np.zeros(len(cells), np.int64)
        return _Read(np.zeros((1, len(cells)), np.uint8), zeros, zeros != 0)
    first, mantissa = cells[:, 0], np.ascontiguousarray(cells[:, 1 : 1 + _MOST_BYTES].T)
    nothing = absent | (first == _ZERO)
    pairs = _PAIRS[mantissa]
    if nothing.any():
        pairs[:, nothing] = 0
    refuse_any(pairs.max(axis=0, initial=0) == _NO_PAIR, "the number has bytes that are not two decimal digits")
    refuse_any(~nothing & ((first == 0) | ~pairs.any(axis=0)), "the number has no characteristic or no digits")
    if cells.shape[1] > 1 + _MOST_BYTES:
        too_long = ~nothing & cells[:, 1 + _MOST_BYTES :].any(axis=1)
        refuse_any(too_long, f"the number has more than {MOST_DIGITS} digits")
    is_negative = (first < _ZERO) & ~nothing
    signed = first.astype(np.int64)
    exponent = np.where(is_negative, _NEGATIVE - signed, signed - _POSITIVE)
    exponent[nothing] = 0
    return _Read(pairs, exponent, is_negative)


def _scaled(read: _Read, frac: int) -> Integers:
    """Return numbers of up to 18 digits as integers of 10^-frac. Raises BadValueError for more digits after the
    point."""
    digits = 2 * len(read.pairs)
    mantissa = np.zeros(read.pairs.shape[1], np.int64)
    for pair in read.pairs:
        mantissa *= 100
        mantissa += pair
    np.subtract(_POWERS[digits], mantissa, out=mantissa, where=read.is_negative)
    shift = np.where(mantissa != 0, read.exponent + (frac - digits), 0)
    divisor = _POWERS[np.clip(-shift, 0, _SHORT)]
    scaled: Integers = mantissa // divisor
    refuse_any(scaled * divisor != mantissa, f"the number has more than {frac} digits after the decimal point")
    scaled *= _POWERS[np.clip(shift, 0, _SHORT)]
    np.negative(scaled, out=scaled, where=read.is_negative)
    return scaled


def _converted(read: _Read, wanted: pa.DataType) -> pa.Array:
    # Arrow converts texts of one width, such as -0.4711e+04.
    width, rows = 2 * len(read.pairs), read.pairs.shape[1]
    characters = np.empty((width + 7, rows), np.uint8)
    characters[0] = np.where(read.is_negative, _MINUS, _0)
    characters[1], characters[2] = _0, _POINT
    digits = characters[3 : 3 + width]
    _write_digits(read, digits)
    digits += _0
    characters[-4] = _E
    characters[-3] = np.where(read.exponent < 0, _MINUS, _PLUS)
    size = np.abs(read.exponent)
    characters[-2], characters[-1] = _0 + size // 10, _0 + size % 10
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width + 7)
    data = np.ascontiguousarray(characters.T)
    texts = pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(data))
    try:
        return pc.cast(texts, wanted)
    except pa.ArrowInvalid:
        raise BadValueError(
            first_uncastable(texts, pc.CastOptions.safe(wanted)), f"the number does not fit {wanted}"
        ) from None


def _leading_zeros(read: _Read) -> Integers:
    """Return how many digits before the first one of each number are zeros."""
    digits = np.empty((2 * len(read.pairs), read.pairs.shape[1]), np.uint8)
    _write_digits(read, digits)
    zeros: Integers = (digits != 0).argmax(axis=0)
    return zeros


def _write_digits(read: _Read, digits: Bytes) -> None:
    """Write the decimal digits of numbers, a row of the array for each place."""
    np.floor_divide(read.pairs, 10, out=digits[0::2])
    np.subtract(read.pairs, digits[0::2] * 10, out=digits[1::2])
    _complement(digits, read.is_negative)


def _complement(digits: Bytes, rows: Flags) -> None:
    """Replace digits by their ten's complement in these rows: from 10 for the last one that is not 0, from 9 for those
    before it."""
    if not rows.any():
        return
    seen = np.zeros(len(rows), np.bool_)
    flips = rows.view(np.uint8)
    for place in digits[::-1]:
        # Where a row is not to be turned, or only zeros have come, the digit stays.
        turned = (9 + (~seen).view(np.uint8) - place) * (seen | (place != 0))
        np.logical_or(seen, place, out=seen)
        np.add(place, (turned - place) * flips, out=place)


# --- writing ----------------------------------------------------------------------------------------------------------


class _Digits(NamedTuple):
    """Numbers of a column: their digits, a row of the array for each place, the first one not 0 unless the number is;
    the exponent, and the sign. A number is 0.DDDD x 10^exponent."""

    digits: Bytes
    exponent: Integers
    is_negative: Flags


def encode(column: pa.Array, length: int, frac: int | None) -> Bytes:
    """Return the cells of numbers of type fixed(length, frac), or float(length) where `frac` is None; those without a
    value are zeros.

    Raises BadValueError for a number that its type does not have: one that overflows, and one that is not finite.
    Digits that the type has no room for are rounded as the kernel rounds.
    """
    cells = np.zeros((len(column), field_size(length)), np.uint8)
    for at in range(0, len(column), _AT_ONCE):
        with _from_row(at):
            some, place = column.slice(at, _AT_ONCE), cells[at : at + _AT_ONCE]
            if length <= _SHORT and (integers := _integers(some, frac)) is not None:
                _put_integers(integers, length, frac or 0, place)
            else:
                _put_digits(_digits(some), length, frac, place)
            if some.null_count:
                place[some.is_null().to_numpy(zero_copy_only=False)] = 0
    return cells


def _integers(column: pa.Array, frac: int | None) -> Integers | None:
    """Return numbers of a fixed point as integers of 10^-frac, where they are that in 64 bits; None where they are
    not."""
    kind = column.type
    if pa.types.is_decimal128(kind) and kind.scale == frac and kind.precision <= _SHORT:
        if column.null_count:
            column = pc.if_else(column.is_valid(), column, pa.scalar(0, kind))
        words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
        return words[column.offset : column.offset + len(column), 0]
    if pa.types.is_integer(kind) and frac == 0 and (pa.types.is_signed_integer(kind) or kind.bit_width < 64):
        integers: Integers = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        return integers
    return None


def _put_integers(values: Integers, length: int, frac: int, cells: Bytes) -> None:
    sizes = np.abs(values)
    refuse_any((sizes >= _POWERS[length]) | (sizes < 0), f"the number does not fit fixed({length},{frac})")
    digits = np.searchsorted(_POWERS, sizes, side="right")
    width = 2 * (cells.shape[1] - 1)
    mantissa = sizes * _POWERS[width - digits]
    is_negative = values < 0
    np.subtract(_POWERS[width], mantissa, out=mantissa, where=is_negative)
    exponent = digits - frac
    cells[:, 0] = np.where(is_negative, _NEGATIVE - exponent, _POSITIVE + exponent)
    cells[:, 0][values == 0] = _ZERO
    for place in range(width // 2, 0, -1):
        rest = mantissa // 100
        cells[:, place] = _PACKED[mantissa - rest * 100]
        mantissa = rest


def _put_digits(read: _Digits, length: int, frac: int | None, cells: Bytes) -> None:
    digits, exponent, is_negative = _rounded(read, length if frac is None else read.exponent + frac)
    is_zero = ~digits.any(axis=0)
    most = _MOST_EXPONENT if frac is None else length - frac
    kind = f"float({length})" if frac is None else f"fixed({length},{frac})"
    overflows = (exponent > most) | (exponent < -_MOST_EXPONENT)
    refuse_any(overflows & ~is_zero, f"the number does not fit {kind}")
    is_negative = is_negative & ~is_zero
    width = 2 * (cells.shape[1] - 1)
    places = np.zeros((width, len(cells)), np.uint8)
    places[: len(digits)] = digits[:width]
    _complement(places, is_negative)
    cells[:, 0] = np.where(is_negative, _NEGATIVE - exponent, _POSITIVE + exponent)
    cells[:, 0][is_zero] = _ZERO
    cells[:, 1:] = (places[0::2] << 4 | places[1::2]).T


def _rounded(read: _Digits, keep: Integers | int) -> _Digits:
    """Return numbers with no more digits than these, rounded half away from zero."""
    digits, exponent, is_negative = read
    behind = (np.arange(len(digits))[:, None] >= keep) & (digits != 0)
    rows = np.flatnonzero(behind.any(axis=0))
    if not len(rows):
        return read
    digits, exponent = digits.copy(), exponent.copy()
    for row, wanted in zip(rows, np.broadcast_to(keep, len(exponent))[rows], strict=True):
        kept = max(int(wanted), 0)
        up = wanted >= 0 and digits[kept, row] >= 5
        number = int("0" + "".join(map(str, digits[:kept, row]))) + bool(up)
        # One digit more than were kept, where all of them were 9.
        exponent[row] += len(str(number)) - kept if number else 0
        text = str(number).rstrip("0")
        digits[:, row] = 0
        digits[: len(text), row] = [int(each) for each in text]
    return _Digits(digits, exponent, is_negative)


def _digits(column: pa.Array) -> _Digits:
    """Return the digits of numbers of any type, by the texts that Arrow writes of them: the shortest of a double."""
    if pa.types.is_floating(column.type):
        finite = pc.is_finite(column).fill_null(fill_value=True).to_numpy(zero_copy_only=False)
        refuse_any(~finite, "a number that is not finite has no place in the order interface")
    texts = pc.fill_null(pc.cast(column, pa.string()), "0")
    ends, data = buffers(texts)
    sizes = np.diff(ends).astype(np.uint8)
    width = max(int(sizes.max(initial=0)), 1)
    rows = np.zeros((len(texts), width), np.uint8)
    rows[np.arange(width, dtype=np.uint8) < sizes[:, None]] = data

    by_place = np.ascontiguousarray(rows.T)
    numbers = by_place - np.uint8(_0)
    are_digits = numbers < 10
    is_mark = (by_place | 0x20) == _E
    marked = is_mark.any(axis=0)
    if marked.any():
        are_digits &= ~_from_first(is_mark)
    begun = _from_first(are_digits & (numbers != 0))
    kept = are_digits & begun
    counts = kept.sum(axis=0, dtype=np.uint8)
    packed = np.zeros((len(texts), max(int(counts.max(initial=0)), 1)), np.uint8)
    packed[np.arange(packed.shape[1], dtype=np.uint8) < counts[:, None]] = rows[kept.T] - np.uint8(_0)
    whole = are_digits & ~_from_first(by_place == _POINT)
    exponent = whole.sum(axis=0, dtype=np.int64) - (are_digits & ~begun).sum(axis=0, dtype=np.int64)
    if marked.any():
        found = pc.extract_regex(texts.filter(pa.array(marked)), r"[eE]\+?(?P<power>-?\d+)$")
        exponent[marked] += pc.cast(pc.struct_field(found, "power"), pa.int64()).to_numpy(zero_copy_only=False)
    exponent[counts == 0] = 0
    return _Digits(np.ascontiguousarray(packed.T), exponent, by_place[0] == _MINUS)


def _from_first(flags: Flags) -> Flags:
    """Return the flags of places by rows, set from the first one on that is."""
    for before, place in pairwise(flags):
        np.logical_or(before, place, out=place)
    return flags
