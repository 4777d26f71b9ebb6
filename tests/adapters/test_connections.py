"""What transports have in common about a connection."""

from pathlib import Path
from threading import Event

import pytest
import structlog

from adapters.connections import FIRST_PAUSE, LONGEST_PAUSE, REFUSED_PAUSE, Backoff, ConnectionState, LogIn
from app.secret import Secret, ValueFile


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


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text("first")
    return file


def test_refused_credentials_of_a_file_are_tried_again_soon_and_when_they_change(stop: Waits, secret: Path) -> None:
    password = Secret.of(ValueFile(secret, "password_file"))
    log_in = LogIn(password=password)
    backoff = Backoff(log_in)
    log_in.refused()
    for _ in range(12):
        stop.waited.clear()
        backoff.wait(stop, least=LONGEST_PAUSE)
        assert sum(stop.waited) <= REFUSED_PAUSE
    assert sum(stop.waited) == REFUSED_PAUSE
    assert log_in.status()["credential"] == "password_file"

    secret.write_text("second")
    stop.waited.clear()
    backoff.wait(stop, least=LONGEST_PAUSE)
    assert sum(stop.waited) < 1
    assert password.get_secret_value() == "second"
    stop.waited.clear()
    backoff.wait(stop)
    assert sum(stop.waited) == REFUSED_PAUSE

    log_in.accepted()
    assert log_in.status() == {"credential": "password_file", "refused_since": None}


def test_refused_credentials_that_cannot_change_are_not_tried_more_often(stop: Waits) -> None:
    log_in = LogIn(password=Secret("first"), username=None)
    log_in.refused()
    Backoff(log_in).wait(stop, least=LONGEST_PAUSE)
    assert stop.waited == [LONGEST_PAUSE]
    since = log_in.refused_since
    log_in.refused()
    assert log_in.status() == {"credential": "password", "refused_since": since}


def test_a_status_says_since_when_or_why_not() -> None:
    state = ConnectionState(structlog.get_logger())
    state.opened(version="5")
    assert state.status == {"connected": True, "since": state.status["since"], "error": None, "version": "5"}
    state.failed("refused")
    assert state.status == {"connected": False, "since": None, "error": "refused"}
