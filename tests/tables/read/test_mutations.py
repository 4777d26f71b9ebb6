"""A damaged file gives a table or an error of ours, in the process with limits that converts uploads."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from app.model.errors import LimitExceeded
from app.service.conversion import Conversions, Slot, finished
from app.settings import Limits
from tests.support.length import IS_LONG
from tests.tables.read import mutating

MUTATIONS = 10_000 if IS_LONG else 150
"""The number of damaged files of each format."""

AT_ONCE = 1_000


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def conversions(runner: asyncio.Runner) -> Iterator[Conversions]:
    conversions = Conversions(Limits())
    yield conversions
    runner.run(conversions.close())


async def _counts(conversions: Conversions, name: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for first in range(0, MUTATIONS, AT_ONCE):
        async with conversions.slot() as slot:
            end = min(first + AT_ONCE, MUTATIONS)
            counts.update(await slot.within_time(partial(_run, slot, name, first, end)))
    return counts


def _run(slot: Slot, name: str, first: int, end: int) -> dict[str, int]:
    return finished(slot.run(mutating.outcomes, name, first, end))


@pytest.mark.parametrize("name", mutating.NAMES)
def test_a_damaged_file_is_read_whole_or_refused(runner: asyncio.Runner, conversions: Conversions, name: str) -> None:
    try:
        counts = runner.run(_counts(conversions, name))
    except LimitExceeded as error:
        pytest.fail(f"a file was not refused before it took too much: {error}")
    assert counts.total() == MUTATIONS
    assert counts["table"] > 0
    assert counts["refused"] > 0
