"""Standing by: who becomes active, and when a gateway has to give up."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any, Protocol

import pytest

from app import plugins
from app.model.errors import CatalogError
from app.ports import ACTIVE, HeldLease, OpenLeases
from app.service.instance import new_instance
from app.service.roles.election import StandingBy
from app.testing.waiting import until

PATIENT = 60.0
"""A holder keeps the lease even while this machine is too busy to run it."""
SHORT = 0.6


class Elect(Protocol):
    def __call__(self, seconds: float = ...) -> "Candidate": ...


class Candidate:
    """A process that stands by, run in a thread; and its leases, which may be away (`error`) or silent (`hanging`)."""

    def __init__(self, leases: OpenLeases, seconds: float) -> None:
        self._leases = leases
        self.error = ""
        self.hanging = Event()
        self.why: list[str] = []
        self.won: HeldLease | None = None
        self.name = new_instance()
        self.standing = StandingBy(self, self.name, seconds, self.why.append)
        self.standing.election.retry = min(self.standing.election.retry, 0.05)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._leases, name)

        def answer(*given: Any, **more: Any) -> Any:
            if self.hanging.is_set():
                until(lambda: not self.hanging.is_set())
            if self.error:
                raise CatalogError(self.error)
            return asked(*given, **more)

        return answer

    def check(self) -> dict[str, Any]:
        return self.standing.election.check()

    def _run(self) -> None:
        self.won = self.standing.wait()

    def await_won(self) -> None:
        until(lambda: self.won, pause=0.005)

    def end(self) -> None:
        self.hanging.clear()
        self.error = ""
        self.standing.wake()
        self._thread.join()
        self.standing.release()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'catalog'}"


@pytest.fixture
def elect(url: str) -> Iterator[Elect]:
    made: list[Candidate] = []

    def candidate(seconds: float = PATIENT) -> Candidate:
        made.append(Candidate(plugins.catalog().leases(url), seconds))
        return made[-1]

    yield candidate
    for each in made:
        each.end()


def test_one_is_active_until_it_gives_the_lease_up(elect: Elect) -> None:
    one = elect()
    one.await_won()
    two = elect()
    until(lambda: two.check()["holder"] == one.name)
    assert two.won is None
    one.end()
    two.await_won()
    assert one.why == []
    assert two.won == HeldLease(ACTIVE, two.name, 2)
    assert two.check() == {"ok": True, "is_held": True, "epoch": 2, "holder": two.name, "error": None}


def test_of_several_that_begin_at_once_with_a_new_database_one_is_active(elect: Elect) -> None:
    both = elect(), elect()
    until(lambda: any(each.won for each in both), pause=0.005)
    until(lambda: all(each.check()["holder"] for each in both))
    (active,) = [each.name for each in both if each.won]
    assert {each.check()["holder"] for each in both} == {active}


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_holder_that_is_cut_off_gives_up_before_another_takes_over(elect: Elect, is_silent: bool) -> None:
    one = elect(SHORT)
    one.await_won()
    two = elect(SHORT)
    until(lambda: two.check()["holder"])
    if is_silent:
        one.hanging.set()
    else:
        one.error = "the catalog is away"
    until(lambda: one.why, pause=0.005)
    assert two.won is None
    why = "the database gives no answer" if is_silent else "the catalog is away"
    assert one.why == [f"the lease active is lost: it could not be renewed in time: {why}"]
    two.await_won()


def test_a_holder_that_was_paused_gives_up_also_if_it_would_renew_first(url: str) -> None:
    why: list[str] = []
    standing = StandingBy(plugins.catalog().leases(url), "one", PATIENT, why.append)
    election = standing.election
    election.campaign()
    election._renewed -= PATIENT
    election.retry = 0.0
    election.end = lambda *_: election.stop()  # type: ignore[method-assign]
    election._run()
    standing.release()
    assert why == ["the lease active is lost: it could not be renewed in time: the database gives no answer"]


def test_a_database_that_is_away_is_asked_again(elect: Elect) -> None:
    one = elect()
    one.await_won()
    two = elect()
    until(lambda: two.check()["holder"])
    for each in (one, two):
        each.error = "the catalog is away"
        until(lambda each=each: each.check()["error"] == "the catalog is away")  # type: ignore[misc]
        assert not each.check()["ok"]
        each.error = ""
        until(lambda each=each: each.check()["ok"])  # type: ignore[misc]
    assert (one.why, two.won) == ([], None)


def test_a_lease_that_another_process_takes_is_lost(elect: Elect, url: str) -> None:
    one = elect()
    one.await_won()
    leases = plugins.catalog().leases(url)
    assert leases.take_lease(ACTIVE, "another", PATIENT, at_once=True) is not None
    leases.close()
    until(lambda: one.why, pause=0.005)
    assert one.why == ["the lease active is lost: another process has taken it"]


def test_a_signal_ends_the_wait_and_is_known_when_the_lease_came_first(elect: Elect) -> None:
    one = elect()
    one.await_won()
    assert not one.standing.is_woken
    one.standing.wake()
    assert one.standing.is_woken
    two = elect()
    until(lambda: two.check()["holder"])
    two.end()
    assert two.won is None
