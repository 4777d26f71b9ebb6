"""Receipts that the address of a sender refuses for now: when they are sent again, and when no more."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Event

import pytest

from app.codecs.sas.dialect import Dialect
from app.model.message import PhysicalMessage
from app.ports import Reply, ReplyEnd
from app.service.context import ReceiverContext
from app.service.receipts.receipt_appender import ReceiptAppender
from app.service.receipts.receipt_replies import LONGEST_PAUSE, MOST_REFUSALS, ReceiptReplies
from app.testing.gateway_stages import ManualClock, service_context
from tests.service.test_round_trip import receive
from tests.support.receipts import PEM
from tests.support.sas_client import Program, binary_file, message
from tests.support.service_context import Connected

SOURCE, RATE = "orders", 20
HOUR = 3600


class Replying(Connected):
    """A receiver that replies at once, of which some addresses are full."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock
        self.full: set[str] = set()
        self.sent: list[tuple[str, float, ReplyEnd]] = []

    def reply_address(self, message: PhysicalMessage) -> str | None:
        return message.properties["response-topic"]

    def reply(self, reply: Reply) -> None:
        """Take a reply, unless its address is full."""
        end = ReplyEnd.BUSY if reply.address in self.full else ReplyEnd.SENT
        self.sent.append((reply.address, self._clock.passed, end))
        reply.on_end(end)


class Place:
    """A source, its receiver, and the process that sends receipts."""

    def __init__(self, context: ReceiverContext, clock: ManualClock) -> None:
        self.context, self.clock, self.receiver = context, clock, Replying(clock)
        context.catalog.bind(context.journal.identity())
        self._program = Program(Random(1), Dialect.parse("big-4-excluded-packed"), ccsid=819, encoding=273)
        self.begin()
        self._replies.step(context.catalog)  # it notes where the log is

    def begin(self) -> None:
        """A process begins, which has nothing of the one before it in memory."""
        self._replies = ReceiptReplies(self.context, self.context.settings.receipts, {SOURCE: self.receiver}, Event())

    def finish(self, *addresses: str) -> None:
        """Have a file finished of a sender at each of these addresses, and receipts of them made."""
        for address in addresses:
            sent = message(self._program, [binary_file(self._program, "a.bin", address.encode())])
            properties = {"response-topic": address}
            receive(self.context, [each._replace(source=SOURCE, properties=properties) for each in sent])
        settings = self.context.settings.receipts
        assert settings is not None
        ReceiptAppender(self.context, settings).append()

    def wait(self, seconds: int, pause: int = 1) -> None:
        for _ in range(0, seconds, pause):
            self._replies.step(self.context.catalog)
            self.clock.advance(pause)

    def total(self, outcome: str) -> float:
        labels = {"source": SOURCE, "outcome": outcome}
        name = "attachment_gateway_receipt_replies_total"
        return self.context.metrics.registry.get_sample_value(name, labels) or 0

    def at(self, address: str) -> list[float]:
        """When receipts were sent to an address, in seconds."""
        return [passed for to, passed, _ in self.receiver.sent if to == address]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    clock = ManualClock()
    source = {
        "transport": "mqtt",
        "url": "mqtt://127.0.0.1",
        "topic": "files",
        "request_missing_to": ["replies/#"],
        "request_missing_rate": RATE,
        "reply_receipts": True,
    }
    with service_context(tmp_path, clock, sources={SOURCE: source}, receipts={"key": PEM}) as context:
        yield Place(context, clock)


def test_what_is_refused_for_now_comes_again_with_longer_pauses_and_is_left_in_the_end(place: Place) -> None:
    """Also over a restart. It delays nothing else."""
    place.receiver.full.add("full")
    place.finish("full", "free", "full", "free")
    place.wait(1)
    assert place.at("free") == [0, 0]
    place.wait(99)
    place.begin()
    place.finish("free")
    place.wait(2 * HOUR, 10)
    assert len(place.at("free")) == 3
    times = sorted(set(place.at("full")))
    assert len(place.at("full")) == 2 * len(times) == 2 * MOST_REFUSALS
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 5
    assert LONGEST_PAUSE <= pauses[-1] <= LONGEST_PAUSE + 10
    assert HOUR / 2 < times[-1] < 2 * HOUR
    assert (place.total("busy"), place.total("sent")) == (2, 3)


def test_a_clock_that_was_ahead_does_not_put_off_what_is_sent_again(place: Place) -> None:
    place.receiver.full.add("full")
    place.clock.leap(365 * 86_400)
    place.finish("full")
    place.wait(1)
    place.clock.leap(-365 * 86_400)
    place.receiver.full.clear()
    place.wait(10)
    assert place.total("sent") == 1


def test_many_to_a_full_queue_leave_half_of_the_rate_to_others_and_come_when_there_is_room(place: Place) -> None:
    place.receiver.full.add("full")
    place.finish(*["full"] * (2 * RATE))
    place.wait(300)
    before = len(place.receiver.sent)
    place.finish(*["free"] * (RATE // 2))
    place.wait(60)
    assert len(place.at("free")) == RATE // 2
    assert 0 < len(place.receiver.sent) - before - len(place.at("free")) <= RATE // 2
    place.receiver.full.clear()
    place.wait(HOUR, 20)
    assert (place.total("sent"), place.total("busy")) == (2.5 * RATE, 0)
    assert sum(end is ReplyEnd.SENT for _, _, end in place.receiver.sent) == 2.5 * RATE
