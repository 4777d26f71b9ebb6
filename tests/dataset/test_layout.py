"""Where values lie in observations that are longer than their variables."""

from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from app.codecs.sas.data_set_messages import DataSetDefinition, Variable
from app.dataset import numeric, observation_layout
from app.dataset.observation_layout import Representation
from app.model.errors import InvalidInputError
from tests.dataset.reading import read

LENGTHS = {"name": 5, "amount": 8, "code": 3, "rate": 8}
VARIABLES = [Variable(name=name, type=b"\1" if size == 8 else b"\2", length=size) for name, size in LENGTHS.items()]
OFFSETS = {
    "padded": (0, 5, 13, 16),
    "numerics-first": (16, 0, 21, 8),
    "aligned": (0, 8, 16, 24),
}
VALUES: dict[str, list[Any]] = {
    "name": ["Ada", "Bob", ""],
    "amount": [1.5, -2_000.0, 0.0],
    "code": ["x", "yy", "zzz"],
    "rate": [0.25, 1e9, 7.0],
}


def observations(offsets: tuple[int, ...], length: int, how: Representation) -> bytes:
    """The values at these bytes of observations of this length."""
    cells = np.zeros((3, length), np.uint8)
    for (name, size), at in zip(LENGTHS.items(), offsets, strict=True):
        if size == 8:
            cells[:, at : at + 8] = numeric.encode(np.array(VALUES[name]), 8, how.order, how.float_format)
        else:
            texts = "".join(str(value).ljust(size) for value in VALUES[name]).encode(how.charset)
            cells[:, at : at + size] = np.frombuffer(texts, np.uint8).reshape(3, size)
    return cells.tobytes()


@pytest.mark.parametrize(
    "how",
    [Representation("little"), Representation("big"), Representation("big", "ibm", "cp037")],
    ids=["little", "big", "ibm"],
)
@pytest.mark.parametrize(("name", "length"), [("padded", 24 + 3), ("numerics-first", 24 + 3), ("aligned", 32)])
def test_the_layout_that_makes_sense_is_chosen(name: str, length: int, how: Representation) -> None:
    definition = DataSetDefinition(type=1, observations=3, variables=4, obs_length=length)
    raw = observations(OFFSETS[name], length, how)
    table = read(definition, VARIABLES, [raw[:10], raw[10:]], **how._asdict())
    assert table.to_pydict() == VALUES
    assert table.schema.metadata[b"sas.layout"].decode() == name


def test_side_by_side_needs_no_guess() -> None:
    definition = DataSetDefinition(type=1, observations=3, variables=4, obs_length=24)
    packed = tuple(accumulate(LENGTHS.values(), initial=0))[:-1]
    table = read(definition, VARIABLES, [observations(packed, 24, Representation("big"))], order="big")
    assert table.to_pydict() == VALUES
    assert b"sas.layout" not in table.schema.metadata


def test_without_observations_the_first_layout_will_do() -> None:
    definition = DataSetDefinition(type=1, variables=4, obs_length=27)
    assert read(definition, VARIABLES, [], order="big").schema.metadata[b"sas.layout"] == b"padded"


@pytest.mark.parametrize("length", [23, 0, 33, 1 << 30])
def test_lengths_that_fit_no_layout_are_refused(length: int) -> None:
    definition = DataSetDefinition(type=1, observations=-1, variables=4, obs_length=length)
    with pytest.raises(InvalidInputError, match="the variables need 24 bytes") as refused:
        read(definition, VARIABLES, [], order="big")
    assert refused.value.code == "observation-length"


def test_numbers_that_speak_against_the_byte_order_are_a_warning() -> None:
    cells = numeric.encode(np.arange(1.0, 50.0), 8, "little").tobytes()
    definition = DataSetDefinition(type=1, observations=49, variables=1, obs_length=8)
    wrong, right = (read(definition, [Variable(name="x")], [cells], order=order) for order in ("big", "little"))
    assert b"low byte first" in wrong.schema.metadata[b"sas.warnings"]
    assert b"sas.warnings" not in right.schema.metadata


def test_flags_and_blank_texts_are_no_doubt() -> None:
    cells = numeric.encode(np.array([0.0, 1.0, 0.0]), 8, "big", "ibm")
    variables = [Variable(name="x"), Variable(name="c", type=b"\2", length=4)]
    rows = np.hstack([cells, np.full((3, 4), 0x20, np.uint8)])
    for how in (Representation("big", "ibm"), Representation("big", "ieee")):
        assert observation_layout.doubts(rows, variables, (0, 8), how) is None
