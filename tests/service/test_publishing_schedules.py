"""Receivers that publish in orders that are drawn, with faults."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from adapters.arrow_journal.archive import ArrowArchive
from app.model.records import Publication
from app.service.receiving.publishing import Publisher, _Own
from tests.support.publishing_schedules import STEP_CALLS, Wrong, schedules

COUNT = 100

Run = Callable[[int], Counter[str]]


@pytest.fixture
def run() -> Iterator[Run]:
    with schedules() as found:
        yield found


def test_nothing_is_lost_and_nothing_is_published_twice(run: Run) -> None:
    happened = sum((run(seed) for seed in range(COUNT)), Counter[str]())
    for call in STEP_CALLS:
        faults = sum(happened[f"{when} {call}"] for when in ("before", "after", "before end", "after end"))
        assert min(happened[call], faults) > 0, call
    assert happened["retired"] > COUNT
    assert min(happened[what] for what in ("paused", "replaced", "put failed")) > 0


@pytest.mark.parametrize("seed", [1_042_114, 1_058_956])
def test_what_went_wrong_once_does_not_again(run: Run, seed: int) -> None:
    run(seed)


def _first_wrong(run: Run) -> str:
    for seed in range(COUNT):
        try:
            run(seed)
        except Wrong as error:
            return str(error)
    return "nothing"


def test_what_was_read_once_is_not_enough(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that goes on after another one has published in its place publishes the same once more."""
    recorded = Publisher._recorded

    def once(self: Publisher, own: Any) -> Any:
        known = vars(self).get("_own")
        if known is None:
            return recorded(self, own)
        return own._replace(published=max(known.published, *(each.segment for each in self._ends), 0))

    monkeypatch.setattr(Publisher, "_recorded", once)
    assert _first_wrong(run) != "nothing"


def test_whose_segment_took_a_number_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def own(self: Publisher, number: int) -> Publication:
        segments = self._own.waiting()
        return Publication(self._own.id, segments[0].number, self._archive.origin(number).end)  # type: ignore[union-attr]

    monkeypatch.setattr(Publisher, "_origin", own)
    found = _first_wrong(run)
    assert "is retired too early" in found or "has journalled" in found


def test_a_number_is_used_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def replaced(self: Any, number: int, pieces: Any) -> bool:
        self._path(number).write_bytes(b"".join(map(bytes, pieces)))
        return True

    monkeypatch.setattr("adapters.arrow_journal.segment_storage.FolderSegments.add", replaced)
    assert _first_wrong(run) != "nothing"


def test_a_receiver_that_was_replaced_adds_nothing_more(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ArrowArchive, "fence", lambda _self, _after: True)
    assert _first_wrong(run) != "nothing"


def test_nothing_is_published_from_behind_a_gap(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = _Own.waiting
    monkeypatch.setattr(_Own, "waiting", lambda self: waiting(self._replace(is_left=False)))
    assert _first_wrong(run) != "nothing"


def test_a_fence_is_right_behind_what_was_published(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fence = ArrowArchive.fence
    monkeypatch.setattr(ArrowArchive, "fence", lambda self, after: fence(self, after + 1))
    assert _first_wrong(run) != "nothing"
