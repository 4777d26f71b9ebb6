"""Convert Arrow columns of the types that tables have to the doubles and strings of SAS."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.dataset import missing, temporal_columns
from app.dataset.conversion_error import BadValueError, refuse_any
from app.dataset.format_names import SasFormat
from app.dataset.missing import Tags
from app.dataset.numeric import MAX_EXACT, Doubles

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class NumericType(NamedTuple):
    """A kind of Arrow type that becomes a SAS numeric."""

    includes: Callable[[pa.DataType], bool]
    doubles: Callable[[pa.Array], Doubles]
    format: SasFormat = SasFormat()


def _plain(column: pa.Array) -> Doubles:
    if column.type != pa.float64():
        column = pc.cast(column, pa.float64(), safe=False)
    doubles: Doubles = column.to_numpy(zero_copy_only=False)
    return doubles


def _decimals(column: pa.Array) -> Doubles:
    """Return the nearest doubles. Arrow's own conversion multiplies by a power of 10 that is rounded itself."""
    return _plain(pc.cast(pc.cast(column, pa.string()), pa.float64()))


def _integers(column: pa.Array) -> Doubles:
    values: NDArray[np.integer[Any]] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    if values.size and (values.max() > MAX_EXACT or values.min() < -MAX_EXACT):
        beyond = (values > MAX_EXACT) | (values < -MAX_EXACT)
        refuse_any(beyond, "the integer is beyond 2^53, where doubles lose exactness")
    return values.astype(np.float64)


def _days(column: pa.Array) -> Doubles:
    return _integers(pc.cast(pc.cast(column, pa.date32()), pa.int32())) + temporal_columns.DAYS_1960_TO_1970


def _spans(column: pa.Array, origin: int = 0) -> Doubles:
    stored = pa.int32() if column.type.bit_width == 32 else pa.int64()
    ticks: NDArray[np.integer[Any]] = pc.fill_null(column.cast(stored), 0).to_numpy(zero_copy_only=False)
    return temporal_columns.seconds(ticks.astype(np.int64, copy=False), _UNITS[column.type.unit], origin)


_NUMERIC_TYPES = (
    NumericType(pa.types.is_floating, _plain),
    NumericType(pa.types.is_integer, _integers),
    NumericType(pa.types.is_boolean, lambda column: _integers(pc.cast(column, pa.uint8()))),
    NumericType(pa.types.is_decimal, _decimals),
    NumericType(pa.types.is_null, _plain),
    NumericType(pa.types.is_date, _days, SasFormat("DATE", 9)),
    NumericType(
        pa.types.is_timestamp,
        lambda column: _spans(column, temporal_columns.SECONDS_1960_TO_1970),
        SasFormat("DATETIME", 20),
    ),
    NumericType(pa.types.is_time, _spans, SasFormat("TIME", 8)),
    NumericType(pa.types.is_duration, _spans, SasFormat("TIME", 8)),
)


def numeric_type(data_type: pa.DataType) -> NumericType | None:
    return next((known for known in _NUMERIC_TYPES if known.includes(data_type)), None)


def is_text(data_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(data_type):
        return is_text(data_type.value_type)
    return bool(
        pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type)
    )


def strings(column: pa.Array) -> pa.StringArray:
    return column.cast(pa.string())


def doubles(column: pa.Array) -> Doubles:
    """Return a column of any numeric type in SAS units: NaN for null, days and seconds since 1960.

    The result may share the column's memory. Raises BadValueError.
    """
    known = numeric_type(column.type)
    if known is None:
        raise BadValueError(0, f"a column of type {column.type} is not numeric")
    values = known.doubles(column)
    if not column.null_count or pa.types.is_floating(column.type):
        return values
    return np.where(column.is_null().to_numpy(zero_copy_only=False), np.nan, values)


def doubles_and_tags(column: pa.Array, side: pa.Array | None) -> tuple[Doubles, Tags | None]:
    """Return a numeric column and the special missing values of its side column (None: it has no side column).

    Raises BadValueError for a text in the side column that is not a missing value, and for one in the row of a value.
    """
    values = doubles(column)
    if side is None or side.null_count == len(side):
        return values, None
    tags = missing.from_arrow(side)
    refuse_any((tags != 0) & ~np.isnan(values), "the row has a value and a special missing value")
    return values, tags
