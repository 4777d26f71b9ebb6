"""When senders are asked for missing parts: within the rate, with pauses, and not twice after a start."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from app.codecs.sas.dialect import Dialect
from app.model.errors import LeaseLost
from app.model.message import PhysicalMessage
from app.model.records import NewEvent
from app.ports import Catalog
from app.service.assembling.asking import Askers
from app.service.assembling.assembler import Assembler
from app.service.context import ReceiverContext
from app.service.retention.receiving_time import SETTLING_SECONDS, ReceivingTime
from app.testing.gateway_stages import ManualClock, service_context
from tests.support.sas_client import Program, binary_file, message
from tests.support.service_context import Asking

SOURCE, AFTER, RATE, MOST = "orders", 20, 30, 3
ADDRESS = "replies/orders"


class Place:
    """One source, its receiver, and a process, which a test ends and begins again."""

    def __init__(self, context: ReceiverContext, clock: ManualClock) -> None:
        self.context, self.clock = context, clock
        self.program = Program(Random(1), Dialect.parse("big-4-excluded-packed"), ccsid=819, encoding=273)
        self.begin()

    def begin(self) -> None:
        """A process begins, which has nothing of the one before it in memory."""
        self.receiver = Asking(ADDRESS)
        self.times = ReceivingTime(self.context, {SOURCE: self.receiver})
        self.askers = Askers(self.context, {SOURCE: self.receiver}, self.times)
        self.assembler = Assembler(self.context, lambda _complete: None)
        self.assembler.recover()
        self.catalog = self.hold()

    def hold(self) -> Catalog:
        """Return the catalog for whose turn it is now."""
        lease = self.context.catalog.take_lease("asking", "one", 30, at_once=True)
        assert lease is not None
        return self.context.catalog.under(lease)

    def take(self, files: int, lost: set[int], *, addressed: bool = True) -> list[list[PhysicalMessage]]:
        """Have files assembled of which the messages with these numbers are lost; return all messages of each. They
        are a header, an application message, five parts and a count."""
        properties = {"response-topic": ADDRESS} if addressed else {}
        made = []
        for _ in range(files):
            content = self.program.random.randbytes(3 * 32_000)
            sent = message(self.program, [binary_file(self.program, "a.bin", content)])
            made.append([each._replace(source=SOURCE, properties=properties) for each in sent])
            self.bring([each for number, each in enumerate(made[-1]) if number not in lost])
        return made

    def bring(self, messages: list[PhysicalMessage]) -> None:
        self.assembler.assemble(self.context.journal.append(messages), messages)
        self.assembler.save()

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.clock.advance(1)
            self.times.step()
            if self.askers.mark():
                self.askers.ask(self.catalog)

    def total(self, name: str, **labels: str) -> float:
        return self.context.metrics.registry.get_sample_value(f"attachment_gateway_{name}_total", labels) or 0


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    clock = ManualClock()
    source = {"transport": "memory", "queue": "one", "request_missing_after": AFTER}
    limits = {"request_missing_rate": RATE, "request_missing_most": MOST}
    with service_context(tmp_path, clock, expiry={"unfinished": "7d"}, sources={SOURCE: source | limits}) as context:
        yield Place(context, clock)


def test_the_gaps_are_named_after_the_time_and_parts_that_come_are_counted(place: Place) -> None:
    place.take(1, {3, 6, 7})
    place.take(1, set())
    place.wait(SETTLING_SECONDS + AFTER - 5)
    assert place.receiver.sent == []
    place.wait(10)
    (asked,) = place.receiver.sent
    assert (asked["parts"], asked["header"], asked["count"], asked["request"]) == ([[2, 2], [5, None]], False, True, 1)
    (record,) = place.context.catalog.silent_attachments(SOURCE, 1 << 62, 9)
    assert asked["attachment"] == record.correl_id.hex()
    request = place.context.catalog.missing_request(record.id)
    assert request is not None
    assert (request.requests, request.address, request.document) == (1, ADDRESS, json.dumps(asked).encode())


def test_a_lost_header_is_asked_for_and_a_count_that_waits_for_it_is_not(place: Place) -> None:
    place.take(1, {0, 1, 4})
    place.wait(SETTLING_SECONDS + AFTER + 5)
    (asked,) = place.receiver.sent
    assert (asked["parts"], asked["header"], asked["count"]) == ([[3, 3]], True, False)


def test_after_a_start_nobody_is_asked_twice_and_pauses_double_until_the_end(place: Place) -> None:
    ((header, application, *others),) = place.take(1, {3})
    place.wait(SETTLING_SECONDS + AFTER + 5)
    assert len(place.receiver.sent) == 1
    place.begin()  # and the request is lost
    place.wait(SETTLING_SECONDS + AFTER + 1)
    assert place.receiver.sent == []
    place.wait(15)
    assert [each["request"] for each in place.receiver.sent] == [2]
    place.wait(100)
    assert len(place.receiver.sent) == 1
    place.begin()
    place.wait(SETTLING_SECONDS + AFTER + 60)
    assert [each["request"] for each in place.receiver.sent] == [MOST]
    place.wait(400)
    assert len(place.receiver.sent) == 1
    assert len([each for each in events(place) if each.type == "attachment.missing"]) == MOST
    place.bring([others[1]])
    place.wait(5)
    assert place.total("missing_received", source=SOURCE) == 1
    assert header.correl_id != application.correl_id


def test_a_flood_stays_within_the_rate_also_over_starts(place: Place) -> None:
    place.take(3 * RATE, {3})
    place.wait(SETTLING_SECONDS + AFTER)
    sent = []
    for _ in range(3):
        place.wait(2)
        sent += place.receiver.sent
        assert len(sent) == RATE
        place.begin()
        place.wait(12)  # not up to date yet
    for _ in range(4):
        before = len(sent)
        place.receiver.sent.clear()
        place.wait(60)
        sent += place.receiver.sent
        assert len(sent) - before <= RATE
    assert {each["attachment"] for each in sent[: 3 * RATE]} == {each["attachment"] for each in sent}
    assert len({each["attachment"] for each in sent}) == 3 * RATE


def test_without_an_address_an_event_tells_of_it(place: Place) -> None:
    place.take(1, {3}, addressed=False)
    place.wait(SETTLING_SECONDS + AFTER + 5)
    assert place.receiver.sent == []
    (event,) = [each for each in events(place) if each.type == "attachment.missing"]
    assert (event.data["address"], event.data["parts"]) == (None, [[2, 2]])
    assert place.total("missing_requests", source=SOURCE, by="event") == 1


def test_a_source_that_cannot_receive_asks_nobody(place: Place) -> None:
    place.take(1, {3})
    place.receiver.connected = False
    place.wait(1000)
    place.receiver.connected = True
    place.wait(SETTLING_SECONDS + AFTER - 5)
    assert place.receiver.sent == []
    place.wait(10)
    assert len(place.receiver.sent) == 1


def test_a_clock_that_was_ahead_puts_off_no_further_request(place: Place) -> None:
    place.clock.leap(365 * 86_400)
    place.take(RATE, {3})
    place.wait(SETTLING_SECONDS + AFTER + 5)
    place.clock.leap(-365 * 86_400)
    assert len(place.receiver.sent) == RATE
    place.wait(120)
    assert len(place.receiver.sent) == 2 * RATE


def test_a_process_whose_turn_is_over_asks_nobody(place: Place) -> None:
    place.take(1, {3})
    place.wait(SETTLING_SECONDS + AFTER - 5)
    turn = place.hold()
    for _ in range(10):
        place.clock.advance(1)
        place.times.step()
        place.askers.mark()
    with pytest.raises(LeaseLost):
        place.askers.ask(place.catalog)
    assert (place.receiver.sent, events(place)) == ([], [])
    place.clock.advance(1)
    place.askers.ask(turn)
    assert len(place.receiver.sent) == 1


def events(place: Place) -> list[NewEvent]:
    return [NewEvent(*each[1:]) for each in place.context.catalog.events_after(0, 10_000)]
