"""Runs of sequence numbers, compared with a simple count."""

from itertools import groupby
from struct import pack

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.assembly.coverage import Covered, Runs, State, covered

PARTS = st.dictionaries(st.integers(1, 60), st.integers(0, 1 << 40), max_size=40)
MARKS = st.dictionaries(st.integers(1, 70), st.sampled_from(("duplicate", "conflict")), max_size=10)


def runs_of(parts: dict[int, int]) -> Runs:
    return Runs.unpack(b"".join(pack("<3q", number, 1, position) for number, position in parts.items()))


@given(PARTS, MARKS, st.integers(1, 70), st.integers(0, 70))
def test_each_number_has_its_state(parts: dict[int, int], marks: dict[int, State], first: int, last: int) -> None:
    def state(number: int) -> State:
        return marks.get(number, "received") if number in parts else "missing"

    expected = []
    for word, group in groupby(range(first, last + 1), state):
        numbers = list(group)
        places = [parts[number] for number in numbers if number in parts]
        ends = (min(places), max(places)) if places else (None, None)
        expected.append(Covered(numbers[0], len(numbers), word, len(places), *ends))
    assert covered(runs_of(parts), first, last, marks, 1000) == expected


@given(PARTS, st.integers(1, 8))
def test_too_many_runs_are_joined_and_nothing_is_lost(parts: dict[int, int], most: int) -> None:
    found = covered(runs_of(parts), 1, 60, {}, most)
    whole = covered(runs_of(parts), 1, 60, {}, 1000)
    assert len(found) <= most
    assert sum(run.received for run in found) == len(parts)
    assert [run.first for run in found] + [61] == [1] + [run.first + run.length for run in found]
    assert all(run.state == "mixed" or run in whole for run in found)


def test_the_last_run_with_a_number_holds() -> None:
    packed = pack("<6q", 1, 5, 100, 3, 1, 900)
    assert covered(Runs.unpack(packed), 3, 3, {}, 9) == [Covered(3, 1, "received", 1, 900, 900)]


def test_numbers_written_little_endian_are_in_order() -> None:
    numbers = [int.from_bytes(number.to_bytes(4, "little"), "big") for number in (1, 2, 300)]
    runs = runs_of({number: at for at, number in enumerate(numbers)}).in_order()
    assert (sorted(runs.firsts.tolist()), runs.highest) == ([1, 2, 300], 300)
    plain = runs_of({1: 1, 2: 2})
    assert plain.in_order() is plain
    assert np.array_equal(runs.within(2, 300).firsts, [2, 300])
