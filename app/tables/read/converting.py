"""Columns of any Arrow type -> those that a data set's table has: float64, date32, timestamp[us], time64[us],
duration[us] and string."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.dataset import columns
from app.dataset.errors import BadValueError
from app.dataset.kinds import Kind
from app.tables.read import texts

Convert = Callable[[pa.Array], pa.Array]
"""Raises BadValueError for a value that the other type lacks."""


class Conversion(NamedTuple):
    """How a column becomes one of a data set's: the type it gets, the word for where it comes from, and what people
    should know whatever its values are."""

    data_type: pa.DataType
    convert: Convert
    warning: str = ""
    loses: Callable[[pa.Array], int | None] = lambda _: None
    """The first row of a batch, from 0, of which something is lost that is worth a warning; `loss` says what."""
    loss: str = ""

    @property
    def is_numeric(self) -> bool:
        return not pa.types.is_string(self.data_type)


Make = Callable[[pa.DataType, Kind | None], Conversion]


def conversion(data_type: pa.DataType, kind: Kind | None, *, as_text: bool = False) -> Conversion | None:
    """How a column of this type becomes one whose format is of this kind; None where SAS has nothing like it."""
    if pa.types.is_dictionary(data_type):
        return _decoded(data_type, conversion(data_type.value_type, kind, as_text=as_text))
    if columns.is_text(data_type):
        return Conversion(pa.string(), _strings)
    if columns.numeric_type(data_type) is None:
        return None
    if as_text:
        return Conversion(pa.string(), lambda column: _strings(pc.cast(column, pa.string())))
    make = next((make for includes, make in _MAKERS if includes(data_type)), _of_numbers)
    return make(data_type, kind)


_SAFE_DIGITS = 15
_ROUNDED = "the number has more digits than a double holds"
_NANOSECONDS = "what lies below a microsecond is lost"
_ZONE = "SAS has no time zones: the times are sent in UTC"


def _strings(column: pa.Array) -> pa.StringArray:
    return pc.ascii_rtrim(pc.fill_null(columns.strings(column), ""), characters=" ")


def _doubles(column: pa.Array) -> pa.DoubleArray:
    if pa.types.is_decimal(column.type) and column.type.scale <= 0:
        column = _exact_integers(column)
    return pa.array(columns.doubles(column), pa.float64(), from_pandas=True)


def _exact_integers(column: pa.Array) -> pa.Array:
    """Decimals without a fraction are integers to SAS: they must be exact."""
    if column.type.precision > _SAFE_DIGITS:
        beyond = pc.greater(pc.abs(column), pa.scalar(columns.MAX_EXACT, pa.decimal128(16)).cast(column.type))
        if (row := _first(beyond)) is not None:
            raise BadValueError(row, "the integer is beyond 2^53, where doubles lose exactness")
    return pc.cast(column, pa.int64())


def _beyond_doubles(column: pa.Array) -> int | None:
    """The first row of a decimal column that a double changes."""
    if column.type.precision <= _SAFE_DIGITS or column.type.scale <= 0:
        return None
    again = pc.cast(pc.cast(column, pa.float64()), column.type, safe=False)
    suspects = np.flatnonzero(pc.fill_null(pc.not_equal(again, column), fill_value=False).to_numpy(False))
    return next((int(row) for row in suspects if texts.is_rounded(str(column[int(row)]))), None)


def _first(wrong: pa.BooleanArray) -> int | None:
    return pc.index(wrong, pa.scalar(value=True)).as_py() if pc.any(wrong).as_py() else None


def _cast(data_type: pa.DataType) -> Convert:
    return lambda column: pc.cast(column, data_type, safe=False)


def _decoded(data_type: pa.DataType, inner: Conversion | None) -> Conversion | None:
    if inner is None:
        return None
    loses = inner.loses
    return inner._replace(
        convert=lambda column: inner.convert(column.cast(data_type.value_type)),
        loses=lambda column: loses(column.cast(data_type.value_type)),
    )


def _of_numbers(_: pa.DataType, __: Kind | None) -> Conversion:
    return Conversion(pa.float64(), _doubles)


def _of_dates(_: pa.DataType, kind: Kind | None) -> Conversion:
    if kind == "datetime":
        return Conversion(pa.timestamp("us"), lambda column: _cast(pa.timestamp("us"))(pc.cast(column, pa.date32())))
    return Conversion(pa.date32(), _cast(pa.date32()))


def _of_timestamps(data_type: pa.TimestampType, kind: Kind | None) -> Conversion:
    """Instants of a zone are those of UTC already: only their name is dropped."""
    local = pa.timestamp(data_type.unit)
    warning = _ZONE if data_type.tz else ""
    if kind == "date":
        return Conversion(pa.date32(), lambda column: _midnights(column.view(local)), warning)
    return Conversion(
        pa.timestamp("us"),
        lambda column: _cast(pa.timestamp("us"))(column.view(local)),
        warning,
        lambda column: _beyond_microseconds(column.view(local)),
        _NANOSECONDS,
    )


def _midnights(column: pa.Array) -> pa.Date32Array:
    days = pc.cast(column, pa.date32(), safe=False)
    odd = pc.not_equal(pc.cast(days, column.type), column)
    if (row := _first(odd)) is not None:
        raise BadValueError(row, "the format is one of days, and the value has a time of day; use one of datetimes")
    return days


def _beyond_microseconds(column: pa.Array) -> int | None:
    if column.type.unit != "ns":
        return None
    ticks = pc.cast(column, pa.int64())
    odd = pc.not_equal(pc.multiply(pc.divide(ticks, 1000), 1000), ticks)
    return _first(odd)


def _of_spans(data_type: pa.DataType) -> Make:
    return lambda _, __: Conversion(data_type, _cast(data_type), "", _beyond_microseconds, _NANOSECONDS)


_MAKERS: tuple[tuple[Callable[[pa.DataType], bool], Make], ...] = (
    (pa.types.is_date, _of_dates),
    (pa.types.is_timestamp, _of_timestamps),
    (pa.types.is_time, _of_spans(pa.time64("us"))),
    (pa.types.is_duration, _of_spans(pa.duration("us"))),
    (pa.types.is_decimal, lambda _, __: Conversion(pa.float64(), _doubles, "", _beyond_doubles, _ROUNDED)),
)
