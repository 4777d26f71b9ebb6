"""The error of a value that a column's conversion cannot accept."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.model.errors import InvalidInputError


class BadValueError(ValueError):
    """The value at `row` (from 0) cannot be written; `why` states the reason."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"row {row}: {why}")
        self.row, self.why = row, why


@contextmanager
def located(column: str, first: int, unit: str = "row") -> Iterator[None]:
    """Raise InvalidInputError with the column and the number of the row (from 1) for a BadValueError.

    `first` is the number of rows before those that are converted, and `unit` the word for a row.
    """
    try:
        yield
    except BadValueError as error:
        raise InvalidInputError("value", column, -1, f"{unit} {first + error.row + 1}: {error.why}") from None


def refuse_any(wrong: NDArray[np.bool_], why: str) -> None:
    """Raise BadValueError for the first row that is wrong."""
    if wrong.any():
        raise BadValueError(int(np.argmax(wrong)), why)


def first_wrong(rows: int, has_wrong: Callable[[int, int], bool]) -> int:
    """Return the first wrong one of this many rows, at least one of which is wrong.

    `has_wrong(low, high)` tells whether one of the rows from `low` on, and before `high`, is.
    """
    low, high = 0, rows
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if has_wrong(low, middle) else (middle, high)
    return low


def first_uncastable(column: pa.Array, options: pc.CastOptions) -> int:
    """Return the first row that cannot be cast; at least one cannot."""

    def has_uncastable(low: int, high: int) -> bool:
        try:
            pc.cast(column.slice(low, high - low), options=options)
        except pa.ArrowInvalid:
            return True
        return False

    return first_wrong(len(column), has_uncastable)
