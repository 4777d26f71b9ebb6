"""Observations whose bytes are known, and bytes that are not observations."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from struct import pack
from typing import Any

import pyarrow as pa
import pytest

from app.dataset.decode import BATCH_BYTES, DecodingPlan, Plans, batches, first_plan
from app.dataset.encode import describe
from app.dataset.numeric import ByteOrder
from app.dataset.observation_layout import Representation
from app.dataset.parquet import ROW_GROUP_BYTES, write_parquet
from app.dataset.schema import column_names
from app.model.errors import InvalidInputError
from tests.dataset.reading import read


def data_set(observations: int, **lengths: int) -> tuple[Any, list[Any]]:
    """Character variables have lengths above 8 here, numerics the others."""
    fields = [
        pa.field(name, pa.string() if length > 8 else pa.float64(), metadata={
            "sas.type": "character" if length > 8 else "numeric", "sas.length": str(length),
        })
        for name, length in lengths.items()
    ]  # fmt: skip
    return describe(pa.schema(fields), charset="utf-8", observations=observations)


def decoded(definition: Any, variables: Any, *blocks: bytes, **how: Any) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = read(definition, variables, blocks, **how).to_pydict()
    return columns


def test_missing_values_and_numbers_of_both_orders() -> None:
    """The ordinary missing value, `._`, `.A` and `.Z` as SAS prints them in HEX16., then 1, -2.5 and 0."""
    big = [
        "FFFFFE0000000000", "FFFFFF0000000000", "FFFFFD0000000000", "FFFFE40000000000",
        "3FF0000000000000", "C004000000000000", "0000000000000000",
    ]  # fmt: skip
    orders: dict[ByteOrder, list[bytes]] = {
        "big": [bytes.fromhex(h) for h in big],
        "little": [bytes.fromhex(h)[::-1] for h in big],
    }
    for order, cells in orders.items():
        full, short = data_set(7, x=8), data_set(7, x=3)
        values = {"x": [None] * 4 + [1.0, -2.5, 0.0], "x__missing": [None, "._", ".A", ".Z", None, None, None]}
        assert decoded(*full, b"".join(cells), order=order) == values
        high = slice(None, 3) if order == "big" else slice(5, None)
        assert decoded(*short, b"".join(cell[high] for cell in cells), order=order) == values


def test_ibm_floats() -> None:
    """31.5, 1, -118.625 and 0 as IBM prints them; missing values have their letter before a fraction of zero."""
    cells = "421F800000000000 4110000000000000 C276A00000000000 0000000000000000 2E00000000000000 4100000000000000"
    definition, variables = data_set(6, x=8)
    assert decoded(definition, variables, bytes.fromhex(cells), order="big", float_format="ibm") == {
        "x": [31.5, 1.0, -118.625, 0.0, None, None],
        "x__missing": [None, None, None, None, None, ".A"],
    }


def test_padding_at_the_end_of_a_row() -> None:
    definition, variables = data_set(2, x=8, name=9)
    definition = replace(definition, obs_length=24)
    row = bytes.fromhex("3FF0000000000000") + b"  Ada    " + bytes(7)
    assert decoded(definition, variables, row * 2, order="big") == {"x": [1.0, 1.0], "name": ["  Ada", "  Ada"]}


@pytest.mark.parametrize("charset", ["utf-8", "ascii", "cp1252", "shift_jis"])
def test_undecodable_bytes_never_lose_the_row(charset: str) -> None:
    definition, variables = data_set(2, name=10)
    texts = decoded(definition, variables, b"ab\x81       " + b"cd        ", order="big", charset=charset)["name"]
    assert texts[0].startswith("ab\N{REPLACEMENT CHARACTER}")
    assert texts[1] == "cd"


@pytest.mark.parametrize(
    ("change", "blocks", "code"),
    [
        ({}, [bytes(20)], "observation-torn"),
        ({}, [bytes(16), bytes(16), bytes(16)], "observation-count"),
        ({"observations": 3}, [bytes(32)], "observation-count"),
        ({"obs_length": 15}, [], "observation-length"),
        ({"obs_length": 1 << 40}, [], "observation-length"),
        ({"variables": 3}, [], "variable-count"),
    ],
)
def test_contradictions_are_theirs(change: dict[str, int], blocks: list[bytes], code: str) -> None:
    definition, variables = data_set(2, a=8, b=8)
    with pytest.raises(InvalidInputError) as refused:
        read(replace(definition, **change), variables, blocks, order="big")
    assert refused.value.code == code


@pytest.mark.parametrize("length", [-1, 0, 1, 9, 1 << 31])
def test_numerics_of_impossible_length_are_theirs(length: int) -> None:
    definition, variables = data_set(-1, a=8)
    with pytest.raises(InvalidInputError) as refused:
        read(definition, [replace(variables[0], length=length)], [], order="big")
    assert refused.value.code == "variable-length"


def test_an_unknown_number_of_observations_is_counted() -> None:
    definition, variables = data_set(-1, a=8)
    assert decoded(definition, variables, bytes(24), order="big") == {"a": [0.0, 0.0, 0.0]}


def test_names_are_made_usable_and_different() -> None:
    definition, (variable,) = data_set(0, a=8)
    sent = ["x", "X", "", "x_2", "y  ", "Y\0", "VAR3"]
    variables = [replace(variable, name=name) for name in sent]
    assert column_names(variables) == ["x", "X_3", "VAR3_2", "x_2", "y", "Y_2", "VAR3"]
    table = read(replace(definition, variables=7, obs_length=56), variables, [], order="big")
    assert [(field.metadata.get(b"sas.name"), field.name) for field in table.schema][1] == (b"X", "X_3")


def test_data_sets_with_the_same_definition_share_what_follows_from_it() -> None:
    """Their observations, their own metadata and their warnings are not shared."""
    definition, variables = data_set(2, x=8, text=9)
    plans: Plans = {}

    def planned(numbers: str, observations: int, **own: str) -> DecodingPlan:
        rows = b"".join(pack(f"{numbers}d", n) + b"some text" for n in range(1, 3))
        same = replace(definition, observations=observations)
        return first_plan(same, variables, Representation("little"), lambda: [rows], own, plans=plans)

    first, again = planned("<", 2, member="a"), planned("<", 2, member="a")
    assert again is first
    other, doubtful = planned("<", -1, member="b"), planned(">", 2, member="a")
    assert other.columns is doubtful.columns is first.columns
    assert [plan.schema.metadata.get(b"member") for plan in (first, other, doubtful)] == [b"a", b"b", b"a"]
    assert (first.observations, other.observations) == (2, -1)
    assert [b"sas.warnings" in plan.schema.metadata for plan in (first, other, doubtful)] == [False, False, True]
    for plan in (other, doubtful):
        alone = first_plan(definition, variables, Representation("little"), lambda: (), plan.metadata)
        assert plan.schema.equals(alone.schema, check_metadata=True)


def test_memory_does_not_grow_with_the_data_set() -> None:
    definition, variables = data_set(-1, x=8, y=8, text=4000)
    row = bytes(16) + b"some text".ljust(4000)
    total = 256 << 20

    def blocks() -> Iterator[bytes]:
        for _ in range(total // (len(row) * 8)):
            yield row * 8

    class Discard:
        def write(self, data: bytes, /) -> None:
            pass

    tracemalloc.start()
    before = pa.total_allocated_bytes()
    plan = first_plan(definition, variables, Representation("big"), blocks)
    peak = 0

    def watched() -> Iterator[pa.RecordBatch]:
        nonlocal peak
        for batch in batches(plan, blocks()):
            peak = max(peak, pa.total_allocated_bytes() - before)
            yield batch

    count = write_parquet(plan.schema, watched(), Discard())
    _, traced = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == total // (len(row) * 8) * 8
    assert traced < 8 * BATCH_BYTES
    assert peak < 2 * ROW_GROUP_BYTES
