"""The error of a value that a column's conversion cannot accept."""

import numpy as np
from numpy.typing import NDArray


class BadValueError(ValueError):
    """The value at `row` (from 0) cannot be written; `why` states the reason."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"row {row}: {why}")
        self.row, self.why = row, why


def refuse_any(wrong: NDArray[np.bool_], why: str) -> None:
    """Raise BadValueError for the first row that is wrong."""
    if wrong.any():
        raise BadValueError(int(np.argmax(wrong)), why)
