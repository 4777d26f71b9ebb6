"""State messages: how far a delivery is, kept in the unit of work that puts its messages."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from adapters.ibm_mq.sender import MqSender
from adapters.ibm_mq.state_queue import State, correl_id, read, written
from app.model.attachment import DeliveryState
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord
from app.ports import DeliveryProgress, SendFailed
from app.service.context import ServiceContext
from app.service.sending import outbox
from app.service.sending.delivery_creation import Deliveries
from app.testing.gateway_stages import ManualClock, service_context
from app.testing.transport_contract import message
from tests.adapters.ibm_mq.conftest import Place
from tests.service.sending.test_deliveries import DESTINATIONS, FILE, Sending
from tests.support import mq
from tests.support.queue_manager import QueueManager

STATE = "GATEWAY.STATE"
DELIVERY = "0123456789abcdef"


class World(Sending):
    """A destination whose queue manager keeps state messages, and whose outbox takes a step when it is told to."""

    def __init__(self, context: ServiceContext, clock: ManualClock, sender: MqSender) -> None:
        super().__init__(context)
        self.clock = clock
        self.deliveries = Deliveries(context, {"partner": sender}, self._check_room)
        self.deliveries.submit(self.submission("d1", (FILE, "a.bin", bytes(5000))))

    def step(self) -> None:
        self.clock.advance(60)
        outbox = self.deliveries.outboxes["partner"]
        while outbox._send_due() and not outbox._stop.is_set():
            pass

    def now(self) -> DeliveryRecord:
        found = self.context.catalog.delivery("d1")
        assert found is not None
        return found


@pytest.fixture
def kept(troubled: Place) -> Place:
    troubled.manager.define(STATE)
    return troubled


def states(place: Place) -> list[tuple[str, str, int, int]]:
    found = [json.loads(body) for _, body in mq.taken(place.library, place.manager, STATE)]
    assert all(state.pop("version") == 1 for state in found)
    return [State(**state) for state in found]


def numbered(first: int, count: int) -> list[PhysicalMessage]:
    return [message(number) for number in range(first, first + count)]


def test_a_state_message_says_what_it_is() -> None:
    state = State("d", "there", 128, 2)
    made = written(state)
    assert made.body == b'{"version": 1, "delivery": "d", "destination": "there", "messages_sent": 128, "attempt": 2}'
    assert read(made.body) == state


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"version": 1}',
        b'{"version": 2, "delivery": "d", "destination": "there", "messages_sent": 1, "attempt": 1}',
        b'{"version": 1, "delivery": "d", "destination": "there", "messages_sent": -1, "attempt": 1}',
        b'{"version": 1, "delivery": "d", "destination": "there", "messages_sent": true, "attempt": 1}',
        b'{"version": 1, "delivery": 7, "destination": "there", "messages_sent": 1, "attempt": 1}',
    ],
)
def test_what_is_no_state_message_is_not_taken_for_one(body: bytes) -> None:
    assert read(body) is None


def test_it_counts_what_the_same_unit_of_work_put(kept: Place) -> None:
    sender = kept.sender(state_queue=STATE, batch_messages=10)
    assert sender.resume(DELIVERY, None) == 0
    sender.send(numbered(0, 25), DeliveryProgress(DELIVERY, 0, 1))
    assert kept.sender(state_queue=STATE).resume(DELIVERY, 0) == 25
    sender.close()
    assert states(kept) == [State(DELIVERY, "there", 25, 1)]


@pytest.mark.parametrize(("lose", "arrived"), [("before", 10), ("after", 20)])
def test_a_commit_in_doubt_is_settled_by_it(kept: Place, lose: Any, arrived: int) -> None:
    sender = kept.sender(state_queue=STATE, batch_messages=10)
    sender.resume(DELIVERY, None)
    kept.manager.fault("MQCMIT", lose=lose, skip=1)
    with pytest.raises(SendFailed, match="2009") as failure:
        sender.send(numbered(0, 30), DeliveryProgress(DELIVERY, 0, 1))
    assert failure.value.confirmed == 10
    confirmed = sender.resume(DELIVERY, 10)
    assert confirmed == arrived
    sender.send(numbered(confirmed, 30 - confirmed), DeliveryProgress(DELIVERY, confirmed, 2))
    assert [body for _, body in kept.taken()] == [each.body for each in numbered(0, 30)]


def test_a_full_queue_counts_what_it_took(kept: Place) -> None:
    kept.manager.alter(kept.queue, maxdepth=17)
    sender = kept.sender(state_queue=STATE, batch_messages=10)
    sender.resume(DELIVERY, None)
    with pytest.raises(SendFailed, match="2053") as failure:
        sender.send(numbered(0, 30), DeliveryProgress(DELIVERY, 0, 1))
    assert failure.value.confirmed == sender.resume(DELIVERY, 0) == kept.depth() == 17


def test_units_leave_room_for_it(library: ModuleType, tmp_path: Path) -> None:
    with QueueManager(tmp_path, max_uncommitted=10) as manager:
        manager.define("SMALL")
        manager.define(STATE)
        place = Place(library, manager, "SMALL")
        sender = place.sender(state_queue=STATE)
        sender.resume(DELIVERY, None)
        sender.send(numbered(0, 30), DeliveryProgress(DELIVERY, 0, 1))
        assert (sender.max_batch(), place.depth()) == (8, 30)


def test_what_another_connection_still_holds_is_waited_for(kept: Place) -> None:
    """As after a crash that the queue manager has not noticed yet."""
    sender = kept.sender(state_queue=STATE)
    sender.resume(DELIVERY, None)
    sender.send(numbered(0, 5), DeliveryProgress(DELIVERY, 0, 1))
    with mq.connected(kept.library, kept.manager) as other:
        held = kept.library.Queue(other, STATE, kept.library.CMQC.MQOO_INPUT_SHARED)
        held.get(4096, kept.library.MD(), kept.library.GMO(Options=kept.library.CMQC.MQGMO_SYNCPOINT))
        with pytest.raises(SendFailed, match="there is no state message") as failure:
            sender.resume(DELIVERY, 3)
        assert not failure.value.permanent
        with pytest.raises(SendFailed, match=r"is missing although 5 are confirmed"):
            sender.send(numbered(5, 5), DeliveryProgress(DELIVERY, 5, 1))
        other.backout()
    assert sender.resume(DELIVERY, 3) == 5
    assert kept.depth() == 5


def test_one_that_never_comes_is_not_waited_for_for_ever(kept: Place) -> None:
    sender = kept.sender(state_queue=STATE, state_timeout=0)
    assert sender.resume(DELIVERY, 3) == 3
    sender.send(numbered(3, 2), DeliveryProgress(DELIVERY, 3, 2))
    assert states(kept) == [State(DELIVERY, "there", 5, 2)]


def test_another_gateway_that_sends_the_same_is_noticed(kept: Place) -> None:
    mine, theirs = kept.sender(state_queue=STATE), kept.sender(state_queue=STATE)
    for sender in (mine, theirs):
        assert sender.resume(DELIVERY, None) == 0
    mine.send(numbered(0, 5), DeliveryProgress(DELIVERY, 0, 1))
    with pytest.raises(SendFailed, match="counts 5 messages although 0 are confirmed"):
        theirs.send(numbered(0, 5), DeliveryProgress(DELIVERY, 0, 1))
    assert kept.depth() == 5


def test_ended_and_unknown_deliveries_leave_none_and_other_messages_stay(kept: Place) -> None:
    sender = kept.sender(state_queue=STATE)
    for number in range(4):
        sender.resume(f"d{number}", None)
    foreign = PhysicalMessage("", "", 8, correl_id(DELIVERY), b"x" * 9000, message_id=b"F" * 24, format="MQSTR")
    mq.put(kept.library, kept.manager, STATE, [foreign])
    sender.forget("d0")
    sender.forget("never")
    sender.tidy(lambda delivery: delivery == "d2")
    sender.close()
    bodies = [body for _, body in mq.taken(kept.library, kept.manager, STATE)]
    assert [state.delivery for state in map(read, bodies) if state] == ["d2"]
    assert foreign.body in bodies


def test_destinations_that_share_the_queue_keep_to_their_own(kept: Place) -> None:
    sender = kept.sender(state_queue=STATE)
    sender.resume("mine", None)
    other = State("theirs", "elsewhere", 7, 1)
    stored = PhysicalMessage("", "", 8, correl_id("theirs"), written(other).body, message_id=b"O" * 24, format="MQSTR")
    mq.put(kept.library, kept.manager, STATE, [stored])
    sender.tidy(lambda _: False)
    sender.close()
    assert states(kept) == [other]


def test_without_a_state_queue_it_says_what_may_come_twice(place: Place) -> None:
    assert "twice" in (place.sender().repeats() or "")
    assert place.sender(state_queue=STATE).repeats() is None


@pytest.fixture
def world(kept: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(outbox, "BATCH_MESSAGES", 2)
    partner = {**DESTINATIONS["partner"], "body_limit": 1024, "attempts": 1}
    clock, sender = ManualClock(), kept.sender(state_queue=STATE, batch_messages=2, state_timeout=0)
    with service_context(tmp_path, clock, destinations={**DESTINATIONS, "partner": partner}) as context:
        yield World(context, clock, sender)
    sender.close()


def test_a_delivery_that_was_cancelled_in_doubt_is_tried_again_without_a_message_twice(
    kept: Place, world: World
) -> None:
    kept.manager.fault("MQCMIT", lose="after", skip=2)  # of the second unit of work with messages
    world.step()
    assert (world.now().state, world.now().messages_sent, kept.depth()) == (DeliveryState.QUEUED, 2, 4)
    world.deliveries.cancel(world.now())
    world.deliveries.outboxes["partner"]._tidy_at = 0.0
    world.step()
    world.deliveries.retry(world.now())
    world.step()
    assert world.now().state is DeliveryState.SENT
    identifiers = [descriptor.MsgId for descriptor, _ in kept.taken()]
    assert len(identifiers) == len(set(identifiers)) == world.now().messages_total
    assert states(kept) == []


def test_a_delivery_that_was_cancelled_in_the_middle_goes_on(
    kept: Place, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = world.deliveries.outboxes["partner"]
    send = box.sender.send

    def cancelled(*given: Any) -> Any:
        monkeypatch.setattr(box.sender, "send", send)
        world.deliveries.cancel(world.now())
        return send(*given)

    monkeypatch.setattr(box.sender, "send", cancelled)
    world.step()
    assert (world.now().state, kept.depth()) == (DeliveryState.CANCELLED, 2)
    box._tidy_at = 0.0
    box._send_due()
    assert kept.manager.depth(STATE) == 1, "it may be tried again"
    world.deliveries.retry(world.now())
    world.step()
    assert (world.now().state, kept.depth()) == (DeliveryState.SENT, world.now().messages_total)


def test_waiting_for_a_state_message_takes_no_attempts(kept: Place, tmp_path: Path) -> None:
    """The queue manager has not noticed yet that a gateway was killed, and keeps its unit of work open."""
    sender, clock = kept.sender(state_queue=STATE, batch_messages=2), ManualClock()
    partner = {**DESTINATIONS["partner"], "body_limit": 1024, "attempts": 2}
    with service_context(tmp_path, clock, destinations={**DESTINATIONS, "partner": partner}) as context:
        world = World(context, clock, sender)
        kept.manager.fault("MQPUT", reason=2051, skip=5)
        world.step()
        with mq.held(kept.library, kept.manager, STATE):
            for _ in range(4):
                world.step()
        assert world.now().state is DeliveryState.QUEUED
        world.clock.advance(600)
        world.step()
        assert (world.now().state, kept.depth()) == (DeliveryState.SENT, world.now().messages_total)
    sender.close()


def test_the_state_message_of_a_delivery_that_nobody_can_retry_is_removed(kept: Place, world: World) -> None:
    kept.manager.fault("MQCMIT", lose="after", skip=2)
    world.step()
    world.deliveries.cancel(world.now())
    assert kept.manager.depth(STATE) == 1
    world.context.catalog.drop_deliveries(["d1"])
    world.deliveries.outboxes["partner"]._tidy_at = 0.0
    world.step()
    assert kept.manager.depth(STATE) == 0
