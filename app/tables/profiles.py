"""Profile a data set: each variable's missing values, different values, range, mean and most frequent values.

It is read once, batch by batch, in bounded memory: the number of different values is estimated when there are too many
to hold.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import fsum, isfinite
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.dataset import side_columns
from app.dataset.description import VariableContents, contents
from app.tables.value_counts import COUNT, VALUE, Histogram, HistogramCounting, SmallestHashes, ValueCounts
from app.tables.write import text_cells

TOP = 10
"""The number of most frequent values by default."""

MOST_VALUES = 10_000
"""The maximum number of different values of a variable that are counted exactly."""

MEMORY = 64 << 20
"""The maximum size in bytes of the counted values of all variables together."""

MOST_HASHES = 2048
_HASHES_OF_ALL = 4 << 20
LONGEST_SHOWN = 200
"""The maximum number of characters of a text that are shown."""

_SCALE = 2.0**64
"""What the values of a batch are divided by when their sum is beyond a double."""

Shown = float | str | None


@dataclass(frozen=True, slots=True)
class Frequency:
    """A value and the number of its occurrences."""

    value: Shown
    count: int


@dataclass(frozen=True, slots=True)
class VariableProfile:
    """The values of a variable.

    `missing` counts missing values by kind: `.`, `._`, `.A` to `.Z`, `blank` and `null`. `distinct` counts different
    values; without `is_exact` it is an estimate with a relative standard error of `distinct_error`. The counts of
    `frequent` are at most `frequent_error` too low; values with lower counts than that are left out. `histogram` is of
    numbers, dates (days since 1970) and times (microseconds); None for texts and booleans, and without values.
    """

    about: VariableContents
    count: int
    missing: dict[str, int]
    distinct: int
    is_exact: bool
    distinct_error: float
    minimum: Shown
    maximum: Shown
    mean: float | None
    frequent: tuple[Frequency, ...]
    frequent_error: int
    histogram: Histogram | None


class Profile(NamedTuple):
    """The profile of a data set."""

    library: str
    member: str
    label: str
    observations: int
    variables: tuple[VariableProfile, ...]


def profile(schema: pa.Schema, batches: Iterable[pa.RecordBatch], top: int = TOP) -> Profile:
    """Return the profile of a data set as it is stored, with the `top` most frequent values of each variable."""
    about = contents(schema, 0)
    count = max(len(about.variables), 1)
    counting = [_Counting(each, schema.field(each.column).type, count) for each in about.variables]
    sides = {of: field.name for field in schema if (of := side_columns.missing_of(field)) is not None}
    observations = 0
    for batch in batches:
        observations += batch.num_rows
        for each in counting:
            side = sides.get(each.about.column)
            each.add(batch.column(each.about.column), None if side is None else batch.column(side))
    return Profile(
        about.library,
        about.member,
        about.label,
        observations,
        tuple(each.result(top) for each in counting),
    )


class _Counting:
    """The counting of one variable of `variables`, which share the memory."""

    def __init__(self, about: VariableContents, data_type: pa.DataType, variables: int) -> None:
        self.about = about
        self._type = data_type
        self._summary = ValueCounts(data_type, MOST_VALUES, max(1, MEMORY // variables))
        self._hashes = SmallestHashes(min(MOST_HASHES, max(64, _HASHES_OF_ALL // variables)))
        self._missing: dict[str, int] = {}
        self._valid = 0
        self._sums: list[tuple[float, float]] = []
        self._least: Any = None
        self._greatest: Any = None
        self._histogram = HistogramCounting()

    def add(self, column: pa.Array, side: pa.Array | None) -> None:
        """Count the values of a batch."""
        if pa.types.is_dictionary(column.type):
            column = column.cast(self._type)
        self._count_missing(column, side)
        values = column.drop_null()
        if pa.types.is_floating(values.type):
            values = pc.add(values, 0.0)  # -0.0 is 0.0: for SAS there is one zero
        if text_cells.is_text(values.type):
            values = values.filter(pc.not_equal(values, ""))
        if not len(values):
            return
        self._valid += len(values)
        counted = pc.value_counts(values)
        different = counted.field(0)
        self._hashes.add(different)
        self._summary.add(different, counted.field(1).cast(pa.int64()))
        least, greatest = (each.as_py() for each in pc.min_max(_ordered(values)).values())
        self._least = least if self._least is None else min(self._least, least)
        self._greatest = greatest if self._greatest is None else max(self._greatest, greatest)
        if self.about.is_numeric and not pa.types.is_boolean(values.type):
            ordered = _ordered(values).cast(pa.float64(), safe=False)
            self._histogram.add(ordered.to_numpy(zero_copy_only=False))
        has_mean = pa.types.is_floating(self._type) or pa.types.is_decimal(self._type)
        if has_mean and not self.about.kind:  # Dates and times have no mean.
            doubles, scale = values.cast(pa.float64()), 1.0
            total = pc.sum(doubles).as_py()
            if not isfinite(total):
                total, scale = pc.sum(pc.divide(doubles, _SCALE)).as_py(), _SCALE
            self._sums.append((total, scale))

    def _count_missing(self, column: pa.Array, side: pa.Array | None) -> None:
        special = 0
        if side is not None and side.null_count < len(side):
            for each in pc.value_counts(side.drop_null()):
                special += self._add_missing(each["values"].as_py(), each["counts"].as_py())
        self._add_missing("." if self.about.is_numeric else "null", column.null_count - special)
        if text_cells.is_text(column.type):
            self._add_missing("blank", pc.sum(pc.equal(column, "")).as_py() or 0)

    def _add_missing(self, kind: str, count: int) -> int:
        if count:
            self._missing[kind] = self._missing.get(kind, 0) + count
        return count

    def result(self, top: int) -> VariableProfile:
        """Return the profile, with the `top` most frequent values."""
        exact = not self._summary.error
        frequent = self._summary.most_frequent(top)
        ends = pa.array([self._least, self._greatest], _ordered_type(self._type))
        mean = fsum(total * (scale / self._valid) if scale > 1 else total / self._valid for total, scale in self._sums)
        least, greatest = _shown(ends if ends.type == self._type else ends.view(self._type))
        return VariableProfile(
            about=self.about,
            count=self._valid,
            missing=dict(sorted(self._missing.items())),
            distinct=len(self._summary) if exact else min(max(self._hashes.count, len(self._summary)), self._valid),
            is_exact=exact,
            distinct_error=0.0 if exact else self._hashes.relative_error,
            minimum=least,
            maximum=greatest,
            mean=mean if self._sums and isfinite(mean) else None,
            frequent=tuple(
                Frequency(value, count)
                for value, count in zip(
                    _shown(frequent[VALUE].combine_chunks()), frequent[COUNT].to_pylist(), strict=True
                )
                if count > self._summary.error
            ),
            frequent_error=self._summary.error,
            histogram=self._histogram.result(),
        )


def _ordered_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type in which the range of values is determined."""
    if pa.types.is_temporal(data_type):
        return pa.int32() if data_type.bit_width == 32 else pa.int64()
    return data_type


def _ordered(values: pa.Array) -> pa.Array:
    ordered = _ordered_type(values.type)
    return values if ordered == values.type else values.view(ordered)


def _shown(values: pa.Array) -> Sequence[Shown]:
    """Return values for people and for JSON: numbers, and texts in ISO 8601 for dates and times.

    A decimal that no double is equal to is a text. Bytes are hexadecimal digits.
    """
    if pa.types.is_floating(values.type):
        return [shown_number(value) for value in values.to_pylist()]
    if pa.types.is_decimal(values.type):
        return [_shown_decimal(value) for value in values.to_pylist()]
    texts = values if text_cells.is_text(values.type) else text_cells.written(values)
    return [
        value if value is None or len(value) <= LONGEST_SHOWN else value[:LONGEST_SHOWN] + "…"
        for value in texts.to_pylist()
    ]


def _shown_decimal(value: Decimal | None) -> Shown:
    if value is None:
        return None
    number = shown_number(float(value))
    return number if Decimal(repr(number)) == value else f"{value:f}"


def shown_number(value: float | None) -> float | None:
    """Return a whole number as an integer, which has no exponent in JSON."""
    return int(value) if value is not None and value.is_integer() and abs(value) < 1 << 53 else value
