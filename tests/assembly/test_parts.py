"""The set of sequence numbers, against a dictionary that does the same slowly."""

from hypothesis import given
from hypothesis import strategies as st

from app.assembly.part_places import BIG, LITTLE, LITTLE_ENDIAN_FROM, Parts, number_in
from app.model.records import PartRun

arrivals = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 400)), max_size=60)


@given(arrivals)
def test_it_is_a_dictionary_of_first_positions(arrived: list[tuple[int, int]]) -> None:
    parts = Parts()
    model: dict[int, int] = {}
    for sequence, position in arrived:
        assert parts.add(sequence, position) == model.get(sequence)
        model.setdefault(sequence, position)
    assert parts.count == len(model)
    assert dict(parts) == model
    assert parts.highest() == max(model, default=0)
    gaps = {number for first, last in parts.missing(45, 100) for number in range(first, last + 1)}
    assert gaps == set(range(1, 46)) - set(model)


@given(arrivals)
def test_what_is_fresh_makes_the_same_set_again(arrived: list[tuple[int, int]]) -> None:
    parts = Parts()
    kept: list[PartRun] = []
    for number, (sequence, position) in enumerate(arrived):
        parts.add(sequence, position)
        if number % 7 == 0:
            kept += parts.take_fresh()
    kept += parts.take_fresh()
    assert dict(Parts(kept)) == dict(parts)


@given(arrivals, st.data())
def test_a_part_is_replaced_for_good(arrived: list[tuple[int, int]], data: st.DataObject) -> None:
    parts = Parts()
    kept: list[PartRun] = []
    model: dict[int, int] = {}
    for number, (sequence, _) in enumerate(arrived):
        if parts.add(sequence, number) is None:
            model[sequence] = number
    kept += parts.take_fresh()
    for again in range(1000, 1000 + (data.draw(st.integers(0, 5)) if model else 0)):
        sequence = data.draw(st.sampled_from(sorted(model)))
        assert parts.replace(model[sequence], again)
        model[sequence] = again
        assert not parts.replace(999, 5)
        assert dict(parts) == model
    kept += parts.take_fresh()
    assert parts.count == len(model)
    assert dict(Parts(kept)) == model


@given(arrivals, st.lists(st.tuples(st.integers(1, 40), st.lists(st.integers(0, 400), min_size=1, unique=True))))
def test_parts_that_come_together_are_those_that_come_one_by_one(
    arrived: list[tuple[int, int]], together: list[tuple[int, list[int]]]
) -> None:
    parts, model = Parts(), Parts()
    for sequence, position in arrived:
        parts.add(sequence, position)
        model.add(sequence, position)
    for first, positions in together:
        positions.sort()
        numbers = range(first, first + len(positions))
        assert parts.has_any(first, len(positions)) == any(number in dict(model) for number in numbers)
        if not parts.has_any(first, len(positions)):
            parts.add_new(first, positions)
            for number, position in zip(numbers, positions, strict=True):
                assert model.add(number, position) is None
    assert (dict(parts), parts.count, parts.highest()) == (dict(model), model.count, model.highest())
    assert dict(Parts(parts.take_fresh())) == dict(model)


@given(st.permutations(range(1, 300)), st.booleans())
def test_one_to_n_in_either_byte_order(order: list[int], little: bool) -> None:
    parts = Parts()
    for position, number in enumerate(order):
        assert not parts.is_one_to(299)
        parts.add(int.from_bytes(number.to_bytes(4, "little" if little else "big"), "big"), position)
    assert parts.is_one_to(299)
    assert [order[position] for position in parts.in_order(299)] == list(range(1, 300))
    assert parts.missing(301, 10) == [(300, 301)]


def test_consecutive_rows_share_a_run() -> None:
    parts = Parts()
    for number in range(1, 30_001):
        parts.add(number, number + 7)
    assert len(parts.take_fresh()) == 1
    assert parts.missing(None, 10) == []


@given(
    st.lists(
        st.tuples(st.one_of(st.integers(1, 600), st.sampled_from([1 << 8, 1 << 16, 1 << 24])), st.integers(1, 600)),
        max_size=12,
    ),
    st.sampled_from([BIG, LITTLE]),
)
def test_the_majority_is_counted(runs: list[tuple[int, int]], order: str) -> None:
    parts = Parts()
    for number, (first, length) in enumerate(runs):
        if order == LITTLE:
            parts.add(number_in(LITTLE, first), number)
        elif not parts.has_any(first, length):
            parts.add_new(first, range(number * 1000, number * 1000 + length))
    for again in (parts, Parts(parts.runs)):
        written = {
            each: sum(number_in(each, sequence) < LITTLE_ENDIAN_FROM for sequence in dict(parts))
            for each in (BIG, LITTLE)
        }
        assert again.majority()[1] == max(written.values())
        assert written[again.majority()[0]] == max(written.values())


def test_strays_of_an_attachment_that_is_not_whole_cost_no_more_than_they_bring() -> None:
    """All parts but one are there in each byte order: every further one asks whether the attachment is whole now."""
    count, missing, looked_up = 2000, 1792, 0

    class Counting(Parts):
        def find(self, sequence: int) -> int | None:
            nonlocal looked_up
            looked_up += 1
            return super().find(sequence)

    parts = Counting()
    came = [number for number in range(1, count + 1) if number != missing]
    for order in (LITTLE, BIG):
        for number in came:
            parts.add(number_in(order, number), number)
            assert parts.take_strays(count, LITTLE) is None
    assert looked_up < 6 * count
    parts.add(number_in(LITTLE, missing), missing)
    strays = parts.take_strays(count, LITTLE)
    assert strays is not None
    assert [number for number, _ in strays] == came


@given(
    st.lists(st.tuples(st.sampled_from([BIG, LITTLE]), st.integers(1, 4), st.booleans()), max_size=16),
    st.integers(1, 3),
    st.sampled_from([BIG, LITTLE]),
)
def test_strays_are_what_the_likely_byte_order_or_else_the_other_one_leaves_over(
    arrived: list[tuple[str, int, bool]], expected: int, likely: str
) -> None:
    parts = Parts()
    model: dict[int, int] = {}
    for position, (order, number, asks) in enumerate([*arrived, (BIG, 1, True)]):
        parts.add(number_in(order, number), position)
        model.setdefault(number_in(order, number), position)
        if not asks:
            continue
        whole = (
            {number_in(order, each) for each in range(1, expected + 1)}
            for order in sorted((BIG, LITTLE), key=likely.__ne__)
        )
        kept = next((numbers for numbers in whole if numbers <= model.keys()), None)
        strays = parts.take_strays(expected, likely)
        if kept is None:
            assert strays is None
        else:
            assert dict(strays or []) == {
                sequence: model.pop(sequence) for sequence in [*model] if sequence not in kept
            }
        assert dict(parts) == model
        assert parts.count == len(model)
