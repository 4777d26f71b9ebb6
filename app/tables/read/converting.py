"""Convert columns of any Arrow type to the types of a data set's table.

These are float64, date32, timestamp[us], time64[us], duration[us] and string. A destination that keeps types has
integers, decimals, booleans and byte strings, too.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.dataset import numeric, sas_columns, temporal_columns
from app.dataset.conversion_error import BadValueError, first_uncastable, first_wrong, refuse_any
from app.dataset.format_names import Kind
from app.dataset.temporal_columns import Moment
from app.tables.read import shared_values, typed_texts

Convert = Callable[[pa.Array], pa.Array]
"""A function that converts an array. It raises BadValueError for a value that the other type does not have."""


class Conversion(NamedTuple):
    """The conversion of a column to one of a data set's table.

    It has the resulting type, the function, and a warning that applies whatever the values are.
    """

    data_type: pa.DataType
    convert: Convert
    warning: str = ""
    loses: Callable[[pa.Array], int | None] = lambda _: None
    """The first row of a batch, from 0, with a loss that is worth a warning; `loss` states it."""
    loss: str = ""

    @property
    def is_numeric(self) -> bool:
        return not (pa.types.is_string(self.data_type) or is_bytes(self.data_type))


Make = Callable[[pa.DataType, Kind | None], Conversion]

FRACTIONS = "fractions of a second are lost that a double does not hold"


def conversion(data_type: pa.DataType, kind: Kind | None, *, as_text: bool = False) -> Conversion | None:
    """Return the conversion of a column whose format is of this kind, or None if SAS has no such type."""
    if pa.types.is_dictionary(data_type):
        inner = conversion(data_type.value_type, kind, as_text=as_text)
        if inner is None or sas_columns.is_text(data_type):
            return inner
        loses = inner.loses
        return inner._replace(
            convert=lambda column: inner.convert(column.cast(data_type.value_type)),
            loses=lambda column: loses(column.cast(data_type.value_type)),
        )
    if sas_columns.is_text(data_type):
        return Conversion(pa.string(), _strings)
    if sas_columns.numeric_type(data_type) is None:
        return None
    if as_text:
        return Conversion(pa.string(), _written)
    make = next((make for includes, make in _MAKERS if includes(data_type)), None)
    return Conversion(pa.float64(), _doubles) if make is None else make(data_type, kind)


def kept(data_type: pa.DataType, kind: Kind | None = None, sapdb_type: str = "") -> Conversion | None:
    """Return the conversion of a column for a destination that keeps types; None where it is the one for SAS.

    `sapdb_type` is the type of SAP DB that the values came as, by the metadata of the file. Where SAS's numbers stand
    for its dates or times, they become these again.
    """
    if pa.types.is_dictionary(data_type) and not sas_columns.is_text(data_type):
        inner = kept(data_type.value_type, kind, sapdb_type)
        return inner and inner._replace(convert=lambda column: inner.convert(shared_values.laid_out(column)))
    if pa.types.is_floating(data_type) and (moment := _MOMENTS_OF_SAPDB.get(sapdb_type)) is not None:
        return Conversion(temporal_columns.TYPES[moment], lambda column: _of_sas_numbers(column, moment, sapdb_type))
    make = next((make for includes, make in _KEEPERS if includes(data_type)), None)
    return None if make is None else make(data_type, kind)


def is_bytes(data_type: pa.DataType) -> bool:
    return any(includes(data_type) for includes in _BYTES)


_MOMENTS_OF_SAPDB: Mapping[str, Moment] = {"date": "date32", "time": "duration", "timestamp": "timestamp"}
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_SAFE_DIGITS = 15
_MOST_DIGITS_OF_128_BITS = 38
_WIDEST_INTEGERS = pa.decimal256(76)
_TICKS_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_MICROSECONDS = 1_000_000
_BEYOND_CALENDAR = "<value out of range"
_ROUNDED = "the number has more digits than a double holds"
_ZONE = "SAS has no time zones: the times are sent in UTC"


def _texts(column: pa.Array) -> pa.StringArray:
    return pc.ascii_rtrim(sas_columns.strings(shared_values.laid_out(column)), characters=" ")


def _of_sas_numbers(column: pa.Array, moment: Moment, sapdb_type: str) -> pa.Array:
    """Return numbers of SAS as the dates or times that they stand for."""
    values = sas_columns.doubles(column)
    absent = ~np.isfinite(values)

    def converted(low: int, high: int) -> pa.Array | None:
        return temporal_columns.to_arrow(numeric.Numbers(values[low:high], absent[low:high]), moment)

    found = converted(0, len(values))
    if found is None:
        row = first_wrong(len(values), lambda low, high: converted(low, high) is None)
        why = (
            f"the file says that this is a {sapdb_type.upper()}, but {float(values[row])!r} is not SAS's number of one"
        )
        raise BadValueError(row, why)
    return found


def _whole(column: pa.Array) -> pa.Array:
    """Return dates or times that have no fraction of a microsecond. Raises BadValueError."""
    if not pa.types.is_date(column.type) and column.type.unit == "ns":
        ticks: NDArray[np.int64] = pc.fill_null(column.view(pa.int64()), 0).to_numpy(False)
        refuse_any(ticks % 1000 != 0, "the time has a fraction of a microsecond, and the destination has none")
    return column


def _strings(column: pa.Array) -> pa.StringArray:
    return pc.fill_null(_texts(column), "")


def _written(column: pa.Array) -> pa.StringArray:
    """Return values as text. Arrow writes a remark in place of dates that its calendar does not have."""
    strings = _strings(_cast(column, pa.string()))
    if (row := _first(pc.starts_with(strings, _BEYOND_CALENDAR))) is not None:
        raise BadValueError(row, f"the value is beyond the calendar: {strings[row]}")
    return strings


def _doubles(column: pa.Array) -> pa.DoubleArray:
    if pa.types.is_decimal(column.type) and column.type.scale <= 0:
        digits = column.type.precision - column.type.scale
        # Arrow computes only with decimals of 128 and 256 bits.
        wide = pa.decimal128(_MOST_DIGITS_OF_128_BITS) if digits <= _MOST_DIGITS_OF_128_BITS else _WIDEST_INTEGERS
        column = _cast(column, wide)
        if digits > _SAFE_DIGITS:
            beyond = pc.greater(pc.abs(column), pa.scalar(numeric.MAX_EXACT, wide))
            if (row := _first(beyond)) is not None:
                raise BadValueError(row, "the integer is beyond 2^53, where doubles lose exactness")
        column = pc.cast(column, pa.int64())
    return pa.array(sas_columns.doubles(column), pa.float64(), from_pandas=True)


def _beyond_doubles(column: pa.Array) -> int | None:
    """Return the first row of a decimal column that a double changes."""
    if column.type.precision <= _SAFE_DIGITS or column.type.scale <= 0:
        return None
    again = pc.cast(_doubles(column), column.type, safe=False)
    suspects = np.flatnonzero(pc.fill_null(pc.not_equal(again, column), fill_value=False).to_numpy(False))
    return next((int(row) for row in suspects if typed_texts.is_rounded(str(column[int(row)]))), None)


def _first(wrong: pa.BooleanArray) -> int | None:
    return pc.index(wrong, pa.scalar(value=True)).as_py() if pc.any(wrong).as_py() else None


def _cast(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return the column in another type, with times truncated.

    Raises BadValueError for a value beyond the type's range.
    """
    options = pc.CastOptions(data_type, allow_time_truncate=True)
    try:
        return pc.cast(column, options=options)
    except pa.ArrowInvalid:
        row = first_uncastable(column, options)
    raise BadValueError(row, f"the value is beyond the range of {data_type}")


def _of_dates(_: pa.DataType, kind: Kind | None) -> Conversion:
    if kind == "datetime":
        return Conversion(pa.timestamp("us"), lambda column: _cast(_days(column), pa.timestamp("us")))
    return Conversion(pa.date32(), _days)


def _days(column: pa.Array) -> pa.Date32Array:
    """Return dates or instants as days. Arrow casts them without checking the range."""
    if column.type == pa.date32():
        return column
    ticks, a_day = _ticks(column)
    days = ticks // a_day
    refuse_any(days != days.astype(np.int32), f"the value is beyond the range of {pa.date32()}")
    return pa.array(days.astype(np.int32), pa.date32(), mask=column.is_null().to_numpy(zero_copy_only=False))


def _ticks(column: pa.Array) -> tuple[NDArray[np.int64], int]:
    """Return the ticks of a column of date64 or timestamps, and the number of ticks in a day."""
    unit = "ms" if pa.types.is_date64(column.type) else column.type.unit
    ticks: NDArray[np.int64] = pc.fill_null(pc.cast(column, pa.int64()), 0).to_numpy(zero_copy_only=False)
    return ticks, _TICKS_A_DAY[unit]


def _of_timestamps(data_type: pa.TimestampType, kind: Kind | None) -> Conversion:
    """Return the conversion of timestamps. Those with a zone are in UTC already: only the zone's name is dropped."""
    local = pa.timestamp(data_type.unit)
    warning = _ZONE if data_type.tz else ""

    def midnights(column: pa.Array) -> pa.Date32Array:
        ticks, a_day = _ticks(column.view(local))
        why = "the format is for dates, but the value has a time of day; use a datetime format"
        refuse_any(ticks % a_day != 0, why)
        return _days(column.view(local))

    if kind == "date":
        return Conversion(pa.date32(), midnights, warning)
    return Conversion(
        pa.timestamp("us"),
        lambda column: _cast(column.view(local), pa.timestamp("us")),
        warning,
        lambda column: _lost_fraction(column.view(local), temporal_columns.SECONDS_1960_TO_1970),
        FRACTIONS,
    )


def _lost_fraction(column: pa.Array, origin: int = 0) -> int | None:
    """Return the first row with a fraction that is lost: below a microsecond, or below what a double of seconds, from
    `origin` seconds before the epoch on, distinguishes."""
    a_second = _TICKS_A_DAY[column.type.unit] // temporal_columns.SECONDS_A_DAY
    if a_second < _MICROSECONDS:
        return None
    ticks: NDArray[np.int64] = pc.fill_null(column.view(pa.int64()), 0).to_numpy(False)
    ticks, fraction = np.divmod(ticks, a_second // _MICROSECONDS)
    lost = (fraction != 0) | ~temporal_columns.holds(ticks, origin)
    return int(np.argmax(lost)) if lost.any() else None


def _of_spans(data_type: pa.DataType) -> Make:
    return lambda _, __: Conversion(data_type, lambda column: _cast(column, data_type), "", _lost_fraction, FRACTIONS)


_MAKERS: tuple[tuple[Callable[[pa.DataType], bool], Make], ...] = (
    (pa.types.is_date, _of_dates),
    (pa.types.is_timestamp, _of_timestamps),
    (pa.types.is_time, _of_spans(pa.time64("us"))),
    (pa.types.is_duration, _of_spans(pa.duration("us"))),
    (pa.types.is_decimal, lambda _, __: Conversion(pa.float64(), _doubles, "", _beyond_doubles, _ROUNDED)),
)


def _kept_moments(data_type: pa.DataType, kind: Kind | None) -> Conversion:
    plain = next(make for includes, make in _MAKERS if includes(data_type))(data_type, kind)
    return plain._replace(convert=lambda column: plain.convert(_whole(column)), loses=lambda _: None)


def _has_128_bits(data_type: pa.DataType) -> bool:
    """Tell whether a type is one of decimals that a column of 128 bits holds."""
    if not pa.types.is_decimal(data_type):
        return False
    return bool(data_type.precision <= _MOST_DIGITS_OF_128_BITS and data_type.scale >= 0)


def _unchanged(data_type: pa.DataType, _kind: Kind | None) -> Conversion:
    return Conversion(data_type, lambda column: column)


_KEEPERS: tuple[tuple[Callable[[pa.DataType], bool], Make], ...] = (
    (sas_columns.is_text, lambda _, __: Conversion(pa.string(), _texts)),
    (pa.types.is_binary_view, lambda _, __: Conversion(pa.binary(), shared_values.laid_out)),
    (pa.types.is_temporal, _kept_moments),
    (pa.types.is_boolean, _unchanged),
    (pa.types.is_integer, _unchanged),
    (_has_128_bits, _unchanged),
    (is_bytes, _unchanged),
)
