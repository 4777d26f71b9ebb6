"""Convert SAS's dates, datetimes and times to Arrow's if that is exact.

SAS counts days and seconds since 1960 in floats. A number is exactly a time of whole microseconds if it is the double
nearest to that time. IBM's arithmetic does not round: an IBM float may also be the time cut off after 56 bits. Dates
are limited to the years 1 to 9999, which have an ISO 8601 form.
"""

from collections.abc import Callable, Mapping
from datetime import date
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.dataset import numeric
from app.dataset.numeric import Doubles, FloatFormat, Numbers

Moment = Literal["date32", "timestamp", "time64", "duration"]
"""An Arrow type of dates, times or durations, by its name."""

DAYS_1960_TO_1970 = 3653
SECONDS_A_DAY = 86_400
SECONDS_1960_TO_1970 = DAYS_1960_TO_1970 * SECONDS_A_DAY

_MICROSECONDS = 1_000_000
_STEP = 40
"""In bits. A million shifted by as many is within 64 bits."""
_ORIGIN = date(1960, 1, 1)
_FIRST_DAY, _LAST_DAY = (date.min - _ORIGIN).days, (date.max - _ORIGIN).days
_LONGEST_SPAN = 1 << 42
"""In seconds. As microseconds they are far from the limit of 64 bits."""

TYPES: Mapping[Moment, pa.DataType] = {
    "date32": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "time64": pa.time64("us"),
    "duration": pa.duration("us"),
}


def seconds(ticks: NDArray[np.int64], a_second: int, origin: int = 0) -> Doubles:
    """Return ticks as the nearest double, in seconds since `origin` seconds before their own epoch.

    Ticks up to 2^53 are exact in a double, and are divided at once. More ticks are so many seconds that the fraction,
    although it is rounded before it is added, never changes which double is nearest.
    """
    whole, fraction = np.divmod(ticks, a_second)
    whole += origin
    doubles: Doubles = (whole * a_second + fraction) / a_second
    many = np.abs(whole) >= numeric.MAX_EXACT // a_second
    if many.any():
        doubles[many] = whole[many] + fraction[many] / a_second
    return doubles


def holds(ticks: NDArray[np.int64], origin: int = 0) -> NDArray[np.bool_]:
    """Tell which microseconds a double of seconds, since `origin` seconds before their own epoch, distinguishes."""
    held: NDArray[np.bool_] = _nearest(seconds(ticks, _MICROSECONDS, origin), origin) == ticks
    return held


def to_arrow(numbers: Numbers, moment: Moment) -> pa.Array | None:
    """Return the column as Arrow dates, times or durations, or None if a number has no exact counterpart."""
    values = numbers.doubles if numbers.absent is None else np.where(numbers.absent, 0.0, numbers.doubles)
    stored = _STORED[moment](values, numbers.float_format)
    if stored is None:
        return None
    validity, nulls = numeric.validity(numbers.absent)
    return pa.Array.from_buffers(TYPES[moment], len(values), [validity, pa.py_buffer(stored)], nulls)


def _days(values: Doubles, _float_format: FloatFormat) -> NDArray[np.int32] | None:
    if not _within(values, _FIRST_DAY, _LAST_DAY):
        return None
    days = values.astype(np.int32)
    return days - np.int32(DAYS_1960_TO_1970) if (days == values).all() else None


def _instants(values: Doubles, float_format: FloatFormat) -> NDArray[np.int64] | None:
    if not _within(values, _FIRST_DAY * SECONDS_A_DAY, (_LAST_DAY + 1) * SECONDS_A_DAY, but_last=True):
        return None
    ticks = _ticks(values, float_format)
    return None if ticks is None else ticks - SECONDS_1960_TO_1970 * _MICROSECONDS


def _times_of_day(values: Doubles, float_format: FloatFormat) -> NDArray[np.int64] | None:
    return _ticks(values, float_format) if _within(values, 0, SECONDS_A_DAY, but_last=True) else None


def _durations(values: Doubles, float_format: FloatFormat) -> NDArray[np.int64] | None:
    return _ticks(values, float_format) if _within(values, -_LONGEST_SPAN, _LONGEST_SPAN) else None


_STORED: Mapping[Moment, Callable[[Doubles, FloatFormat], NDArray[np.int32] | NDArray[np.int64] | None]] = {
    "date32": _days,
    "timestamp": _instants,
    "time64": _times_of_day,
    "duration": _durations,
}


def _within(values: Doubles, low: float, high: float, *, but_last: bool = False) -> bool:
    if not len(values):
        return True
    greatest = values.max()
    return bool(values.min() >= low and (greatest < high or (greatest == high and not but_last)))


def _ticks(values: Doubles, float_format: FloatFormat) -> NDArray[np.int64] | None:
    """Return microseconds, or None if they are not exactly these seconds."""
    whole = values.astype(np.int64)
    if (whole == values).all():
        return whole * _MICROSECONDS
    ticks = _nearest(values)
    others = np.flatnonzero(seconds(ticks, _MICROSECONDS) != values)
    if not others.size:
        return ticks
    return ticks if float_format == "ibm" and (_cut_to_ibm(ticks[others]) == values[others]).all() else None


def _nearest(values: Doubles, origin: int = 0) -> NDArray[np.int64]:
    """Return the microseconds nearest to these seconds, which count from `origin` seconds before."""
    whole = np.floor(values).astype(np.int64)
    ticks: NDArray[np.int64] = (whole - origin) * _MICROSECONDS
    return ticks + np.rint((values - whole) * _MICROSECONDS).astype(np.int64)


def _cut_to_ibm(ticks: NDArray[np.int64]) -> Doubles:
    """Return microseconds as seconds in IBM floats, cut off after 14 hexadecimal digits, and read as doubles."""
    whole, fraction = np.divmod(np.abs(ticks), _MICROSECONDS)
    _, exponent = np.frexp(np.where(whole, whole, fraction / _MICROSECONDS))
    bits = 56 - (exponent.astype(np.int64) + 3) // 4 * 4
    # These are the bits after the point. The division is in two steps, as a fraction shifted by so many would overflow.
    high, rest = np.divmod(fraction << _STEP, _MICROSECONDS)
    more, fewer = np.maximum(bits - _STEP, 0), np.maximum(_STEP - bits, 0)
    cut = (whole << bits) + (((high << more) + (rest << more) // _MICROSECONDS) >> fewer)
    doubles: Doubles = np.ldexp(cut.astype(np.float64), -bits)
    return np.copysign(doubles, ticks)
