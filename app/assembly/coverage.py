"""Which sequence numbers of an attachment have come and which have not, as few runs, for attachments of any size."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from app.assembly.part_places import LITTLE_ENDIAN_FROM

State = Literal["missing", "received", "duplicate", "conflict", "mixed"]

MOST_NUMBERS = 1 << 21
"""The most sequence numbers that are looked at together. They take about 50 bytes each."""
_STATES: tuple[State, ...] = ("missing", "received", "duplicate", "conflict")
_MISSING = 0
_NOWHERE = -1

Numbers = npt.NDArray[np.int64]


class Covered(NamedTuple):
    """`length` sequence numbers from `first` on, of which `received` have come.

    All are in one state, or in several (`mixed`). `begin` and `end` are the lowest and the highest packed journal
    position of those that have come; None for none.
    """

    first: int
    length: int
    state: State
    received: int
    begin: int | None
    end: int | None


class Runs(NamedTuple):
    """The parts that have come: sequence numbers, how many follow, and packed positions, as columns."""

    firsts: Numbers
    lengths: Numbers
    positions: Numbers

    @classmethod
    def unpack(cls, packed: bytes) -> "Runs":
        """Return the runs in triplets of little-endian 64-bit integers."""
        columns = np.frombuffer(packed, "<i8").astype(np.int64).reshape(-1, 3).T
        return cls(*columns)

    @property
    def highest(self) -> int:
        """The highest sequence number that has come; 0 for none."""
        return int((self.firsts + self.lengths).max()) - 1 if len(self.firsts) else 0

    def in_order(self) -> "Runs":
        """Return the runs with the numbers that their sender meant: one that writes them little-endian is recognised
        by the size of most of them. Numbers in the other byte order are left out."""
        if self.highest < LITTLE_ENDIAN_FROM:
            return self
        numbers, positions = _each(*self)
        meant, big = swapped(numbers), numbers < LITTLE_ENDIAN_FROM
        little = meant < LITTLE_ENDIAN_FROM
        if little.sum() <= big.sum():
            return self.within(1, LITTLE_ENDIAN_FROM - 1)
        return Runs(meant[little], np.ones(int(little.sum()), np.int64), positions[little])

    def within(self, first: int, last: int) -> "Runs":
        """Return the parts with numbers in this closed interval."""
        begins, ends = np.maximum(self.firsts, first), np.minimum(self.firsts + self.lengths, last + 1)
        kept = begins < ends
        return Runs(begins[kept], (ends - begins)[kept], (self.positions + begins - self.firsts)[kept])


def swapped(numbers: Numbers) -> Numbers:
    """Return numbers of four bytes with these bytes in the opposite order."""
    return numbers.astype(np.uint32).byteswap().astype(np.int64)


def covered(runs: Runs, first: int, last: int, marks: Mapping[int, State], most: int) -> list[Covered]:
    """Return the states of the sequence numbers from `first` to `last`, at most MOST_NUMBERS, in at most `most` runs.

    `marks` have the numbers of received parts with another state. Where there would be more runs, neighbours are joined
    (`mixed`). If several runs have a number, the last one holds.
    """
    if last < first:
        return []
    numbers, positions = _each(*runs.within(first, last))
    size = last - first + 1
    places = np.full(size, _NOWHERE, np.int64)
    places[numbers - first] = positions
    states = (places != _NOWHERE).astype(np.int8)
    for number, state in marks.items():
        if first <= number <= last and states[number - first] != _MISSING:
            states[number - first] = _STATES.index(state)
    begins = np.concatenate(([0], np.flatnonzero(np.diff(states)) + 1))
    each = -(-len(begins) // most)
    joined = begins[::each]
    ends = np.concatenate((joined[1:], [size]))
    received = np.add.reduceat(states != _MISSING, joined, dtype=np.int64)
    highest = np.maximum.reduceat(places, joined)
    lowest = np.minimum.reduceat(np.where(places == _NOWHERE, np.iinfo(np.int64).max, places), joined)
    alone = np.diff(np.concatenate((np.searchsorted(begins, joined), [len(begins)]))) == 1
    columns = (joined, ends, states[joined], alone, received, lowest, highest)
    found = zip(*(column.tolist() for column in columns), strict=True)
    return [
        Covered(
            first + begin,
            end - begin,
            _STATES[state] if is_alone else "mixed",
            here,
            low if here else None,
            high if here else None,
        )
        for begin, end, state, is_alone, here, low, high in found
    ]


def _each(firsts: Numbers, lengths: Numbers, positions: Numbers) -> tuple[Numbers, Numbers]:
    """Return every sequence number and its position."""
    behind = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.repeat(firsts, lengths) + behind, np.repeat(positions, lengths) + behind
