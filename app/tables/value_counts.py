"""Count the values of a variable in bounded memory: frequent ones, how many are different, and numbers in bins."""

from hashlib import blake2b
from math import frexp, inf, ldexp, sqrt
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.tables.write import text_cells

VALUE, COUNT = "value", "count"

MOST_BINS = 32
"""The most bins of a histogram."""

_GREATEST, _LEAST = 1e150, 1e-150
"""Greater magnitudes are counted as this one, and smaller ones as zero, so that widths neither over- nor underflow."""

_LEAST_EXPONENT = -1022
_FRACTION_BITS = 52


class ValueCounts:
    """The counts of the values of a variable: at most `most_values` values with `most_bytes` together.

    While there are few different values, all counts are exact, and `error` is 0. When there are too many, the least
    frequent are dropped, and the count of the most frequent dropped one is subtracted from those that stay. So a count
    is at most `error` too low, and a value that is missing had at most `error` occurrences. Sources: Misra and Gries,
    "Finding Repeated Elements" (1982); Agarwal et al., "Mergeable Summaries" (2012).
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
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
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
        """Add different values, without nulls, of any type of a data set's columns."""
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


_WORDS: Final = {32: pa.uint32(), 64: pa.uint64()}
"""The words that numbers, dates and times of a number of bits are hashed as; other values are hashed as texts."""


def _hashes(values: pa.Array) -> Hashes:
    width = _WORDS.get(pa.types.is_primitive(values.type) and values.type.bit_width)
    if width is None:
        texts = text_cells.written(values).to_pylist()
        digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
        return np.frombuffer(digests, np.uint64)
    words: Hashes = values.view(width).to_numpy(zero_copy_only=False).astype(np.uint64)
    # The finalizer of SplitMix64 (Steele et al., 2014): every bit depends on all bits of the word.
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class Histogram(NamedTuple):
    """Numbers of values in bins: the first one begins at `start`, and each has the width `width`."""

    start: float
    width: float
    counts: tuple[int, ...]


class HistogramCounting:
    """The counting of numbers into at most `MOST_BINS` equally wide bins, whose width follows the values.

    The width is a power of two and each bin begins at a multiple of it. So two neighbours always become one bin when
    the width doubles, and the result does not depend on the order of the values.
    """

    def __init__(self) -> None:
        self._exponent = 0
        self._first = 0
        self._counts = np.empty(0, np.int64)
        self._whole = True
        self._least, self._greatest = inf, -inf

    def add(self, values: NDArray[np.float64]) -> None:
        """Add numbers. Those that are not finite are left out."""
        values = values[np.isfinite(values)]
        if not len(values):
            return
        values = np.where(np.abs(values) < _LEAST, 0, values.clip(-_GREATEST, _GREATEST))
        self._whole = self._whole and bool((values == np.floor(values)).all())
        self._least = min(self._least, float(values.min()))
        self._greatest = max(self._greatest, float(values.max()))
        # The smallest width with which all values fit into the bins. The numbers of narrower bins would not be exact.
        finest = max(_LEAST_EXPONENT, _exponent(max(abs(self._least), abs(self._greatest))) - _FRACTION_BITS)
        exponent = max(finest, _exponent((self._greatest - self._least) / MOST_BINS) - 1)
        while _bin(self._greatest, exponent) - _bin(self._least, exponent) >= MOST_BINS:
            exponent += 1
        if not len(self._counts):
            self._exponent, self._first = exponent, _bin(self._least, exponent)
        self._widen(max(self._exponent, exponent))
        first = min(_bin(self._least, self._exponent), self._first)
        last = max(_bin(self._greatest, self._exponent), self._first + len(self._counts) - 1)
        extended = np.zeros(last - first + 1, np.int64)
        extended[self._first - first :][: len(self._counts)] = self._counts
        self._first, self._counts = first, extended
        bins = np.floor(np.ldexp(values, -self._exponent)).astype(np.int64) - self._first
        self._counts += np.bincount(bins, minlength=len(self._counts))

    def result(self) -> Histogram | None:
        """Return the bins from the first to the last that has values; None without values.

        Whole numbers are in bins at least one wide.
        """
        if not len(self._counts):
            return None
        if self._whole and self._exponent < 0:
            self._widen(0)
        used = np.flatnonzero(self._counts)
        first, counts = self._first + int(used[0]), self._counts[used[0] : used[-1] + 1]
        return Histogram(ldexp(first, self._exponent), ldexp(1, self._exponent), tuple(counts.tolist()))

    def _widen(self, exponent: int) -> None:
        """Double the width until it is two to the power `exponent`."""
        by = exponent - self._exponent
        self._exponent = exponent
        if by and len(self._counts):
            bins = np.array([(self._first + at) >> by for at in range(len(self._counts))], np.int64)
            self._first = int(bins[0])
            self._counts = np.bincount(bins - self._first, self._counts).astype(np.int64)


def _bin(value: float, exponent: int) -> int:
    return int(np.floor(ldexp(value, -exponent)))


def _exponent(value: float) -> int:
    return frexp(value)[1] if value else _LEAST_EXPONENT
