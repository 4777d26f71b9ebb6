"""Count the values of a variable, and estimate the number of different values, in bounded memory.

While there are few different values, all counts are exact. When there are too many, the least frequent are dropped, and
the count of the most frequent dropped one is subtracted from those that stay. So a count is at most `error` too low,
and a value that is missing had at most `error` occurrences. Sources: Misra and Gries, "Finding Repeated Elements"
(1982); Agarwal et al., "Mergeable Summaries" (2012).
"""

from hashlib import blake2b
from math import sqrt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

VALUE, COUNT = "value", "count"


class ValueCounts:
    """The counts of the values of a variable: at most `most_values` values with `most_bytes` together.

    `error` is 0 while all counts are exact.
    """

    def __init__(self, data_type: pa.DataType, most_values: int, most_bytes: int) -> None:
        self._schema = pa.schema([(VALUE, data_type), (COUNT, pa.int64())])
        self._counts = self._schema.empty_table()
        self._most_values, self._most_bytes = most_values, most_bytes
        self.error = 0

    def add(self, values: pa.Array, counts: pa.Array) -> None:
        """Add different values, without nulls, with their counts."""
        added = pa.table([values, counts], schema=self._schema)
        joined = pa.concat_tables([self._counts, added])
        if self._counts.num_rows:
            joined = joined.group_by(VALUE, use_threads=False).aggregate([(COUNT, "sum")])
            joined = pa.table([joined[VALUE], joined[f"{COUNT}_sum"]], schema=self._schema)
        if joined.num_rows <= self._most_values and joined.nbytes <= self._most_bytes:
            self._counts = joined
            return

        # As many of the most frequent values as fit stay, at least one, with their counts reduced.
        ordered = joined.sort_by([(COUNT, "descending"), (VALUE, "ascending")])
        values = ordered[VALUE].combine_chunks()
        # The memory that each value and its count take.
        if pa.types.is_string(values.type):
            sizes = pc.binary_length(values).to_numpy().astype(np.int64) + 12
        else:
            sizes = np.full(len(values), 16, np.int64)
        kept = int(np.searchsorted(np.cumsum(sizes), self._most_bytes, "right"))
        kept = max(1, min(kept, self._most_values))
        dropped = ordered[COUNT][kept].as_py() if kept < ordered.num_rows else 0
        self.error += dropped
        stay = ordered.slice(0, kept)
        reduced = stay.set_column(1, self._schema.field(COUNT), pc.subtract(stay[COUNT], dropped))
        # A copy: a slice would hold the memory of all values.
        self._counts = reduced.filter(pc.greater(reduced[COUNT], 0)).combine_chunks()

    def __len__(self) -> int:
        return int(self._counts.num_rows)

    def most_frequent(self, most: int) -> pa.Table:
        """Return values and counts, the most frequent first, equally frequent ones by value."""
        ordered = self._counts.sort_by([(COUNT, "descending"), (VALUE, "ascending")])
        return ordered.slice(0, most)


Hashes = NDArray[np.uint64]

_RANGE = 2.0**64


class SmallestHashes:
    """The smallest hashes of the values of a variable, at most `most`, which estimate the number of different values.

    If values hash to evenly spread numbers between 0 and 1, and the k-th smallest of n different ones is x, then n is
    about (k - 1) / x. The standard error is 1 / sqrt(k - 2). Source: Bar-Yossef et al., "Counting Distinct Elements in
    a Data Stream" (2002).
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._hashes: Hashes = np.empty(0, np.uint64)

    def add(self, values: pa.Array) -> None:
        """Add different values, without nulls: numbers, dates and times, or texts."""
        self._hashes = np.unique(np.concatenate([self._hashes, _hashes(values)]))[: self._most]

    @property
    def count(self) -> int:
        """The number of different values: exact below the maximum number of hashes, else an estimate."""
        if len(self._hashes) < self._most:
            return len(self._hashes)
        return round((self._most - 1) * _RANGE / float(self._hashes[-1]))

    @property
    def relative_error(self) -> float:
        """The standard error of the estimate as a fraction of it."""
        return 1 / sqrt(self._most - 2)


def _hashes(values: pa.Array) -> Hashes:
    if pa.types.is_string(values.type):
        digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in values.to_pylist())
        return np.frombuffer(digests, np.uint64)
    width = pa.uint32() if values.type.bit_width == 32 else pa.uint64()
    words: Hashes = values.view(width).to_numpy(zero_copy_only=False).astype(np.uint64)
    # The finalizer of SplitMix64 (Steele et al., 2014): every bit depends on all bits of the word.
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
