"""Estimate the number of different values from the smallest of their hashes.

If values hash to evenly spread numbers between 0 and 1, and the k-th smallest of n different ones is x, then n is about
(k - 1) / x. The standard error is 1 / sqrt(k - 2). Source: Bar-Yossef et al., "Counting Distinct Elements in a Data
Stream" (2002).
"""

from hashlib import blake2b
from math import sqrt

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_RANGE = 2.0**64


class SmallestHashes:
    """The smallest hashes of the values of a variable, at most `most`."""

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
    return _mixed(words)


def _mixed(words: Hashes) -> Hashes:
    """Return numbers whose every bit depends on all bits: the finalizer of SplitMix64 (Steele et al., 2014)."""
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
