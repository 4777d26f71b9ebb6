"""Deliveries that clients cancel or have sent again, before, while and after they are sent."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from time import monotonic

import pytest
from structlog.testing import capture_logs

from adapters.memory import MemoryDestinationSettings, MemorySender
from app.model.attachment import AttachmentKind, DeliveryState
from app.model.errors import CatalogError
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord
from app.ports import DeliveryProgress, SendFailed
from app.ports import Sending as Claiming
from app.service.context import ServiceContext
from app.service.sending import outbox
from app.service.sending.delivery_creation import Deliveries
from app.service.sending.sending_errors import DeliveryOver
from app.service.sending.unknown_destinations import UnknownDestinations
from app.testing.gateway_stages import ManualClock, service_context
from tests.service.sending.test_deliveries import DESTINATIONS, FILE, Sending

Meanwhile = Callable[[], object]


class Interrupted(MemorySender):
    """A sender that calls `meanwhile` before it takes a batch."""

    def __init__(self, queue: str) -> None:
        super().__init__(MemoryDestinationSettings(queue=queue))
        self.meanwhile: Meanwhile = lambda: None
        self.taken: list[PhysicalMessage] = []

    def send(self, messages: Sequence[PhysicalMessage], progress: DeliveryProgress | None = None) -> None:
        del progress
        self.meanwhile()
        self.taken += messages


class World(Sending):
    """One destination, whose outbox takes a step when it is told to."""

    def __init__(self, context: ServiceContext, clock: ManualClock) -> None:
        super().__init__(context)
        self.clock = clock
        self.sender = Interrupted("partner")
        self.deliveries = Deliveries(self.context, {"partner": self.sender}, self._check_room)

    def submitted(self, size: int = 100_000) -> DeliveryRecord:
        return self.deliveries.submit(self.submission("d1", (FILE, "a.bin", bytes(size)))).delivery

    def step(self) -> None:
        outbox = self.deliveries.outboxes["partner"]
        while outbox._send_due() and not outbox._stop.is_set():
            pass

    def now(self) -> DeliveryRecord:
        found = self.context.catalog.delivery("d1")
        assert found is not None
        return found

    def told(self) -> list[str]:
        return [event.type.removeprefix("delivery.") for event in self.context.catalog.events_after(0, 99)]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(outbox, "BATCH_MESSAGES", 2)
    clock = ManualClock()
    partner = {**DESTINATIONS["partner"], "attempts": 2, "retry_first": "1s"}
    with service_context(tmp_path, clock, destinations={**DESTINATIONS, "partner": partner}) as context:
        yield World(context, clock)


def test_a_queued_delivery_is_cancelled_at_once_and_never_sent(world: World) -> None:
    world.submitted()
    assert world.deliveries.cancel(world.now()).state is DeliveryState.CANCELLED
    world.step()
    assert world.now().state is DeliveryState.CANCELLED
    assert world.sender.taken == []
    assert world.told() == ["queued", "cancelled"]


def test_a_client_that_has_read_it_before_cancels_a_delivery_that_is_being_sent(world: World) -> None:
    queued = world.submitted()
    world.sender.meanwhile = lambda: world.deliveries.cancel(queued)
    world.step()
    assert (world.now().state, len(world.sender.taken)) == (DeliveryState.CANCELLED, 2)


def test_a_delivery_that_is_being_sent_is_cancelled_before_its_next_batch(world: World) -> None:
    world.submitted()

    def cancel() -> None:
        assert world.deliveries.cancel(world.now()).state is DeliveryState.SENDING

    world.sender.meanwhile = cancel
    world.step()
    assert (world.now().state, world.now().messages_sent, len(world.sender.taken)) == (DeliveryState.CANCELLED, 2, 2)
    assert world.now().reason == "a client cancelled it"
    assert world.told()[-1] == "cancelled"


def test_one_that_is_cancelled_before_a_restart_stays_cancelled(world: World) -> None:
    world.submitted()

    def cancel_and_stop() -> None:
        world.deliveries.cancel(world.now())
        world.deliveries.outboxes["partner"].stop()

    world.sender.meanwhile = cancel_and_stop
    world.step()
    assert (world.now().state, world.now().cancel_requested) == (DeliveryState.SENDING, True)
    world.deliveries = Deliveries(world.context, {"partner": world.sender}, world._check_room)
    world.step()
    assert (world.now().state, len(world.sender.taken)) == (DeliveryState.CANCELLED, 2)
    world.sender.meanwhile = lambda: None
    world.deliveries.retry(world.now())
    world.step()
    assert world.now().state is DeliveryState.SENT


def test_one_that_is_cancelled_while_its_last_batch_goes_is_sent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "BATCH_MESSAGES", 64)
    world.submitted(10)
    world.sender.meanwhile = lambda: world.deliveries.cancel(world.now())
    world.step()
    assert world.now().state is DeliveryState.SENT
    with pytest.raises(DeliveryOver, match="sent"):
        world.deliveries.cancel(world.now())


def test_one_whose_attempt_fails_is_cancelled_and_not_tried_again(world: World) -> None:
    world.submitted()

    def fail() -> None:
        world.deliveries.cancel(world.now())
        raise SendFailed("away")

    world.sender.meanwhile = fail
    world.step()
    assert world.now().state is DeliveryState.CANCELLED


def test_a_retry_goes_on_where_it_was_with_the_same_messages(world: World) -> None:
    world.submitted()
    world.sender.meanwhile = lambda: world.deliveries.cancel(world.now())
    world.step()
    world.sender.meanwhile = lambda: None
    assert world.deliveries.retry(world.now()).state is DeliveryState.QUEUED
    world.step()
    again = world.now()
    assert (again.state, again.messages_sent) == (DeliveryState.SENT, again.messages_total)
    assert len(world.sender.taken) == again.messages_total
    assert world.told() == ["queued", "sending", "cancelled", "queued", "sending", "sent"]
    with pytest.raises(DeliveryOver, match="only a failed or cancelled one"):
        world.deliveries.retry(again)


def away() -> None:
    raise SendFailed("away")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_failed_delivery_gets_all_its_attempts_again(world: World, is_restarted: bool) -> None:
    world.submitted()
    world.sender.meanwhile = away
    for _ in range(2):
        world.step()
        world.clock.advance(10)
    assert world.now().state is DeliveryState.FAILED
    world.deliveries.retry(world.now())
    if is_restarted:
        world.deliveries = Deliveries(world.context, {"partner": world.sender}, world._check_room)
    world.step()
    assert world.now().state is DeliveryState.QUEUED, "one more attempt is left"
    world.clock.advance(10)
    world.step()
    assert world.now().state is DeliveryState.FAILED


@pytest.mark.parametrize(
    ("last", "why"), [(b"a\0b\n", "line 60,001 has a NUL"), (b"y" * 40_000 + b"\n", "line 60,001")]
)
def test_a_delivery_that_has_no_end_is_not_begun(tmp_path: Path, last: bytes, why: str) -> None:
    """The framing cannot carry the last line."""
    partner = {**DESTINATIONS["partner"], "framing": "sas_rendezvous"}
    with service_context(tmp_path, ManualClock(), destinations={**DESTINATIONS, "partner": partner}) as context:
        world = World(context, ManualClock())
        text = (AttachmentKind.TEXT_FILE, "a.txt", b"a good line\n" * 60_000 + last)
        world.deliveries.submit(world.submission("d1", text))
        world.step()
        assert (world.now().state, world.now().messages_sent) == (DeliveryState.FAILED, 0)
        assert why in (world.now().reason or "")
        assert world.sender.taken == []


class Beginning(Interrupted):
    """A sender that has to begin again after a failure, as one of TIB/Rendezvous does. It takes two batches."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.begun = False

    def resume(self, delivery: str, known: int | None) -> int:
        del delivery
        return (known or 0) if self.begun else 0

    def send(self, messages: Sequence[PhysicalMessage], progress: DeliveryProgress | None = None) -> None:
        assert progress is not None
        if progress.messages_sent >= 4:
            self.begun = False
            raise SendFailed("the connection breaks")
        super().send(messages, progress)
        self.begun = True


def test_an_attempt_that_comes_no_further_than_one_before_it_is_fruitless(world: World) -> None:
    world.sender = Beginning("partner")
    world.deliveries = Deliveries(world.context, {"partner": world.sender}, world._check_room)
    world.submitted()
    for _ in range(5):
        world.step()
        world.clock.advance(400)
    assert (world.now().state, world.now().attempts) == (DeliveryState.FAILED, 3), "two after the first"


def test_a_process_that_was_paused_for_longer_than_its_claim_sends_nothing_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own clock tells it, although nobody else has claimed the delivery, and the catalog would let it go on."""
    sending = world.deliveries.outboxes["partner"]
    sending._sending = sending._sending._replace(is_alone=False)
    world.submitted()

    def pause() -> None:
        now = monotonic() + outbox.HELD_SECONDS
        monkeypatch.setattr(outbox, "monotonic", lambda: now)

    world.sender.meanwhile = pause
    with capture_logs() as logs:
        sending._send_due()
    assert [each["event"] for each in logs] == ["delivery_claim_lost"]
    assert (world.now().state, world.now().messages_sent, len(world.sender.taken)) == (DeliveryState.SENDING, 2, 2)


class Named(Interrupted):
    """A sender that notes by which names its records are asked for, and fails twice before its first batch."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.names: list[str] = []

    def resume(self, delivery: str, known: int | None) -> int:
        self.names.append(delivery)
        if len(self.names) == 1:
            raise SendFailed("the broker is away", counts=False)
        return known or 0

    def send(self, messages: Sequence[PhysicalMessage], progress: DeliveryProgress | None = None) -> None:
        assert progress is not None
        assert progress.delivery == self.names[-1]
        if len(self.names) == 2:
            raise SendFailed("the connection breaks")
        super().send(messages, progress)

    def forget(self, delivery: str) -> None:
        self.names.append(f"forgotten {delivery}")


def test_all_attempts_use_the_record_of_the_first_one_that_could_begin(world: World) -> None:
    """An attempt that did not get so far has a record that nobody else uses, and that is removed."""
    world.sender = Named("partner")
    world.deliveries = Deliveries(world.context, {"partner": world.sender}, world._check_room)
    world.submitted()
    for _ in range(2):
        world.step()
        world.clock.advance(400)
    may_continue = world.deliveries.outboxes["partner"]._may_continue
    assert [*filter(may_continue, ("d1.1", "d1.2", "d2.1"))] == ["d1.2"]
    world.step()
    assert world.now().state is DeliveryState.SENT
    assert world.sender.names == ["d1.1", "d1.2", "d1.2", "forgotten d1.2"]
    assert not may_continue("d1.2")


def test_what_a_new_beginning_has_sent_is_not_skipped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delivery began again, and the catalog could not record how far it came."""
    world.sender = Beginning("partner")
    world.deliveries = Deliveries(world.context, {"partner": world.sender}, world._check_room)
    world.submitted()
    world.step()
    assert world.now().messages_sent == 4
    world.clock.advance(400)
    update = world.context.catalog.update_delivery

    def failing(delivery: DeliveryRecord, *given: object) -> None:
        if delivery.state is DeliveryState.SENDING and delivery.messages_sent == 2:
            raise CatalogError("the catalog is away")
        update(delivery, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(world.context.catalog, "update_delivery", failing)
        world.step()
    world.sender.taken.clear()
    world.step()
    rest = world.sender.taken
    assert [message.message_id for message in rest] == [message.message_id for message in first_messages(world)[2:4]], (
        "it goes on after the two that this connection has taken"
    )


def first_messages(world: World) -> list[PhysicalMessage]:
    how = world.now().cut
    assert how is not None
    return list(islice(world.deliveries._frame(how, world.now()), 4))


def test_deliveries_to_a_destination_that_was_removed_say_so_and_go_on_when_it_is_back(world: World) -> None:
    """One was to be tried again because of the broker; another one was under way when the process was killed."""
    senders = {name: Interrupted(name) for name in DESTINATIONS} | {"partner": world.sender}
    world.deliveries = Deliveries(world.context, senders, world._check_room)
    world.submitted()
    world.deliveries.submit(world.submission("d2", (FILE, "a.bin", bytes(9)), destination="groups"))
    world.sender.meanwhile = lambda: (_ for _ in ()).throw(SendFailed("nobody is subscribed"))
    world.step()
    assert world.now().reason == "nobody is subscribed"
    world.clock.advance(60)
    claim = Claiming("groups", "killed")
    catalog = world.context.catalog
    assert catalog.claim_delivery(claim, 9, lambda each: (replace(each, state=DeliveryState.SENDING), []), 1 << 60)

    kept = world.context.settings
    removed = kept.model_copy(update={"destinations": {"mainframe": kept.destinations["mainframe"]}})
    keeper = UnknownDestinations(replace(world.context, settings=removed))
    with capture_logs() as logs:
        for _ in range(3):
            keeper.step()
            world.clock.advance(1)
    told = sorted((each["event"], each["destination"]) for each in logs)
    assert told == [("destination_missed", "groups"), ("destination_missed", "partner")]
    assert keeper.check() == {"ok": False, "unknown": {"groups": 1, "partner": 1}, "error": None}
    for each, name in (("d1", "partner"), ("d2", "groups")):
        found = catalog.delivery(each)
        assert found is not None
        assert (found.state, found.attempts) == (DeliveryState.QUEUED, 1 - (each == "d2"))
        assert f"the settings have no destination {name}: add it again" in str(found.reason)
    assert world.told() == ["queued", "queued", "sending", "queued", "queued", "queued"], "each says so once"

    world.sender.meanwhile = lambda: None
    world.step()
    assert world.now().state is DeliveryState.SENT
    keeper.step()
    assert keeper.check()["unknown"] == {"groups": 1}
    catalog.request_cancel("d2")
    world.clock.advance(3600)
    keeper.step()
    found = catalog.delivery("d2")
    assert found is not None
    assert found.state is DeliveryState.CANCELLED
    keeper.step()
    assert keeper.check()["ok"]
