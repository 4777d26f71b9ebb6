"""Requests that wait for a change."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest

from app.model.attachment import AttachmentState, DeliveryState
from app.model.records import Checkpoint, DeliveryRecord, NewEvent
from app.testing.waiting import until
from app.web.responses.event_feed import Feed
from tests.web.stock import Stock

LONG = 50


def asking(http: httpx.Client, pool: ThreadPoolExecutor, path: str, wait: float) -> Future[dict[str, Any]]:
    return pool.submit(lambda: http.get(path, params={"wait": wait}).raise_for_status().json())


@pytest.fixture
def awaited(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The subjects that requests have begun to wait for."""
    begun: list[str] = []
    found = Feed.awaiting

    def noting(feed: Feed, subject: str) -> Any:
        begun.append(subject)
        return found(feed, subject)

    monkeypatch.setattr(Feed, "awaiting", noting)
    return begun


def delivery(stock: Stock) -> DeliveryRecord:
    record = DeliveryRecord("cd34" + "0" * 28, "partner", bytes(24), bytes(24), (), 1, 1)
    stock.catalog.add_delivery(record, [])
    return record


def enter(stock: Stock, record: DeliveryRecord, state: DeliveryState) -> None:
    event = NewEvent(f"delivery.{state}", record.id, 1, {})
    stock.catalog.update_delivery(replace(record, state=state), [event])
    stock.gateway.notifier.notify()


def test_a_delivery_answers_when_its_state_changes(stock: Stock, http: httpx.Client, awaited: list[str]) -> None:
    record = delivery(stock)
    with ThreadPoolExecutor(20) as pool:
        for state in (DeliveryState.SENDING, DeliveryState.SENT):
            asked = [asking(http, pool, "/v1/deliveries/cd34", LONG) for _ in range(20)]
            until(lambda: len(awaited) % 20 == 0 and awaited)
            stock.catalog.checkpoint(Checkpoint(events=[NewEvent("delivery.sent", "another", 1, {})]))
            assert not any(each.done() for each in asked)
            enter(stock, record, state)
            assert {each.result(30)["state"] for each in asked} == {state}
    assert http.get("/v1/deliveries/cd34", params={"wait": LONG}).json()["state"] == "sent", "a final state: at once"


def test_an_attachment_answers_when_it_is_finished(stock: Stock, http: httpx.Client, awaited: list[str]) -> None:
    record = stock.receiving([(1, 2)], 3)
    with ThreadPoolExecutor(1) as pool:
        asked = asking(http, pool, f"/v1/attachments/{record.id}", LONG)
        until(lambda: awaited)
        deleted = NewEvent("attachment.deleted", record.id, 1, {})
        stock.catalog.set_state([record.id], AttachmentState.DELETED, events=[deleted])
        stock.gateway.notifier.notify()
        assert asked.result(30)["state"] == "deleted"


def test_without_a_change_the_time_ends_the_wait(stock: Stock, http: httpx.Client) -> None:
    delivery(stock)
    assert http.get("/v1/deliveries/cd34", params={"wait": 0.05}).json()["state"] == "queued"
    assert http.get("/v1/deliveries/none", params={"wait": LONG}).status_code == 404
    for wrong in ("-1", "61", "nan", "long"):
        assert http.get("/v1/deliveries/cd34", params={"wait": wrong}).status_code == 422, wrong


@pytest.mark.usefixtures("one_process")
def test_the_end_of_the_gateway_ends_the_wait(stock: Stock, http: httpx.Client, awaited: list[str]) -> None:
    delivery(stock)
    with ThreadPoolExecutor(1) as pool:
        asked = asking(http, pool, "/v1/deliveries/cd34", LONG)
        until(lambda: awaited)
        stock.gateway.drain()
        assert asked.result(30)["state"] == "queued"


def test_a_client_that_leaves_is_not_waited_for(
    stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = delivery(stock)
    feeds: set[Feed] = set()
    found = Feed.awaiting

    def noting(feed: Feed, subject: str) -> Any:
        feeds.add(feed)
        return found(feed, subject)

    monkeypatch.setattr(Feed, "awaiting", noting)
    with pytest.raises(httpx.ReadTimeout):
        http.get("/v1/deliveries/cd34", params={"wait": LONG}, timeout=0.3)
    (feed,) = feeds
    until(lambda: record.id not in feed._awaited)
