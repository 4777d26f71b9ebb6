"""How time is counted by which attachments expire."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.model.message import PhysicalMessage
from app.model.records import ALONE, Checkpoint
from app.service.context import ReceiverContext
from app.service.retention import receiving_time
from app.service.retention.receiving_time import LONGEST_STEP, SETTLING_SECONDS, ReceivingTime
from app.testing.collecting_intake import Collector
from app.testing.gateway_stages import ManualClock, service_context
from tests.support.service_context import Connected, receive_for

SOURCE = "orders"
DAY = 86_400 * 1_000_000


class Place:
    """One source, whose connection a test makes and breaks, and the clock."""

    def __init__(self, context: ReceiverContext, clock: ManualClock) -> None:
        self.context, self.clock = context, clock
        self.receiver = Connected()
        self.holding: str | None = None
        self.begin()

    def begin(self) -> None:
        """A process begins."""
        self.times = ReceivingTime(self.context, {SOURCE: self.receiver}, lambda: self.holding)

    def seconds(self, seconds: int) -> float:
        """How many of these are counted."""
        before = self.times.counted(SOURCE)
        for _ in range(seconds):
            self.clock.advance(1)
            self.times.step()
        return (self.times.counted(SOURCE) - before) / 1e6

    def journal(self, *, assembled: bool) -> None:
        (position,) = self.context.journal.append([PhysicalMessage(SOURCE, "sas_queue", body=b"x")])
        if assembled:
            self.context.catalog.checkpoint(Checkpoint(progress=position.pack()))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    clock = ManualClock()
    with service_context(tmp_path, clock, expiry={"unfinished": "7d"}) as context:
        yield Place(context, clock)


def test_of_two_paths_the_time_counts_in_which_both_could_receive(tmp_path: Path) -> None:
    clock, paths = ManualClock(), {SOURCE: Connected(), "second": Connected()}
    sources = {SOURCE: {"transport": "memory", "queue": "one"}}
    sources["second"] = {"transport": "memory", "queue": "two", "same_as": SOURCE}
    with service_context(tmp_path, clock, expiry={"unfinished": "7d"}, sources=sources) as context:
        times = ReceivingTime(context, paths)
        for connected in (True, False, True):
            paths["second"].connected = connected
            for _ in range(int(SETTLING_SECONDS) + 10):
                clock.advance(1)
                times.step()
        assert times.counted(SOURCE) == 2 * 10 * 1_000_000
        assert times.sources == [SOURCE]


def test_the_first_moments_do_not_count(place: Place) -> None:
    settling = int(SETTLING_SECONDS)
    assert place.seconds(settling) == 0
    assert place.seconds(10) == 10
    place.receiver.since = 2  # it was lost and made again between two looks
    assert place.seconds(settling) == 0
    assert place.seconds(10) == 10
    place.times.save()
    place.begin()
    assert place.times.counted(SOURCE) == 20_000_000
    assert place.seconds(settling) == 0


def test_time_without_the_broker_does_not_count(place: Place) -> None:
    place.seconds(100)
    place.receiver.connected = False
    assert place.seconds(1000) == 0
    place.receiver.connected, place.holding = True, "the disk is full"
    assert place.seconds(1000) == 0


@pytest.mark.parametrize("days", [30, -30])
def test_a_clock_that_is_set_does_not_count(place: Place, days: int) -> None:
    place.seconds(100)
    place.clock.leap(days * 86_400)
    assert place.seconds(10) == 10


def test_a_process_that_stood_still_counts_little(place: Place) -> None:
    place.seconds(100)
    before = place.times.counted(SOURCE)
    place.clock.advance(30 * 86_400)
    place.times.step()
    assert place.times.counted(SOURCE) - before == LONGEST_STEP * 1e6


def test_what_waits_at_the_broker_has_come_before_time_counts(place: Place) -> None:
    intake = place.times.intake(SOURCE, Collector())
    for _ in range(200):
        intake.submit([], lambda: None)
        assert place.seconds(1) == 0
    assert place.seconds(10) >= 8
    intake.submit([], lambda: None)
    assert place.seconds(1) == 1, "it is up to date, whatever comes then"


def test_a_source_that_is_never_idle_counts_in_the_end(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    intake = place.times.intake(SOURCE, Collector())
    monkeypatch.setattr(receiving_time, "LONGEST_STEP", 3600.0)
    for _ in range(8 * 24):
        place.clock.advance(3600)
        intake.submit([], lambda: None)
        place.times.step()
    assert 0.9 * DAY < place.times.counted(SOURCE) < 1.1 * DAY


def test_what_waits_in_the_journal_has_been_assembled_before_time_counts(place: Place) -> None:
    place.seconds(100)
    place.journal(assembled=False)
    assert place.seconds(2000) == 0
    place.journal(assembled=True)
    assert place.seconds(1) == 2001


def test_marks_are_few_and_remembered(place: Place) -> None:
    for _ in range(20):
        place.journal(assembled=True)
        receive_for(place.times, place.clock, 1)
    place.times.save()
    marks = place.context.catalog.receiving_marks()
    assert 100 < len(marks) < 140
    before = place.times.mark_before(SOURCE, 7 * DAY)
    assert before is not None
    assert 7 * DAY <= place.times.counted(SOURCE) - before.counted < 7.2 * DAY
    place.begin()
    assert place.times.mark_before(SOURCE, 7 * DAY) == before
    assert place.times.mark_before(SOURCE, 30 * DAY) is None
    assert place.times.mark_before("another", 0) is None


def test_an_older_copy_of_the_catalog_does_not_get_the_time_after_it(place: Place) -> None:
    """What it lacks is to be assembled again before that time counts, or attachments would expire that are complete."""
    catalog, identity = place.context.catalog, place.context.journal.identity()
    catalog.bind(identity)
    place.begin()
    place.seconds(40)
    place.times.save()
    copied = catalog.receiving_time()[ALONE]
    place.seconds(100)
    place.times.save()
    catalog.save_receiving_time(copied, [], {})  # it is put back, and the database was started
    catalog.bind(identity)
    place.times.save()
    assert place.times.counted(SOURCE) == copied[SOURCE] == 10_000_000
    place.journal(assembled=False)
    assert place.seconds(100) == 0
    place.journal(assembled=True)
    assert place.seconds(1) == 101
