"""What transports have in common about a connection."""

from threading import Event

import pytest

from adapters.connections import FIRST_PAUSE, LONGEST_PAUSE, Backoff, connected, not_connected


class Waits(Event):
    """An event that is never set, and whose waits take no time."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0.0)
        return False


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Waits:
    monkeypatch.setattr("random.uniform", lambda _least, most: most)
    return Waits()


def test_each_pause_is_twice_the_one_before_up_to_the_longest(stop: Waits) -> None:
    backoff = Backoff()
    for _ in range(12):
        backoff.wait(stop)
    assert stop.waited[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert stop.waited[-2:] == [LONGEST_PAUSE, LONGEST_PAUSE]
    backoff.reset()
    backoff.wait(stop)
    assert stop.waited[-1] == FIRST_PAUSE


def test_some_faults_are_waited_out_longer(stop: Waits) -> None:
    backoff = Backoff()
    backoff.wait(stop, least=5, longest=300)
    backoff.wait(stop, least=5, longest=300)
    backoff.wait(stop)
    assert stop.waited == [5, 10, 20]


def test_a_status_says_since_when_or_why_not() -> None:
    status = connected(version="5")
    assert status == {"connected": True, "since": status["since"], "error": None, "version": "5"}
    assert not_connected("refused") == {"connected": False, "since": None, "error": "refused"}
