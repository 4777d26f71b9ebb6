"""Check timestamps of Parquet's type INT96: a day, and the nanoseconds in it. Spark writes them by default.

Arrow converts them to 64 bits in a unit that the reader chooses. What the unit does not hold is dropped or wraps
around, without an error. Two units tell the exact time: seconds, in which each one fits, and the remainder of
nanoseconds.
"""

from collections.abc import Callable, Iterator
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from app.tables.read.converting import FRACTIONS
from app.tables.read.read_request import Remark, rows_a_batch

UNIT: Final = "us"
"""The unit in which INT96 is read: that of a data set's table."""

Read = Callable[[Literal["s", "ns"]], pq.ParquetFile]
"""A function that opens the file and converts INT96 to this unit."""

_A_SECOND = np.uint64(1_000_000_000)
_A_MICROSECOND = np.uint64(1_000)
_MOST_SECONDS: Final = (1 << 63) // 1_000_000 - 1
"""Seconds of which the microseconds fit in 64 bits."""

_BEYOND = f"the value is beyond the range of {pa.timestamp(UNIT)}"


def remarks(file: pq.ParquetFile, read: Read) -> Iterator[Remark]:
    """Yield a remark on the first value of each column that microseconds do not hold, and on the first that they round.

    Reads the INT96 columns of the file twice.
    """
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    times = [leaf for leaf in leaves if leaf.physical_type == "INT96"]
    names = [leaf.path for leaf in times if leaf.path == leaf.name and not leaf.max_repetition_level]
    if not names:
        return
    step = rows_a_batch(len(names))
    by_unit = (read(unit).iter_batches(step, columns=names, use_threads=False) for unit in ("s", "ns"))
    told: set[tuple[str, str]] = set()
    rows = 0
    for whole, fine in zip(*by_unit, strict=True):
        for name, seconds, nanoseconds in zip(whole.schema.names, _ticks(whole), _ticks(fine), strict=True):
            rest = nanoseconds.view(np.uint64) - seconds.view(np.uint64) * _A_SECOND
            for code, why, found in (
                ("value", _BEYOND, np.abs(seconds) > _MOST_SECONDS),
                ("rounded", FRACTIONS, rest % _A_MICROSECOND != 0),
            ):
                if (name, code) not in told and found.any():
                    told.add((name, code))
                    yield Remark(name, why, rows + int(np.argmax(found)) + 1, code == "value", code)
        rows += whole.num_rows


def _ticks(batch: pa.RecordBatch) -> list[NDArray[np.int64]]:
    """Return the ticks of each column; 0 for null."""
    return [pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False) for column in batch.columns]
