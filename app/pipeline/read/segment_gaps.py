"""Gaps in the numbers of an archive's segments: segments that retention deleted, or that are missing."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

Gaps = tuple[tuple[int, int], ...]
"""Closed ranges of segment numbers."""


def missing_segments(numbers: Iterable[int], after: int = 0) -> Gaps:
    """Return the gaps in the numbers above `after`, up to the highest one. A journal's first segment has number 1."""
    present = [after, *sorted(number for number in numbers if number > after)]
    return tuple((low + 1, high - 1) for low, high in pairwise(present) if high > low + 1)


def spoken(ranges: Sequence[tuple[int, int]]) -> str:
    """Return closed ranges as people write them: `3, 7-9`."""
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)
