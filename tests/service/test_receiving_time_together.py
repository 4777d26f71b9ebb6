"""Expiry where several receive: it waits for the one that could receive for the shortest time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.model.attachment import AttachmentState
from app.model.message import Position
from app.model.records import Checkpoint
from app.service.retention import receiving_time
from app.service.retention.expiry import Expirer
from app.service.retention.receiving_time import ReceivingTime, SavedReceivingTime
from app.testing.gateway_stages import ManualClock, service_context
from tests.contracts.catalog.records import attachment, keep
from tests.support.receivers_together import SOURCE, ReceiverAmongOthers, ReceiversTogether
from tests.support.service_context import Connected

DAY = 86_400 * 1_000_000
LONG = 6 * 3600.0


class Counting:
    """A receiver that counts its time."""

    def __init__(self, others: "Together", name: str) -> None:
        self._others, self._name = others, name
        self.connection = Connected()
        self.begin()

    def begin(self) -> None:
        """Begin a process."""
        self.receiver: ReceiverAmongOthers = self._others.place.begin(self._name)
        self.journal = self.receiver.context.journal.identity().id
        self.times = ReceivingTime(
            self.receiver.context,
            {SOURCE: self.connection},
            place=self.receiver.publisher.place,
            journal=self.journal,
        )

    def publish(self) -> None:
        self.receiver.publisher.publish()
        self._others.assemble()

    def count(self, days: float) -> None:
        """Let time pass for this one only."""
        for _ in range(int(days * 24 * 3600 / LONG)):
            self._others.clock.advance(LONG)
            self.times.step()
        self.times.save()


class Together:
    """Several of them, and the keeper."""

    def __init__(self, place: ReceiversTogether, clock: ManualClock) -> None:
        self.place, self.clock = place, clock
        self.catalog = place.catalog
        self.expirer = Expirer(place.context, SavedReceivingTime(self.catalog))

    def assemble(self) -> None:
        """Assemble all that is published."""
        self.catalog.checkpoint(Checkpoint(progress=self.catalog.published()))

    def attachment(self, number: int) -> None:
        """An attachment whose last message is the last one that is published."""
        keep(self.catalog, attachment(number, source=SOURCE, last_position=self.catalog.published()))

    def expired(self) -> list[str]:
        """Let expire what is to expire, and return all that have expired."""
        self.expirer.expire()
        found = (self.catalog.attachment(f"a{number}") for number in range(10))
        return [each.id for each in found if each is not None and each.state is AttachmentState.EXPIRED]


@pytest.fixture
def together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Together]:
    monkeypatch.setattr(receiving_time, "LONGEST_STEP", LONG)
    clock = ManualClock()
    with service_context(tmp_path, clock, expiry={"unfinished": "7d"}) as context:
        place = ReceiversTogether(tmp_path, context)
        yield Together(place, clock)
        for journal in place.journals.values():
            journal.close()


def test_expiry_waits_for_the_one_that_has_counted_least(together: Together) -> None:
    one, two = Counting(together, "one"), Counting(together, "two")
    one.receiver.receive(b"1")
    one.publish()
    together.attachment(1)
    for each in (one, two):
        each.count(0.5)
    one.count(30)
    assert together.expired() == [], "the other one may keep a message of it"
    two.count(6.5)
    assert together.expired() == []
    two.count(1)
    assert together.expired() == ["a1"]


def test_a_receiver_that_could_never_receive_is_waited_for(together: Together) -> None:
    one, two = Counting(together, "one"), Counting(together, "two")
    two.connection.connected = False
    one.receiver.receive(b"1")
    one.publish()
    together.attachment(1)
    two.count(30)
    one.count(30)
    assert together.expired() == []
    two.connection.connected = True
    two.count(7.5)
    assert together.expired() == ["a1"]


def test_one_that_has_not_published_what_it_has_received_is_waited_for(together: Together) -> None:
    one, two = Counting(together, "one"), Counting(together, "two")
    one.receiver.receive(b"1")
    one.publish()
    together.attachment(1)
    two.receiver.receive(b"2")
    for each in (two, one):
        each.count(30)
    assert together.expired() == []
    two.publish()
    two.count(0.5)
    one.count(0.5)
    assert together.expired() == ["a1"]


def test_what_was_received_while_nothing_could_be_published_has_not_been_silent_before(together: Together) -> None:
    one = Counting(together, "one")
    one.count(1)
    for _ in range(10):
        one.receiver.receive(b"x")
        one.count(1)
    one.publish()
    together.attachment(1)
    one.count(5.5)
    assert together.expired() == [], "its last message came less than 7 days ago"
    one.count(1)
    assert together.expired() == ["a1"]


def test_one_that_receives_nothing_stalls_nothing(together: Together) -> None:
    one, two = Counting(together, "one"), Counting(together, "two")
    for number in range(1, 4):
        one.receiver.receive(b"1")
        one.publish()
        together.attachment(number)
        for each in (one, two):
            each.count(7.5)
        assert together.expired() == [f"a{each}" for each in range(1, number + 1)]


def test_one_that_is_away_is_waited_for_until_it_leaves(together: Together) -> None:
    one, two = Counting(together, "one"), Counting(together, "two")
    for each in (one, two):
        each.count(1)
    one.receiver.receive(b"1")
    one.publish()
    together.attachment(1)
    one.count(30)
    assert together.expired() == []
    assert together.catalog.leave(two.journal)
    two.times.save()  # it has not noticed that yet
    assert together.expired() == ["a1"]


def test_a_new_receiver_delays_nothing(together: Together) -> None:
    one = Counting(together, "one")
    one.count(1)
    one.receiver.receive(b"1")
    one.publish()
    together.attachment(1)
    one.count(6.5)
    two = Counting(together, "two")
    assert together.catalog.receiving_time()[two.journal][SOURCE] == one.times.counted(SOURCE)
    for each in (one, two):
        each.count(1)
    assert together.expired() == ["a1"]


def test_time_goes_on_after_a_restart(together: Together) -> None:
    one = Counting(together, "one")
    one.receiver.receive(b"1")
    one.publish()
    together.attachment(1)
    one.count(5)
    one.begin()
    one.count(3)
    assert together.expired() == ["a1"]
    assert one.times.counted(SOURCE) >= 7.25 * DAY
    mark = one.times.mark_before(SOURCE, 7 * DAY)
    assert mark is not None
    assert Position.unpack(mark.position).segment == 1
