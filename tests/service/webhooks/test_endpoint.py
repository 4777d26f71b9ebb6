"""The order, the pauses and the end of a webhook's events, with a clock that the test moves."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from app.model.errors import CatalogError
from app.model.records import Checkpoint, EventRecord, NewEvent
from app.model.webhook_state import WebhookState
from app.service.context import ReceiverContext
from app.service.retention.removal import Remover, RetentionClock
from app.service.webhooks.webhook import WebhookDesk, WebhookEndpoint
from app.service.webhooks.webhook_request import WebhookAnswer, WebhookOutcome
from app.testing.gateway_stages import ManualClock, service_context
from tests.support.webhook_receiver import SECRET

DOWN = WebhookAnswer(WebhookOutcome.FAILED, "down")
DAY = 86400.0


class Receiver:
    """A receiver that answers as `answers` says, and takes everything by default."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.taken: list[int] = []
        self.answer: Callable[[EventRecord], WebhookAnswer] = lambda _event: WebhookAnswer(WebhookOutcome.DELIVERED)

    def __call__(self, event: EventRecord, now: int) -> WebhookAnswer:
        del now
        self.asked.append(event.number)
        answer = self.answer(event)
        if answer.outcome is WebhookOutcome.DELIVERED:
            self.taken.append(event.number)
        return answer


class World:
    """A catalog, a clock, a receiver, and an endpoint between them."""

    def __init__(self, context: ReceiverContext, clock: ManualClock) -> None:
        self.context, self.clock, self.receiver = context, clock, Receiver()
        self.desk = WebhookDesk(context)
        self.endpoint = self.begin()

    def begin(self) -> WebhookEndpoint:
        """Begin (again), as a new process does."""
        self.endpoint = WebhookEndpoint("hook", self.context, self.receiver, Event())
        return self.endpoint

    def happen(self, count: int = 1, kind: str = "attachment.finished") -> None:
        event = NewEvent(kind, "a1", self.clock.now(), {"source": "orders"})
        self.context.catalog.checkpoint(Checkpoint(events=[event] * count))

    def run(self) -> None:
        """Do all that is due now."""
        while self.endpoint.step():
            pass

    def give_up(self, count: int) -> None:
        """Let so many events happen, and no receiver take them until they are given up."""
        self.receiver.answer = lambda _event: DOWN
        self.happen(count)
        self.run()
        self.clock.advance(4 * DAY)
        self.run()

    def dead(self) -> list[int]:
        return [letter.event.number for letter in self.context.catalog.dead_letters("hook", 0, 9999)]


@pytest.fixture
def settings() -> dict[str, Any]:
    return {}


@pytest.fixture
def world(tmp_path: Path, settings: dict[str, Any]) -> Iterator[World]:
    clock = ManualClock()
    hook = {"url": "https://hook.example/", "secrets": [SECRET], "retry_first": "1s", "retry_longest": "8s", **settings}
    with service_context(tmp_path, clock, webhooks={"hook": hook}) as context:
        context.catalog.checkpoint(Checkpoint(events=[NewEvent("attachment.finished", "before", 1, {})]))
        yield World(context, clock)


def test_a_new_webhook_gets_what_happens_from_now_on_in_order(world: World) -> None:
    world.happen(250)
    world.run()
    assert world.receiver.taken == list(range(2, 252))
    world.begin()
    world.happen()
    world.run()
    assert world.receiver.taken[-1] == 252, "its position survives a restart"
    assert len(world.receiver.taken) == 251


@pytest.mark.parametrize("settings", [{"types": ["delivery.*"]}])
def test_events_that_are_left_out_move_the_position(world: World) -> None:
    world.happen(3)
    world.happen(1, "delivery.sent")
    world.happen(2)
    world.run()
    assert world.receiver.taken == [5]
    assert world.context.catalog.webhooks()["hook"].position == 7


def test_an_event_waits_for_the_one_before_and_pauses_grow(world: World) -> None:
    world.receiver.answer = lambda _event: DOWN
    world.happen(2)
    pauses = []
    for _ in range(7):
        world.run()
        wait = world.endpoint.due_in()
        assert wait
        world.clock.advance(wait - 0.001)
        world.run()
        pauses.append(wait)
        world.clock.advance(0.002)
    assert world.receiver.asked == [2] * 7
    for pause, longest in zip(pauses, [1, 2, 4, 8, 8, 8, 8], strict=True):
        assert longest / 2 <= pause <= longest
    world.receiver.answer = lambda _event: WebhookAnswer(WebhookOutcome.DELIVERED)
    world.run()
    assert world.receiver.taken == [2, 3]
    record = world.context.catalog.webhooks()["hook"]
    assert (record.failing_since, record.attempts, record.reason) == (None, 0, None)


def test_an_error_that_is_not_foreseen_is_a_failure(world: World) -> None:
    def fail(event: EventRecord) -> WebhookAnswer:
        if event.number == 4:
            raise OverflowError("an odd answer")
        return WebhookAnswer(WebhookOutcome.DELIVERED)

    world.receiver.answer = fail
    world.happen(3)
    world.run()
    world.run()
    assert world.receiver.asked == [2, 3, 4]
    record = world.context.catalog.webhooks()["hook"]
    assert (record.position, record.attempts, record.reason) == (3, 1, "OverflowError: an odd answer")
    world.clock.advance(4 * DAY)
    world.run()
    assert (world.receiver.asked, world.dead()) == ([2, 3, 4, 4], [4])


def test_the_receiver_may_ask_for_a_longer_pause(world: World) -> None:
    world.receiver.answer = lambda _event: DOWN._replace(retry_after=120.0)
    world.happen()
    world.run()
    assert world.endpoint.due_in() == 120.0


def test_a_clock_that_was_ahead_does_not_put_off_for_long(world: World) -> None:
    world.receiver.answer = lambda _event: DOWN
    world.happen()
    world.clock.leap(30 * DAY)
    world.run()
    world.clock.leap(-30 * DAY)
    assert world.endpoint.due_in() == 0.0


def test_an_event_of_a_clock_that_was_ahead_is_given_up_in_time(world: World) -> None:
    world.clock.leap(365 * DAY)
    world.happen(1)
    world.clock.leap(-365 * DAY)
    world.happen(2)
    refused = WebhookAnswer(WebhookOutcome.REFUSED, "422")
    world.receiver.answer = lambda event: refused if event.number == 2 else WebhookAnswer(WebhookOutcome.DELIVERED)
    for _ in range(5):
        world.run()
        world.clock.advance(DAY)
    assert world.receiver.taken == [3, 4]
    assert world.dead() == [2]


def test_a_failure_of_a_clock_that_was_ahead_is_given_up_in_time(world: World) -> None:
    """So is a dead letter that was queued by such a clock. Both would hold up all newer events."""
    world.receiver.answer = lambda _event: DOWN
    world.happen(1)
    for _ in range(2):
        world.clock.leap(365 * DAY)
        world.desk.requeue("hook", None)
        world.run()
        world.clock.leap(-365 * DAY)
        for _ in range(5):
            world.run()
            world.clock.advance(DAY)
        assert world.dead() == [2]
    world.happen(1)
    world.receiver.answer = lambda _event: WebhookAnswer(WebhookOutcome.DELIVERED)
    world.run()
    assert (world.receiver.taken, world.dead()) == ([3], [2])
    assert next(iter(world.context.catalog.dead_letters("hook", 0, 9))).queued_at is None


def test_what_was_not_taken_is_given_up_together_after_the_time(world: World) -> None:
    world.receiver.answer = lambda _event: DOWN
    world.happen(3)
    world.run()
    world.clock.advance(2 * DAY)
    world.happen(2)
    world.run()
    assert world.dead() == []
    world.clock.advance(1.5 * DAY)
    world.run()
    assert world.dead() == [2, 3, 4], "the two later ones are not old enough"
    assert world.receiver.asked == [2, 2, 2], "those behind were not tried one by one"
    assert world.endpoint.record.position == 4
    world.clock.advance(10)
    world.receiver.answer = lambda _event: WebhookAnswer(WebhookOutcome.DELIVERED)
    world.run()
    assert world.receiver.taken == [5, 6]


def test_an_event_that_is_refused_is_given_up_alone(world: World) -> None:
    refused = WebhookAnswer(WebhookOutcome.REFUSED, "422")
    world.receiver.answer = lambda event: refused if event.number == 3 else WebhookAnswer(WebhookOutcome.DELIVERED)
    world.happen(4)
    world.run()
    assert world.receiver.taken == [2]
    world.clock.advance(3 * DAY)
    world.run()
    assert (world.receiver.taken, world.dead()) == ([2, 4, 5], [3])
    assert world.endpoint.record.failing_since is None


def test_dead_letters_are_sent_again_before_newer_events(world: World) -> None:
    world.give_up(3)
    assert world.dead() == [2, 3, 4]
    world.happen()
    assert world.desk.requeue("hook", [2, 4]) == 2
    world.clock.advance(10)
    world.run()
    assert world.dead() == [2, 3, 4], "they stay until they are taken"
    world.begin()
    world.receiver.answer = lambda _event: WebhookAnswer(WebhookOutcome.DELIVERED)
    world.clock.advance(10)
    world.run()
    assert (world.receiver.taken, world.dead()) == ([2, 4, 5], [3])


def test_a_dead_letter_that_is_refused_again_is_dead_again(world: World) -> None:
    refused = WebhookAnswer(WebhookOutcome.REFUSED, "422")
    world.receiver.answer = lambda event: refused if event.number == 2 else WebhookAnswer(WebhookOutcome.DELIVERED)
    world.happen(2)
    world.run()
    world.clock.advance(3 * DAY)
    world.run()
    world.happen()
    world.desk.requeue("hook", None)
    world.run()
    assert (world.receiver.taken, world.dead()) == ([3, 4], [2])
    (letter,) = world.context.catalog.dead_letters("hook", 0, 9)
    assert (letter.queued_at, letter.reason) == (None, "it was queued again and was not taken: 422")


def step_while_failing(world: World, method: str) -> None:
    """Have the endpoint take three steps while the catalog refuses one kind of write."""

    def fail(*_: object) -> None:
        raise CatalogError("no space left")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.context.catalog, method, fail)
        for _ in range(3):
            with suppress(CatalogError):
                world.endpoint.step()
            world.clock.advance(10)


@pytest.mark.parametrize(
    ("answer", "dead"),
    [(WebhookAnswer(WebhookOutcome.DELIVERED), []), (DOWN, [4]), (WebhookAnswer(WebhookOutcome.REFUSED, "422"), [4])],
)
def test_nothing_is_sent_while_the_catalog_cannot_record_it(
    world: World, answer: WebhookAnswer, dead: list[int]
) -> None:
    world.receiver.answer = lambda event: answer if event.number == 4 else WebhookAnswer(WebhookOutcome.DELIVERED)
    world.happen(3)
    step_while_failing(world, "save_webhook")
    assert world.receiver.asked == [2, 3, 4]
    for _ in range(3):
        world.clock.advance(2 * DAY)
        world.run()
    assert world.receiver.asked == [2, 3, 4] + [4] * (world.receiver.asked.count(4) - 1)
    assert (world.context.catalog.webhooks()["hook"].position, world.dead()) == (4, dead)


def test_what_was_taken_is_not_sent_again_when_the_catalog_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something happens between two events, so that the record is read again."""
    read = world.context.catalog.webhooks

    def fails() -> Any:
        raise CatalogError("the database restarts")

    def take(_event: EventRecord) -> WebhookAnswer:
        if world.receiver.asked == [2, 3, 4]:
            world.context.notifier.notify()
            monkeypatch.setattr(world.context.catalog, "webhooks", fails)
        return WebhookAnswer(WebhookOutcome.DELIVERED)

    world.receiver.answer = take
    world.happen(5)
    with pytest.raises(CatalogError):
        world.run()
    monkeypatch.setattr(world.context.catalog, "webhooks", read)
    world.run()
    assert world.receiver.taken == [2, 3, 4, 5, 6]
    world.begin()
    world.run()
    assert world.receiver.taken == [2, 3, 4, 5, 6], "the position was saved"


def test_dead_letters_are_sent_once_while_the_catalog_cannot_drop_them(world: World) -> None:
    world.give_up(2)
    world.receiver.answer = lambda _event: WebhookAnswer(WebhookOutcome.DELIVERED)
    world.clock.advance(10)
    world.desk.requeue("hook", None)
    step_while_failing(world, "drop_dead_letters")
    assert world.receiver.taken == [2]
    world.run()
    assert (world.receiver.taken, world.dead()) == ([2, 3], [])


def test_gone_disables_until_a_client_enables(world: World) -> None:
    world.receiver.answer = lambda _event: WebhookAnswer(WebhookOutcome.GONE, "410")
    world.happen()
    world.run()
    assert world.context.catalog.webhooks()["hook"].state is WebhookState.DISABLED
    assert world.begin().due_in() is None
    world.clock.advance(9 * DAY)
    world.run()
    assert world.receiver.asked == [2]
    world.receiver.answer = lambda _event: WebhookAnswer(WebhookOutcome.DELIVERED)
    world.desk.enable("hook")
    world.run()
    assert world.receiver.taken == [2]


def test_a_client_rewinds_also_while_an_event_is_under_way(world: World) -> None:
    def rewinding(event: EventRecord) -> WebhookAnswer:
        if event.number == 4 and world.receiver.asked.count(4) == 1:
            world.desk.rewind("hook", 1)
        return WebhookAnswer(WebhookOutcome.DELIVERED)

    world.receiver.answer = rewinding
    world.happen(4)
    world.run()
    assert world.receiver.taken == [2, 3, 4, 2, 3, 4, 5]


def test_events_are_kept_until_the_webhook_has_got_them(tmp_path: Path, world: World) -> None:
    world.receiver.answer = lambda event: WebhookAnswer(WebhookOutcome.DELIVERED) if event.number < 4 else DOWN
    world.happen(4)
    world.run()
    context = world.context
    retaining = Remover(context, RetentionClock(context.clock))
    world.clock.advance(8 * DAY)
    retaining.drop_events()
    assert [event.number for event in context.catalog.events_after(0, 99)] == [4, 5]
    world.run()
    assert world.dead() == [4, 5]
    retaining.drop_events()
    assert [event.number for event in context.catalog.events_after(0, 99)] == [5]
    world.clock.advance(31 * DAY)
    retaining.drop_dead_letters()
    assert world.dead() == []
