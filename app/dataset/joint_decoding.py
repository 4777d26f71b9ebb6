"""Small data sets with the same columns, decoded as if they were one: most of the time of 100 rows is that of calls."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from app.dataset import observation_layout
from app.dataset.decode import Plan, read_column


class Small(NamedTuple):
    """A data set of few rows: its plan, and the bytes of its observations, at least one."""

    plan: Plan
    observations: bytes

    @property
    def rows(self) -> int:
        return len(self.observations) // self.plan.obs_length


def decode_together(several: Sequence[Small]) -> list[pa.RecordBatch] | None:
    """Return the observations of data sets whose plans differ in nothing but metadata.

    Return None if values of one of them do not fit its plan, or raise doubts about it: then each has to be decoded by
    itself.
    """
    plan = several[0].plan
    joined = b"".join(each.observations for each in several)
    cells = np.frombuffer(joined, np.uint8).reshape(-1, plan.obs_length)
    ends = list(accumulate(each.rows for each in several))
    starts = [0, *ends[:-1]]
    variables = [(column.at, column.variable) for column in plan.columns]
    numbers = [cells[:, at : at + variable.length] for at, variable in variables if variable.is_numeric]
    if observation_layout.may_doubt(numbers, starts, plan.how):
        return None
    arrays: list[pa.Array] = []
    for column in plan.columns:
        made, suited = read_column(column, cells, plan.how, 0)
        if suited is not column:
            return None
        arrays += made
    return [
        pa.RecordBatch.from_arrays([array.slice(start, each.rows) for array in arrays], schema=each.plan.schema)
        for each, start in zip(several, starts, strict=True)
    ]
