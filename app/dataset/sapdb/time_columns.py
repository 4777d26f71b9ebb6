"""Dates, times and timestamps of a column <-> Arrow's.

Each format has a shape: letters where its digits are, and what stands between them. All rows of a column have one
shape, as a session has one format; the caller reads a column that mixes them one value at a time (`Mixed`).
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.codecs.sapdb.constants import DataType
from app.codecs.sapdb.temporal_digits import DateFormat
from app.dataset.conversion_error import BadValueError, refuse_any
from app.dataset.numeric import validity

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]

_ISO_STAMP, _OTHER_STAMP = "YYYY-MM-DD hh:mm:ss.uuuuuu", "YYYY-MM-DD-hh.mm.ss.uuuuuu"

SHAPES: Final[Mapping[int, Mapping[DateFormat, str]]] = {
    DataType.DATE: {
        DateFormat.ISO: "YYYY-MM-DD",
        DateFormat.INTERNAL: "YYYYMMDD",
        DateFormat.USA: "MM/DD/YYYY",
        DateFormat.EUR: "DD.MM.YYYY",
        DateFormat.JIS: "YYYY-MM-DD",
    },
    DataType.TIME: {
        DateFormat.ISO: "hh:mm:ss",
        DateFormat.INTERNAL: "hhhhmmss",
        DateFormat.USA: "hh:mm ?M",
        DateFormat.EUR: "hh.mm.ss",
        DateFormat.JIS: "hh:mm:ss",
    },
    DataType.TIMESTAMP: {
        DateFormat.ISO: _ISO_STAMP,
        DateFormat.INTERNAL: "YYYYMMDDhhmmssuuuuuu",
        DateFormat.USA: _OTHER_STAMP,
        DateFormat.EUR: _OTHER_STAMP,
        DateFormat.JIS: _OTHER_STAMP,
    },
}
"""How the values of each type look in each format. Y, M and D are of dates, h, m, s and u (microseconds) of times;
`?` is the A or the P of a half day. The M after it stands for itself."""

_LETTERS: Final = "YMDhmsu"
_HALF_DAY: Final = "?"
_A, _P, _M_OF_HALF, _BLANK, _0 = b"APM 0"
_DAY_SECONDS: Final = 86_400
_MICROSECONDS: Final = 1_000_000
_YEAR_1970: Final = 1970


class Mixed(Exception):
    """The values of a column do not have one shape, or are no moments."""


def moments(characters: Bytes, absent: Flags, data_type: int, wanted: pa.DataType) -> pa.Array:
    """Return the moments that a column's cells, in ASCII, say as values of the wanted type.

    Raises Mixed where the cells have to be read one by one, and BadValueError for a time that the wanted type does not
    have.
    """
    values = np.zeros(len(characters), np.int64)
    there = np.flatnonzero(~absent)
    if len(there):
        cells = np.ascontiguousarray(characters[there].T)
        parts = _parts(cells, _shape_of(cells, data_type))
        values[there] = _READ[data_type](parts)
    if pa.types.is_time(wanted):
        refuse_any(values >= _DAY_SECONDS * _MICROSECONDS, "the time has more than 24 hours")
    stored = values.astype(np.int32) if wanted.bit_width == 32 else values
    bitmap, nulls = validity(absent)
    return pa.Array.from_buffers(wanted, len(values), [bitmap, pa.py_buffer(stored)], nulls)


def _shape_of(cells: Bytes, data_type: int) -> str:
    """Return the shape of all cells, given as places by rows."""
    first = cells[:, 0].tobytes()
    for shape in dict.fromkeys(SHAPES[data_type].values()):
        if _fits(first, shape):
            break
    else:
        raise Mixed
    if (cells[len(shape) :] != _BLANK).any():
        raise Mixed
    for place, letter in enumerate(shape):
        if not _is_letter(shape, place) and (cells[place] != ord(letter)).any():
            raise Mixed
    return shape


def _fits(cell: bytes, shape: str) -> bool:
    """Tell whether a cell is as long as a shape, and has the same characters between its digits."""
    if len(cell.rstrip(b" ")) != len(shape):
        return False
    return all(_is_letter(shape, place) or cell[place] == ord(letter) for place, letter in enumerate(shape)) and all(
        48 <= cell[place] < 58 for place, letter in enumerate(shape) if _is_digit(shape, place)
    )


def _is_digit(shape: str, place: int) -> bool:
    return shape[place] in _LETTERS and not (place > 0 and shape[place - 1] == _HALF_DAY)


def _is_letter(shape: str, place: int) -> bool:
    return _is_digit(shape, place) or shape[place] == _HALF_DAY


def _parts(cells: Bytes, shape: str) -> dict[str, Numbers]:
    """Return the number that each letter of a shape stands for, and whether it is the second half of a day (`?`)."""
    parts: dict[str, Numbers] = {}
    for place, letter in enumerate(shape):
        if letter == _HALF_DAY:
            if ((cells[place] != _A) & (cells[place] != _P)).any():
                raise Mixed
            parts[letter] = (cells[place] == _P).astype(np.int64)
        elif _is_digit(shape, place):
            digits = cells[place] - np.uint8(_0)
            if (digits > 9).any():
                raise Mixed
            parts[letter] = parts[letter] * 10 + digits if letter in parts else digits.astype(np.int64)
    return parts


def _require(is_right: Flags) -> None:
    if not is_right.all():
        raise Mixed


def _days(parts: Mapping[str, Numbers]) -> Numbers:
    year, month, day = parts["Y"], parts["M"], parts["D"]
    _require((year >= 1) & (month >= 1) & (month <= 12) & (day >= 1))
    months = ((year - _YEAR_1970) * 12 + month - 1).view("M8[M]")
    first = months.astype("M8[D]").view(np.int64)
    following = (months + np.timedelta64(1, "M")).astype("M8[D]").view(np.int64)
    _require(day <= following - first)
    days: Numbers = first + day - 1
    return days


def _clock(parts: Mapping[str, Numbers]) -> Numbers:
    """Return the seconds of a time of day."""
    hours, minutes = parts["h"], parts["m"]
    seconds = parts.get("s", np.zeros(len(hours), np.int64))
    _require((minutes < 60) & (seconds < 60))
    if _HALF_DAY in parts:
        _require((hours >= 1) & (hours <= 12))
        hours = hours % 12 + 12 * parts[_HALF_DAY]
    return hours * 3600 + minutes * 60 + seconds


def _timestamps(parts: Mapping[str, Numbers]) -> Numbers:
    _require(parts["h"] < 24)
    return (_days(parts) * _DAY_SECONDS + _clock(parts)) * _MICROSECONDS + parts["u"]


_READ: Final[Mapping[int, Callable[[Mapping[str, Numbers]], Numbers]]] = {
    DataType.DATE: _days,
    DataType.TIME: lambda parts: _clock(parts) * _MICROSECONDS,
    DataType.TIMESTAMP: _timestamps,
}


# --- writing ----------------------------------------------------------------------------------------------------------


def encode(column: pa.Array, data_type: int, date_format: DateFormat) -> Bytes:
    """Return the characters of moments, in ASCII; those without a value are zeros.

    Raises BadValueError for what the format, or the type, has no place for.
    """
    shape = SHAPES[data_type].get(date_format)
    if shape is None:
        raise BadValueError(0, f"values are not written in the format {date_format.name}")
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    kind = column.type
    wanted = _AS.get(DataType(data_type)) or (pa.time64("us") if pa.types.is_time(kind) else pa.duration("us"))
    try:
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            column = column.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit))
        plain = pc.cast(column, wanted)
    except pa.ArrowInvalid:
        refuse_any(~is_null, "the value is no whole number of days or microseconds")
        raise
    stored = plain.view(pa.int32()) if wanted.bit_width == 32 else plain.view(pa.int64())
    # Days, or microseconds.
    numbers: Numbers = pc.fill_null(stored, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    parts = _WRITE[data_type](numbers, is_null, shape)
    characters = np.empty((len(shape), len(numbers)), np.uint8)
    left = dict(parts)
    for place in range(len(shape) - 1, -1, -1):
        letter = shape[place]
        if letter == _HALF_DAY:
            characters[place] = np.where(left[letter], _P, _A)
        elif _is_digit(shape, place):
            rest = left[letter] // 10
            characters[place] = _0 + (left[letter] - rest * 10)
            left[letter] = rest
        else:
            characters[place] = ord(letter)
    characters[:, is_null] = 0
    return np.ascontiguousarray(characters.T)


_AS: Final = {DataType.DATE: pa.date32(), DataType.TIMESTAMP: pa.timestamp("us")}


def _date_parts(days: Numbers, _is_null: Flags, _shape: str) -> dict[str, Numbers]:
    dates = days.view("M8[D]")
    months = dates.astype("M8[M]")
    year = dates.astype("M8[Y]").view(np.int64) + _YEAR_1970
    refuse_any((year < 1) | (year > 9999), "the year is not from 1 to 9999")
    day = days - months.astype("M8[D]").view(np.int64) + 1
    return {"Y": year, "M": months.view(np.int64) % 12 + 1, "D": day}


def _time_parts(ticks: Numbers, is_null: Flags, shape: str) -> dict[str, Numbers]:
    refuse_any(ticks % _MICROSECONDS != 0, "the time has a fraction of a second, and the type TIME has none")
    seconds = ticks // _MICROSECONDS
    hours, minutes, second = seconds // 3600, seconds // 60 % 60, seconds % 60
    most = 10 ** shape.count("h")
    if _HALF_DAY in shape:
        refuse_any((second != 0) & ~is_null, "the format USA has no seconds")
        most = 24
    refuse_any((seconds < 0) | (hours >= most), f"the time is not from 0 up to {most} hours")
    if _HALF_DAY in shape:
        return {"h": (hours - 1) % 12 + 1, "m": minutes, _HALF_DAY: (hours >= 12).astype(np.int64)}
    return {"h": hours, "m": minutes, "s": second}


def _timestamp_parts(ticks: Numbers, is_null: Flags, shape: str) -> dict[str, Numbers]:
    seconds, fraction = ticks // _MICROSECONDS, ticks % _MICROSECONDS
    days, second = seconds // _DAY_SECONDS, seconds % _DAY_SECONDS
    clock = {"h": second // 3600, "m": second // 60 % 60, "s": second % 60, "u": fraction}
    return _date_parts(days, is_null, shape) | clock


_WRITE: Final[Mapping[int, Callable[[Numbers, Flags, str], dict[str, Numbers]]]] = {
    DataType.DATE: _date_parts,
    DataType.TIME: _time_parts,
    DataType.TIMESTAMP: _timestamp_parts,
}
