"""Receivers that are asked to leave: who ends which sessions, and when the request is over."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from app.model.records import JournalIdentity
from app.ports import ArchivedJournal, Intake
from app.service.context import ReceiverContext
from app.service.receiving.leaving import Leaving
from app.testing.gateway_stages import service_context
from app.testing.waiting import until
from tests.support.service_context import Connected

JOINED = ArchivedJournal(JournalIdentity("s" * 32, 1), 0, 0)
AWAY, ONE, TWO = ("a" * 32, "b" * 32, "c" * 32)


class Broker:
    """Sessions that a test empties, and by whom each is being ended."""

    def __init__(self) -> None:
        self.is_empty, self.busy, self.ended = Event(), list[tuple[str, str]](), list[tuple[str, str]]()


class Kept:
    """A session, as one of the receivers sees it."""

    def __init__(self, broker: Broker, by: str, name: str) -> None:
        self.broker, self.by, self.name = broker, by, name

    def end(self, intake: Intake, stop: Event) -> bool:
        del intake
        self.broker.busy.append((self.by, self.name))
        while not self.broker.is_empty.wait(0.01):
            if stop.is_set():
                self.broker.busy.remove((self.by, self.name))
                return False
        self.broker.ended.append((self.by, self.name))
        return True


class Member(Connected):
    """The receiver of a source."""

    def __init__(self, broker: Broker, by: str) -> None:
        super().__init__()
        self._broker, self._by = broker, by

    def session(self, name: str | None = None) -> Any:
        return Kept(self._broker, self._by, name or self._by)


class Place:
    """Receivers that share a catalog and a broker."""

    def __init__(self, context: ReceiverContext) -> None:
        self.context, self.catalog, self.broker = context, context.catalog, Broker()

    def join(self, journal: str, sessions: Mapping[str, str], seconds: int = 0, *, in_archive: bool = False) -> None:
        """Have a receiver join that was seen so many seconds ago."""
        own = JournalIdentity(journal, 1)
        self.catalog.join(own, "process", sessions, JOINED, in_archive=in_archive, sessions=sessions)
        with closing(sqlite3.connect(self.context.settings.data / "catalog.sqlite", isolation_level=None)) as database:
            database.execute(
                "UPDATE receiving_journals SET seen_at = seen_at - ? WHERE id = ?", [seconds * 10**6, journal]
            )

    def begin(self, journal: str, receives: Event | None = None, ends: Event | None = None) -> Leaving:
        context = replace(self.context, instance=journal)
        intake: Any = None
        is_receiving = (receives or Event()).is_set
        return Leaving(
            context, journal, {"quay": Member(self.broker, journal)}, lambda _: intake, is_receiving, ends or Event()
        )

    def joined(self) -> list[str]:
        return [each.id for each in self.catalog.receiving_journals()]


def step_until(leaving: Leaving, condition: Callable[[], bool]) -> None:
    def is_so() -> bool:
        leaving.step()
        return condition()

    until(is_so)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with service_context(tmp_path) as context:
        yield Place(context)


def test_one_of_the_others_ends_the_sessions_of_one_that_is_away(place: Place) -> None:
    place.join(AWAY, {"quay": "gone"}, 3600)
    one, two = place.begin(ONE), place.begin(TWO)
    one.step()
    assert place.broker.busy == [], "nobody has asked for it"
    place.catalog.ask_to_leave(AWAY)
    for each in (one, two, one, two):
        each.step()
    until(lambda: place.broker.busy == [(ONE, "gone")])
    assert place.joined() == [AWAY]
    one.stop()
    assert place.broker.busy == [], "it stops, and another one goes on"
    two.step()
    until(lambda: place.broker.busy == [(TWO, "gone")])
    place.broker.is_empty.set()
    step_until(two, lambda: not place.joined())
    assert place.broker.ended == [(TWO, "gone")]


def test_a_receiver_that_comes_back_keeps_its_session(place: Place) -> None:
    place.join(AWAY, {"quay": "gone"}, 3600)
    place.catalog.ask_to_leave(AWAY)
    one = place.begin(ONE)
    one.step()
    until(lambda: place.broker.busy == [(ONE, "gone")])
    place.join(AWAY, {"quay": "gone"})
    step_until(one, lambda: not place.broker.busy)
    assert (place.broker.ended, place.joined()) == ([], [AWAY])


@pytest.mark.parametrize("why", ["seen", "unpublished", "another source"])
def test_one_that_may_not_be_replaced_waits(place: Place, why: str) -> None:
    sessions = {"crane" if why == "another source" else "quay": "gone"}
    place.join(AWAY, sessions, 3 if why == "seen" else 3600, in_archive=why == "unpublished")
    place.catalog.ask_to_leave(AWAY)
    place.broker.is_empty.set()
    one = place.begin(ONE)
    for _ in range(3):
        one.step()
    assert (place.broker.ended, place.joined()) == ([], [AWAY])


def test_one_that_leaves_ends_its_session_when_its_receivers_have_ended(place: Place) -> None:
    place.join(AWAY, {"quay": "gone"}, 3600)
    place.join(ONE, {"quay": "mine"})
    place.catalog.ask_to_leave(AWAY)
    receives, ends = Event(), Event()
    receives.set()
    one = place.begin(ONE, receives, ends)
    one.step()
    until(lambda: place.broker.busy == [(ONE, "gone")])
    place.catalog.ask_to_leave(ONE)
    one.step()
    assert ends.is_set()
    until(lambda: not place.broker.busy)
    one.step()
    assert place.broker.busy == [], "its receiver still runs"
    receives.clear()
    place.catalog.leave(ONE)  # forgotten while it could not be seen; it joins again
    one.step()
    place.join(ONE, {"quay": "mine"})
    step_until(one, lambda: place.broker.busy == [(ONE, "mine")])
    place.broker.is_empty.set()
    step_until(one, lambda: one.is_empty)
    assert place.broker.ended == [(ONE, "mine")]
    assert place.joined() == [AWAY, ONE], "it leaves when all is published"
