"""Webhooks of a running gateway, with a receiver on a real port."""

from pathlib import Path
from random import Random

from app.model.records import Checkpoint, NewEvent
from app.service.webhooks import webhook_threads
from app.testing.waiting import until
from tests.support.mosquitto import free_port
from tests.support.roles import term
from tests.support.webhook_receiver import SECRET, Answered, WebhookReceiver
from tests.web.stock import Stock

EVENTS = 200


def hooks(port: int, **more: object) -> dict[str, dict[str, object]]:
    about = {"secrets": [SECRET], "networks": ["127.0.0.0/8"], "retry_first": "5ms", "retry_longest": "20ms", **more}
    return {"hook": {"url": f"http://127.0.0.1:{port}/hook", **about}}


def happen(stock: Stock, numbers: range, attachments: int = 5) -> None:
    for number in numbers:
        event = NewEvent("attachment.finished", f"a{number % attachments}", stock.clock.now(), {"n": number})
        stock.catalog.checkpoint(Checkpoint(events=[event]))
    stock.gateway.notifier.notify()


def test_a_receiver_that_was_away_gets_every_event_in_order_with_valid_signatures(tmp_path: Path) -> None:
    """It is away at the start, comes, answers with errors now and then, goes away, and comes back; the gateway
    restarts meanwhile."""
    port = free_port()
    stock = Stock(tmp_path, webhooks=hooks(port))
    stock.gateway.start()
    happen(stock, range(50))
    until(lambda: stock.gateway.webhooks.record("hook").attempts > 2)
    flaky = Random(7)
    seen: list[tuple[str, int]] = []
    forged: list[str] = []

    def received(at_least: int) -> None:
        with WebhookReceiver(port=port) as receiver:
            receiver.answer = lambda _event: Answered(flaky.choice([204, 204, 204, 500, 503]))
            until(lambda: len(receiver.taken) >= at_least)
        seen.extend((each.event["subject"], each.event["data"]["n"]) for each in receiver.taken)
        forged.extend(receiver.forged)

    received(20)
    happen(stock, range(50, 120))
    stock.close()
    stock = Stock(tmp_path, webhooks=hooks(port))
    stock.gateway.start()
    happen(stock, range(120, EVENTS))
    received(EVENTS - 20 - 20)
    until_all = len({n for _, n in seen})
    if until_all < EVENTS:
        received(EVENTS - until_all)
    stock.close()
    assert forged == []
    assert {n for _, n in seen} == set(range(EVENTS))
    for attachment in {subject for subject, _ in seen}:
        numbers = list(dict.fromkeys(n for subject, n in seen if subject == attachment))
        assert numbers == sorted(numbers), attachment


def test_two_webhooks_of_one_host_share_a_thread_and_one_that_fails_stops_no_other(tmp_path: Path) -> None:
    with WebhookReceiver() as receiver:
        receiver.answer = lambda _event: Answered(204)
        good = hooks(receiver.port)
        bad = hooks(receiver.port, secrets=["whsec_" + "A" * 32])
        stock = Stock(tmp_path, webhooks={"good": good["hook"], "bad": bad["hook"]})
        stock.gateway.start()
        assert [each.name for each in term(stock.gateway).workers if each.name.startswith("webhooks")] == [
            f"webhooks 127.0.0.1:{receiver.port}"
        ]
        happen(stock, range(30))
        until(lambda: receiver.numbers() == list(range(1, 31)))
        until(lambda: stock.gateway.webhooks.record("bad").attempts > 1)
        checks = stock.gateway.health().checks
        assert (checks["webhook good"]["ok"], checks["webhook bad"]["ok"]) == (True, False)
        text = stock.gateway.metrics.text().decode()
        stock.close()
    assert 'attachment_gateway_webhook_requests_total{outcome="delivered",webhook="good"} 30.0' in text
    assert 'attachment_gateway_webhook_failing{webhook="bad"} 1.0' in text
    assert 'attachment_gateway_webhook_behind_events{webhook="bad"} 30.0' in text


def test_the_idle_time_bounds_how_late_an_event_of_another_process_is(tmp_path: Path) -> None:
    """The Spark job logs events in a process of its own, which wakes nobody here."""
    assert webhook_threads.IDLE_SECONDS <= 1.0
    with WebhookReceiver() as receiver:
        stock = Stock(tmp_path, webhooks=hooks(receiver.port))
        stock.gateway.start()
        stock.catalog.checkpoint(Checkpoint(events=[NewEvent("attachment.finished", "a1", 1, {})]))
        until(lambda: receiver.numbers() == [1])
        stock.close()
