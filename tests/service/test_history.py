"""The last hour in memory."""

import pytest
from structlog.testing import capture_logs

from app.metrics import Metrics
from app.model.records import EventRecord
from app.service.monitoring.history import POINTS, RATE_SAMPLES, Activity, History
from app.testing.gateway_stages import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    clock = ManualClock()
    clock.time -= clock.time % 60_000_000
    return clock


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def event(kind: str, source: str = "a") -> EventRecord:
    return EventRecord(1, kind, "id", 1, {"source": source})


def test_minutes_add_up_by_source(clock: ManualClock, metrics: Metrics) -> None:
    history = History(metrics, clock, dict)
    metrics.count_received("a", 3, 300)
    history.sample()
    metrics.count_received("b", 1, 10)
    history.sample()
    clock.advance(60)
    metrics.count_received("a", 2, 20)
    history.sample()
    history.sample()
    history.take([event("attachment.finished"), event("message.quarantined", "b"), event("attachment.expired")])
    clock.advance(120)
    activities = [point.activity for point in history.points()]
    assert activities == [Activity(4, 310), Activity(2, 20, 1, 1), Activity(), Activity()]
    assert [point.activity for point in history.points({"b"})][:2] == [Activity(1, 10), Activity(quarantined=1)]
    assert [point.time for point in history.points()][-1] == clock.now()


def test_an_hour_is_kept(clock: ManualClock, metrics: Metrics) -> None:
    history = History(metrics, clock, dict)
    for _ in range(POINTS + 5):
        metrics.count_received("a", 1, 1)
        history.sample()
        clock.advance(60)
    assert len(history.points()) == POINTS
    assert len(history._points) <= POINTS
    assert sum(point.activity.messages for point in history.points()) == POINTS - 1, "the last minute has just begun"


def test_a_clock_that_is_set_back_forgets_what_is_ahead(clock: ManualClock, metrics: Metrics) -> None:
    history = History(metrics, clock, dict)
    metrics.count_received("a", 5, 5)
    history.sample()
    clock.leap(-7200)
    metrics.count_received("a", 2, 2)
    history.sample()
    assert [point.activity.messages for point in history.points()] == [2]


def test_rates_are_those_of_the_last_seconds(clock: ManualClock, metrics: Metrics) -> None:
    history = History(metrics, clock, dict)
    assert history.received("a") == (0.0, 0.0)
    for _ in range(RATE_SAMPLES + 3):
        clock.advance(1)
        metrics.count_received("a", 20, 2000)
        metrics.count_sent("to", 5, 50)
        history.sample()
    assert (history.received("a"), history.sent("to"), history.received("b")) == ((20, 2000), 5, (0, 0))
    heard = clock.now()
    for _ in range(RATE_SAMPLES):
        clock.advance(1)
        history.sample()
    assert (history.received("a").messages, history.heard_at("a"), history.heard_at("b")) == (0, heard, None)


def test_what_has_no_connection_tells_since_when(clock: ManualClock, metrics: Metrics) -> None:
    connected = {"source a": True, "source b": False}
    history = History(metrics, clock, lambda: connected)
    history.sample()
    first = clock.now()
    clock.advance(5)
    connected["source a"] = False
    history.sample()
    clock.advance(5)
    history.sample()
    assert (history.lost_at("source b"), history.lost_at("source a")) == (first, first + 5_000_000)
    connected["source b"] = True
    history.sample()
    assert history.lost_at("source b") is None


def test_it_is_logged_once_when_every_source_receives(clock: ManualClock, metrics: Metrics) -> None:
    connected = {"source a": True, "source b": False, "destination a": False}
    history = History(metrics, clock, lambda: connected)
    with capture_logs() as logs:
        history.sample()
        assert logs == []
        connected |= {"source a": False, "source b": True}
        history.sample()
        assert logs == []
        for up in (True, False, True):
            connected["source a"] = up
            history.sample()
    assert [(each["event"], each["sources"]) for each in logs] == [("receiving_begun", ["a", "b"])]


def test_without_sources_nothing_begins(clock: ManualClock, metrics: Metrics) -> None:
    with capture_logs() as logs:
        History(metrics, clock, lambda: {"destination a": True}).sample()
    assert logs == []
