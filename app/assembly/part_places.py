"""The sequence numbers of the parts that have come, and the place of each part in the journal."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile

from app.model.records import PartRun

BIG, LITTLE = ">", "<"
LITTLE_ENDIAN_FROM = 1 << 24
"""The lowest sequence number that counts as a smaller one written little-endian. No attachment has that many parts."""
LEAST_LITTLE_ENDIAN = 1 << 8
"""All smaller ones written little-endian are multiples of this: their highest byte, which comes last, is zero."""


class Parts:
    """A set of sequence numbers with their packed journal positions, as runs.

    Parts that came in order, in consecutive rows of one batch, share a run. So an attachment that is sent alone takes a
    few runs, however large it is. One that is sent among others takes 24 bytes a part. `take_fresh` returns the runs
    added since its last call, for the catalog to append. After a part was removed, `has_less` says that they replace
    all others. If two runs have the same sequence number, the later one holds: it replaced a part whose bytes were
    damaged.
    """

    __slots__ = (
        "_big",
        "_firsts",
        "_fresh",
        "_known_up_to",
        "_lengths",
        "_little",
        "_positions",
        "count",
        "covered",
        "has_less",
    )

    def __init__(self, runs: Iterable[PartRun] | None = None) -> None:
        self._firsts = array("q")
        self._lengths = array("q")
        self._positions = array("q")
        self._fresh: list[PartRun] = []
        self.count = self._big = self._little = 0
        self._known_up_to: dict[str, int] = {}
        self.covered: int | None = None
        """Up to which byte ranges are there without a gap, as `app.assembly.ranges` knows; None until it has looked."""
        self.has_less = False
        for first, length, position in runs or ():
            if first <= self.highest():
                for place in range(length):
                    if self._insert(first + place, position + place) is not None:
                        self._move(first + place, position + place)
                continue
            if self._firsts and first == self.highest() + 1 and position == self._positions[-1] + self._lengths[-1]:
                self._lengths[-1] += length
            else:
                self._firsts.append(first)
                self._lengths.append(length)
                self._positions.append(position)
            self._counted(first, length)

    def _counted(self, first: int, length: int) -> None:
        """Count parts with consecutive sequence numbers, also by the byte orders in which they can be written."""
        last = first + length - 1
        self.count += length
        self._big += max(0, min(last + 1, LITTLE_ENDIAN_FROM) - first)
        self._little += last // LEAST_LITTLE_ENDIAN - (first - 1) // LEAST_LITTLE_ENDIAN

    def replace(self, first: int, again: int) -> bool:
        """Replace the part at position `first` by the one at `again`. Return False when no part is at `first`."""
        for sequence, position in self:
            if position == first:
                self._move(sequence, again)
                self._fresh.append(PartRun(sequence, 1, again))
                return True
        return False

    def _move(self, sequence: int, position: int) -> None:
        """Cut the part out of its run, into a run of its own."""
        at = bisect_right(self._firsts, sequence) - 1
        first, length, start = self._firsts[at], self._lengths[at], self._positions[at]
        before, behind = sequence - first, first + length - sequence - 1
        pieces = [(first, before, start), (sequence, 1, position), (sequence + 1, behind, start + before + 1)]
        kept = [piece for piece in pieces if piece[1]]
        for column, values in zip((self._firsts, self._lengths, self._positions), zip(*kept, strict=True), strict=True):
            column[at : at + 1] = array("q", values)

    def add(self, sequence: int, position: int) -> int | None:
        """Add a part, or return the position of the part that has this sequence number already."""
        if (there := self._insert(sequence, position)) is not None:
            return there
        self._freshen(sequence, 1, position)
        return None

    def has_any(self, first: int, length: int) -> bool:
        """Tell whether one of `length` parts from sequence number `first` on is there."""
        at = bisect_left(self._firsts, first + length) - 1
        return at >= 0 and first < self._firsts[at] + self._lengths[at]

    def add_new(self, first: int, positions: Sequence[int]) -> None:
        """Add parts with sequence numbers from `first` on, none of which is there. Their positions ascend."""
        firsts, lengths, starts = self._firsts, self._lengths, self._positions
        at = bisect_right(firsts, first)
        for sequence, length, position in _consecutive(first, positions):
            if at and sequence == firsts[at - 1] + lengths[at - 1] and position == starts[at - 1] + lengths[at - 1]:
                lengths[at - 1] += length
            else:
                firsts.insert(at, sequence)
                lengths.insert(at, length)
                starts.insert(at, position)
                at += 1
            self._freshen(sequence, length, position)
        self._counted(first, len(positions))

    def remove(self, sequence: int) -> int | None:
        """Remove a part and return its position; None when there is no such part."""
        if (there := self.find(sequence)) is None:
            return None
        self._keep([(number, position) for number, position in self if number != sequence])
        return there

    def keep(self, is_kept: Callable[[int], bool]) -> None:
        """Remove all parts except those at kept positions."""
        self._keep([(number, position) for number, position in self if is_kept(position)])

    def _keep(self, parts: Iterable[tuple[int, int]]) -> None:
        del self._firsts[:], self._lengths[:], self._positions[:], self._fresh[:]
        self.count = self._big = self._little = 0
        self._known_up_to.clear()
        self.covered = None
        for number, position in parts:
            self.add(number, position)
        self.has_less = True

    def _freshen(self, first: int, length: int, position: int) -> None:
        if self._fresh:
            begin, fresh, start = self._fresh[-1]
            if first == begin + fresh and position == start + fresh:
                self._fresh[-1] = PartRun(begin, fresh + length, start)
                return
        self._fresh.append(PartRun(first, length, position))

    def _insert(self, sequence: int, position: int) -> int | None:
        firsts, lengths, positions = self._firsts, self._lengths, self._positions
        at = bisect_right(firsts, sequence) - 1
        if at >= 0:
            behind = sequence - firsts[at]
            if behind < lengths[at]:
                return positions[at] + behind
            if behind == lengths[at] and position == positions[at] + behind:
                lengths[at] += 1
                self._counted(sequence, 1)
                return None
        firsts.insert(at + 1, sequence)
        lengths.insert(at + 1, 1)
        positions.insert(at + 1, position)
        self._counted(sequence, 1)
        return None

    @property
    def runs(self) -> list[PartRun]:
        """All runs, by sequence number."""
        return list(map(PartRun, self._firsts, self._lengths, self._positions))

    def take_fresh(self) -> list[PartRun]:
        """Return the runs added since the last call."""
        fresh, self._fresh = self._fresh, []
        self.has_less = False
        return fresh

    def find(self, sequence: int) -> int | None:
        """Return the position of the part that has this sequence number; None when there is none."""
        at = bisect_right(self._firsts, sequence) - 1
        if at < 0 or (behind := sequence - self._firsts[at]) >= self._lengths[at]:
            return None
        return self._positions[at] + behind

    def numbers_from(self, lowest: int) -> Iterator[int]:
        """Yield the sequence numbers that are at least `lowest`, in their order."""
        for at in range(max(bisect_right(self._firsts, lowest) - 1, 0), len(self._firsts)):
            first = self._firsts[at]
            yield from range(max(first, lowest), first + self._lengths[at])

    def highest_below(self, bound: int) -> int:
        """Return the highest sequence number seen that is less than `bound`; 0 for none."""
        at = bisect_left(self._firsts, bound) - 1
        return min(self._firsts[at] + self._lengths[at], bound) - 1 if at >= 0 else 0

    def highest(self) -> int:
        """Return the highest sequence number seen; 0 for none."""
        return self._firsts[-1] + self._lengths[-1] - 1 if self._firsts else 0

    def is_one_to(self, expected: int) -> bool:
        """Tell whether exactly the sequence numbers 1..expected are there, in either byte order of the four bytes."""
        if self.count != expected or self._spans(expected):
            return self.count == expected
        swapped = [little_endian(sequence) for sequence, _ in self]
        return min(swapped) == 1 and max(swapped) == expected

    def in_order(self, expected: int) -> Iterator[int]:
        """Return the packed positions of parts 1..expected; `is_one_to(expected)` must hold."""
        if self._spans(expected):
            for length, start in zip(self._lengths, self._positions, strict=True):
                yield from range(start, start + length)
            return
        yield from (position for _, position in sorted((little_endian(sequence), at) for sequence, at in self))

    def missing(self, expected: int | None, limit: int) -> list[tuple[int, int]]:
        """Return closed ranges of the sequence numbers that have not come, at most `limit` ranges.

        Without a count only the gaps below the highest number are known. Numbers in the other byte order than most do
        not count.
        """
        order, _ = self.majority()
        numbers: Iterable[tuple[int, int]]
        if order == LITTLE:
            meant = (little_endian(sequence) for sequence, _ in self)
            numbers = sorted((each, 1) for each in meant if each < LITTLE_ENDIAN_FROM)
        else:
            runs = zip(self._firsts, self._lengths, strict=True)
            numbers = takewhile(lambda run: run[0] < LITTLE_ENDIAN_FROM, runs)
        return gaps(numbers, expected, limit)

    def majority(self) -> tuple[str, int]:
        """Return the byte order in which more of the sequence numbers can be written, and how many can be."""
        return (LITTLE, self._little) if self._little > self._big else (BIG, self._big)

    def take_strays(self, expected: int, likely: str) -> list[tuple[int, int]] | None:
        """Remove the parts in the other byte order, if all of 1..expected are there in one. Return the number and the
        position of each; None if some of 1..expected have not come.

        If they are there in both byte orders, the `likely` one holds.
        """
        if self.count <= expected:
            return [] if self.is_one_to(expected) else None
        for order in (likely, LITTLE if likely == BIG else BIG):
            # The search continues at the part that the last one did not find: many strays cost no more than they bring.
            known = self._known_up_to.get(order, 0)
            while known < expected and self.find(number_in(order, known + 1)) is not None:
                known += 1
            self._known_up_to[order] = known
            if known >= expected:
                strays = [part for part in self if number_in(order, part[0]) > expected]
                self._keep([part for part in self if number_in(order, part[0]) <= expected])
                return strays
        return None

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for first, length, position in zip(self._firsts, self._lengths, self._positions, strict=True):
            for place in range(length):
                yield first + place, position + place

    def _spans(self, expected: int) -> bool:
        return expected == 0 or (self._firsts[0] == 1 and self.highest() == expected)


def gaps(runs: Iterable[tuple[int, int]], expected: int | None, limit: int) -> list[tuple[int, int]]:
    """Return closed ranges of the numbers from 1 to `expected` that no run (first, length) has, at most `limit` ranges.

    If `expected` is None, the numbers go up to the highest in the runs. The runs ascend.
    """
    found: list[tuple[int, int]] = []
    following = 1
    for first, length in runs:
        if first > following:
            found.append((following, first - 1))
        following = max(following, first + length)
        if len(found) >= limit:
            return found
    if expected is not None and following <= expected:
        found.append((following, expected))
    return found[:limit]


def _consecutive(first: int, positions: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the (first number, number of parts, position) of parts that follow each other in a batch."""
    if positions[-1] - positions[0] == len(positions) - 1:
        yield first, len(positions), positions[0]
        return
    begin = 0
    for at in range(1, len(positions) + 1):
        if at == len(positions) or positions[at] != positions[at - 1] + 1:
            yield first + begin, at - begin, positions[begin]
            begin = at


def little_endian(sequence: int) -> int:
    """Return the sequence number that a sender means that writes its four bytes little-endian."""
    return int.from_bytes(sequence.to_bytes(4, "big"), "little")


def number_in(order: str, sequence: int) -> int:
    """Return the sequence number that a sender means that writes its four bytes in this order."""
    return little_endian(sequence) if order == LITTLE else sequence
