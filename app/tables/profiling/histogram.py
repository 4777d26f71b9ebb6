"""Count numbers in equally wide bins whose width follows the values, in one pass and in constant memory.

The width is a power of two and each bin begins at a multiple of it. So two neighbours always become one bin when the
width doubles, and the result does not depend on the order of the values.
"""

from math import frexp, inf, ldexp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_BINS = 32

_GREATEST, _LEAST = 1e150, 1e-150
"""Greater magnitudes are counted as this one, and smaller ones as zero, so that widths neither over- nor underflow."""

_LEAST_EXPONENT = -1022
_FRACTION_BITS = 52


class Histogram(NamedTuple):
    """Numbers of values in bins: the first one begins at `start`, and each has the width `width`."""

    start: float
    width: float
    counts: tuple[int, ...]


class HistogramCounting:
    """The counting of numbers into at most `MOST_BINS` bins."""

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
