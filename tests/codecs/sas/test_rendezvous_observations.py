"""Observations on TIB/Rendezvous: the fast ways of reading them agree with the plain one, which agrees with bytes that
were made by the specification."""

import json
import struct
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.codecs.sas import rendezvous_observations as observations
from app.codecs.sas.rendezvous_observations import Block, Shape, read_observations, write_observations
from app.wire import WireError
from tests.codecs.sas.rendezvous_bytes import Made, f64, field, fields_in, framed, i32, i64, message, string

MIXED = Shape((False, True), (8, 8))
MISSING_A = bytes.fromhex("fffffe0000000000")


def value(shape: Shape, index: int, held: float | str) -> list[Made]:
    """Fields 3 and 4 of the specification."""
    if shape.numeric[index % len(shape.numeric)]:
        return [i32(1), f64(float(held))]
    return [i32(2), string(str(held))]


def made(shape: Shape, values: list[float | str], repeats: int = 1, first: int = 0, said: int | None = None) -> bytes:
    """A message whose values repeat the type of record (1), nothing (0), or the count as well (2)."""
    numbers = [i32(len(values) if said is None else said), i32(3)]
    fields = numbers[: 2 - repeats]
    for index, held in enumerate(values, first):
        fields += [*numbers[2 - repeats :][:repeats], *value(shape, index, held)]
    return message("ATO", fields)


def rows_of(shape: Shape, values: list[float | str], first: int = 0) -> bytes:
    cells = []
    for index, held in enumerate(values, first):
        number = index % len(shape.numeric)
        numeric = shape.numeric[number]
        cells.append(struct.pack(">d", held) if numeric else str(held).encode("latin-1").ljust(shape.widths[number]))
    return b"".join(cells)


def ways(body: bytes, shape: Shape, first: int) -> dict[str, Block | None]:
    buffer = np.frombuffer(body, np.uint8)
    return {
        "regular": observations._regular(buffer, shape, first % len(shape.widths)),
        "general": observations._general(buffer, shape, first),
        "plain": observations._plain(body, shape, first),
    }


SAMPLE: list[float | str] = ["Alfred", 14.0, "Alice\xfc", -0.5, "", float("inf"), "12345678", 0.0]


@pytest.mark.parametrize("repeats", [0, 1, 2])
@pytest.mark.parametrize("first", [0, 1, 7])
def test_values_are_read_wherever_the_type_of_record_stands(repeats: int, first: int) -> None:
    values = SAMPLE if not first % 2 else SAMPLE[1:]
    body = made(MIXED, values, repeats, first)
    found = ways(body, MIXED, first)
    assert found["regular"] is None
    for way in ("general", "plain"):
        block = found[way]
        assert block is not None
        assert (block.stated, block.values) == (len(values), len(values))
        assert block.data.tobytes() == rows_of(MIXED, values, first)


@pytest.mark.parametrize("repeats", [0, 1])
@pytest.mark.parametrize("first", [0, 1])
def test_texts_filled_up_with_blanks_are_read_by_a_template(repeats: int, first: int) -> None:
    values = [f"{held:8s}" if isinstance(held, str) else held for held in SAMPLE * 500]
    values = values[first : len(values) - first]
    body = made(MIXED, values, repeats, first)
    for block in ways(body, MIXED, first).values():
        assert block is not None
        assert block.data.tobytes() == rows_of(MIXED, values, first)


def test_messages_of_another_implementation_are_read_and_written_again() -> None:
    body = bytes.fromhex(json.loads(Path("tests/vectors/rendezvous/rv_ato.json").read_text())["hex"])
    rows = b"Alfred  " + struct.pack(">d", 14)
    for block in ways(body, MIXED, 0).values():
        assert block is not None
        assert (block.stated, block.data.tobytes()) == (2, rows)
    assert [*write_observations([rows], MIXED)] == [body]


def test_special_missing_values_keep_their_bits() -> None:
    body = bytearray(made(MIXED, ["Alfred  ", 0.0]))
    body[-8:] = MISSING_A
    for block in ways(bytes(body), MIXED, 0).values():
        assert block is not None
        assert block.data.tobytes()[8:] == MISSING_A


@pytest.mark.parametrize("nul", [b"\1", b"\0"])
def test_what_looks_like_a_field_within_a_text_is_none(nul: bytes) -> None:
    """With a NUL in it, it ends the text, though the field goes on."""
    shape = Shape((False, True), (40, 8))
    decoy = field("ATO", 2, i32(1))
    texts = [decoy.replace(b"\0", b"\1").decode("latin-1"), "\x06ATO\1\x0b"]
    body = made(shape, [texts[0], 1.0, texts[1], 2.0])
    sent = body.replace(b"\x06ATO\1", b"\x06ATO" + nul)
    plain = ways(sent, shape, 0)["plain"]
    assert plain is not None
    assert plain.data.tobytes()[:4] == b"\x06ATO"
    assert (plain.data.tobytes()[:40] == b"\x06ATO".ljust(40)) == (nul == b"\0")
    assert read_observations(sent, shape).data.tobytes() == plain.data.tobytes()
    general = ways(sent, shape, 0)["general"]
    assert (general is None) == (nul == b"\0")


def test_long_texts_have_sizes_of_two_and_four_bytes() -> None:
    shape = Shape((False, False, True), (200, 40_000, 8))
    values: list[float | str] = ["a" * 200, "b" * 40_000, 1.0, "", "c" * 119, 2.0]
    body = made(shape, values)
    found = ways(body, shape, 0)
    for way in ("general", "plain"):
        block = found[way]
        assert block is not None
        assert block.data.tobytes() == rows_of(shape, values)


def test_fields_come_in_any_order() -> None:
    body = made(MIXED, SAMPLE)
    fields = [each for _, each in fields_in(body)]
    Random(4).shuffle(fields)
    assert read_observations(framed(b"".join(fields)), MIXED).data.tobytes() == rows_of(MIXED, SAMPLE)


def test_integers_of_other_widths_are_read() -> None:
    body = message("ATO", [i64(1), i64(3), i64(1), f64(2.5)])
    assert read_observations(body, Shape((True,), (8,))).data.tobytes() == struct.pack(">d", 2.5)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([i32(1), i32(3), i32(2), f64(1)], "a value of another type than its variable"),
        ([i32(1), i32(3), i32(1), string("x")], "STRING instead of F64"),
        ([i32(1), i32(2), i32(1), f64(1)], "2, but the type of record is 3"),
        ([i32(1), i32(3), i32(1)], "not whole values"),
        ([i32(1), i32(3), i32(1), f64(1), i32(3), i32(2), string("123456789")], "9 bytes, but the variable has 8"),
        ([string("1")], "STRING instead of an integer"),
        ([], "ends after 0 fields"),
    ],
)
def test_what_the_specification_does_not_allow_is_refused(fields: list[Made], why: str) -> None:
    with pytest.raises(WireError, match=why) as raised:
        read_observations(message("ATO", fields), Shape((True, False), (8, 8)))
    assert raised.value.row


def test_a_message_without_values_is_read() -> None:
    for fields in ([i32(0)], [i32(0), i32(3)]):
        block = read_observations(message("ATO", fields), MIXED)
        assert (block.stated, block.values, len(block.data)) == (0, 0, 0)


shapes = st.lists(st.tuples(st.booleans(), st.integers(1, 200)), min_size=1, max_size=6).map(
    lambda each: Shape(tuple(numeric for numeric, _ in each), tuple(8 if numeric else size for numeric, size in each))
)


@settings(deadline=None)
@given(shapes, st.integers(0, 60), st.integers(0), st.booleans(), st.sampled_from([700, 3000, 32000]))
@example(Shape((True,), (8,)), 0, 1, False, 700)
def test_any_rows_come_back(shape: Shape, rows: int, seed: int, type_once: bool, limit: int) -> None:
    random = np.random.default_rng(seed)
    cells = random.integers(1, 256, (rows, shape.length), dtype=np.uint8)
    cells[random.random(cells.shape) < 0.2] = 6
    for at, (numeric, width) in zip(accumulate(shape.widths, initial=0), zip(*shape, strict=True), strict=False):
        if numeric:
            cells[:, at : at + width] = random.integers(0, 3, (rows, width), dtype=np.uint8) * 127
    data = cells.tobytes()
    bodies = [*write_observations([data], shape, limit, type_once=type_once)]
    assert all(len(body) <= limit for body in bodies)
    first, pieces = 0, []
    for body in bodies:
        for block in ways(body, shape, first).values():
            assert block is None or block.data.tobytes() == read_observations(body, shape, first).data.tobytes()
        assert ways(body, shape, first)["general"] is not None
        block = read_observations(body, shape, first)
        assert block.stated == block.values
        first += block.values
        pieces.append(block.data.tobytes())
    assert b"".join(pieces) == data
    assert first == rows * len(shape.widths)


class Names(Random):
    """Draws texts that end like the name of a field."""

    def choices(self, *_: Any, k: int) -> list[str]:  # type: ignore[override]
        return [*"a\x06ATO"][-k:]

    def randint(self, _: int, most: int) -> int:
        return most


@settings(deadline=None)
@example(Shape((False, True), (5, 8)), 2, 0, 0, Names())
@given(shapes, st.integers(1, 40), st.integers(0, 9), st.sampled_from([0, 1, 2]), st.randoms(use_true_random=False))
def test_texts_of_any_length_are_gathered(shape: Shape, count: int, first: int, repeats: int, random: Random) -> None:
    values: list[float | str] = []
    for index in range(first, first + count):
        number = index % len(shape.widths)
        text = "".join(random.choices("aZ \xfc\x06ATO", k=random.randint(0, shape.widths[number]))).rstrip()
        values.append(random.choice((0.0, -2.5, float("inf"))) if shape.numeric[number] else text)
    body = made(shape, values, repeats, first)
    found = ways(body, shape, first)
    # A text with the bytes of a field's name is left to the plain way.
    assert found["general"] is not None or "\x06ATO" in {str(held)[-4:] for held in values}
    for block in (found["general"] or found["plain"], found["plain"], read_observations(body, shape, first)):
        assert block is not None
        assert (block.stated, block.values) == (count, count)
        assert block.data.tobytes() == rows_of(shape, values, first)


def test_a_row_longer_than_a_message_is_cut_between_its_values() -> None:
    shape = Shape((True,) * 40, (8,) * 40)
    data = np.arange(80, dtype=">f8").tobytes()
    bodies = [*write_observations([data], shape, 400)]
    assert len(bodies) > 2
    first, pieces = 0, []
    for body in bodies:
        assert ways(body, shape, first)["plain"] is not None
        block = read_observations(body, shape, first)
        first += block.values
        pieces.append(block.data.tobytes())
    assert b"".join(pieces) == data
    with pytest.raises(WireError, match="a value of 500 bytes, but a message has room for"):
        list(write_observations([bytes(500)], Shape((False,), (500,)), 400))


def test_rows_that_fields_cannot_hold_are_not_written() -> None:
    with pytest.raises(WireError, match="a NUL within a text"):
        list(write_observations([bytes(16)], MIXED))
    with pytest.raises(WireError, match="not rows of 16"):
        list(write_observations([bytes(15)], MIXED))


@pytest.mark.parametrize("values", [SAMPLE, [f"{held:8s}" if isinstance(held, str) else held for held in SAMPLE]])
def test_cuts_and_mutations_mean_the_same_in_every_way(values: list[float | str]) -> None:
    body = made(MIXED, values)
    for end in range(len(body)):
        with pytest.raises(WireError):
            read_observations(body[:end], MIXED)
    random = Random(13)
    for _ in range(4_000):
        data = bytearray(body)
        for _ in range(random.choice((1, 1, 2, 4))):
            data[random.randrange(len(data))] = random.randrange(256)
        if random.random() < 0.2:
            data[:4] = len(data).to_bytes(4, "big")
        try:
            plain = observations._plain(bytes(data), MIXED, 0)
        except WireError as error:
            assert 0 <= error.at <= len(data)  # noqa: PT017
            with pytest.raises(WireError):
                read_observations(bytes(data), MIXED)
            continue
        found = read_observations(bytes(data), MIXED)
        assert (found.stated, found.values, found.data.tobytes()) == (plain.stated, plain.values, plain.data.tobytes())
