import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest

from app.model.records import Checkpoint, JournalIdentity, NewEvent
from app.testing.waiting import until
from app.web.responses import event_feed as events
from tests.web.conftest import connected
from tests.web.stock import Stock

EVENTS = 200


def happen(stock: Stock, *numbers: int) -> None:
    stock.catalog.checkpoint(
        Checkpoint(events=[NewEvent("attachment.finished", f"a{n}", n * 1_000_000, {"size": n}) for n in numbers])
    )
    stock.gateway.notifier.notify()


def identify(stock: Stock, number: int) -> str:
    return stock.catalog.event_logs().identify(number)


@contextmanager
def happening(stock: Stock, *, every: float) -> Iterator[None]:
    """Let at most EVENTS events happen at short intervals within the block."""
    stop = Event()

    def run() -> None:
        for number in range(EVENTS):
            if stop.wait(every):
                return
            happen(stock, number)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Listener:
    """One client of the stream."""

    def __init__(self, response: httpx.Response) -> None:
        assert response.headers["content-type"].startswith("text/event-stream")
        self._lines: Iterator[str] = response.iter_lines()
        self.comment()

    def comment(self) -> str:
        return next(line for line in self._lines if line.startswith(":"))

    def events(self, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        number = ""
        for line in self._lines:
            if line.startswith("id: "):
                number = line.removeprefix("id: ")
            elif line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
                assert found[-1]["id"] == number
                if len(found) == count:
                    break
        return found

    def rest(self) -> list[str]:
        return [line for line in self._lines if line.startswith("data: ")]


def test_an_event_is_a_cloud_event(stock: Stock, http: httpx.Client) -> None:
    with http.stream("GET", "/v1/events") as response:
        listener = Listener(response)
        happen(stock, 5)
        assert listener.events(1) == [
            {
                "specversion": "1.0",
                "id": identify(stock, 1),
                "source": "/v1/events",
                "type": "attachment.finished",
                "subject": "a5",
                "time": "1970-01-01T00:00:05+00:00",
                "datacontenttype": "application/json",
                "data": {"size": 5},
            }
        ]


def test_many_clients_hear_all_from_where_they_were(
    stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    happen(stock, *range(1, 21))
    one, other, last = (identify(stock, number) for number in (3, 7, 19))
    asked: list[tuple[dict[str, str], dict[str, str], int]]
    asked = [({"after": "0"}, {}, 1), ({}, {"Last-Event-ID": other}, 8), ({"after": one}, {"Last-Event-ID": last}, 20)]
    asked += [({}, {}, 21), ({"after": one}, {}, 4)]
    with ExitStack() as stack:
        streams = [stack.enter_context(http.stream("GET", "/v1/events", params=p, headers=h)) for p, h, _ in asked]
        listeners = [Listener(response) for response in streams]
        happen(stock, *range(21, 31))
        for listener, (_, _, first) in zip(listeners, asked, strict=True):
            seen = [event["id"] for event in listener.events(31 - first)]
            assert seen == [identify(stock, n) for n in range(first, 31)]


def test_a_client_further_back_than_what_is_kept(
    stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "AT_ONCE", 7)
    happen(stock, *range(1, 31))
    with http.stream("GET", "/v1/events", params={"after": identify(stock, 2)}) as response:
        seen = [event["id"] for event in Listener(response).events(28)]
    assert seen == [identify(stock, n) for n in range(3, 31)]


def test_a_comment_keeps_the_connection(stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.01)
    with http.stream("GET", "/v1/events") as response:
        listener = Listener(response)
        assert listener.comment() == ": still here"
        happen(stock, 1)
        assert [event["id"] for event in listener.events(1)] == [identify(stock, 1)]


@pytest.mark.usefixtures("one_process")
def test_the_stream_ends_when_the_gateway_drains(stock: Stock, http: httpx.Client) -> None:
    with http.stream("GET", "/v1/events") as response:
        listener = Listener(response)
        stock.gateway.draining = True
        stock.gateway.notifier.notify()
        assert listener.rest() == []


def test_events_of_what_clients_do(stock: Stock, http: httpx.Client) -> None:
    record = stock.stored(b"data")
    with http.stream("GET", "/v1/events") as response:
        listener = Listener(response)
        http.delete(f"/v1/attachments/{record.id}")
        (event,) = listener.events(1)
        assert (event["type"], event["subject"]) == ("attachment.deleted", record.id)
    until(lambda: http.get("/health/live").status_code == 200)


def test_filters_select_by_type_source_destination_and_subject(stock: Stock, http: httpx.Client) -> None:
    stock.catalog.checkpoint(
        Checkpoint(
            events=[
                NewEvent("attachment.finished", "a1" * 16, 1, {"source": "orders"}),
                NewEvent("attachment.expired", "a2" * 16, 2, {"source": "returns"}),
                NewEvent("delivery.sent", "d1" * 16, 3, {"destination": "partner"}),
                NewEvent("message.complete", "c1" * 16, 4, {"source": "orders"}),
            ]
        )
    )
    asked: list[tuple[dict[str, Any], list[str]]] = [
        ({"type": ["attachment.*", "delivery.sent"]}, ["1", "2", "3"]),
        ({"source": "orders"}, ["1", "4"]),
        ({"source": ["orders", "returns"], "type": "attachment.*"}, ["1", "2"]),
        ({"destination": "partner"}, ["3"]),
        ({"subject": ["a2" * 16, "c1" * 2]}, ["2", "4"]),
    ]
    for filters, expected in asked:
        with http.stream("GET", "/v1/events", params={"after": 0, **filters}) as response:
            assert [event["id"].partition("-")[0] for event in Listener(response).events(len(expected))] == expected, (
                filters
            )
    for name, value in (("type", "Attachment"), ("subject", "a1a")):
        refused = http.get("/v1/events", params={name: value})
        assert (refused.status_code, refused.json()["errors"][0]["parameter"]) == (422, name)


def test_a_filtered_stream_tells_how_far_it_is(
    stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.01)
    happen(stock, *range(1, 8))
    with http.stream("GET", "/v1/events", params={"after": 0, "type": "delivery.*"}) as response:
        assert f"id: {identify(stock, 7)}" in (line for line in response.iter_lines())


def test_a_filtered_stream_has_heartbeats_while_other_events_happen(
    stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.2)
    with (
        http.stream("GET", "/v1/events", params={"type": "delivery.*"}) as response,
        happening(stock, every=0.05),
    ):
        told = next(line for line in response.iter_lines() if line.startswith("id: ") and line != "id: 0")
        assert int(told.removeprefix("id: ").partition("-")[0]) < EVENTS


def test_events_about_what_was_received_name_its_source(stock: Stock, http: httpx.Client) -> None:
    record = stock.stored(b"data", source="returns")
    http.delete(f"/v1/attachments/{record.id}")
    (event,) = stock.catalog.events_after(0, 9)
    assert event.data["source"] == "returns"


JOURNAL = JournalIdentity("a" * 32, 1)


def test_an_id_of_an_event_that_is_not_in_this_log_is_refused(tmp_path: Path) -> None:
    """What another gateway, or this one before a power failure, numbered the same is not taken for it."""
    stock = Stock(tmp_path)
    stock.catalog.bind(JOURNAL)
    happen(stock, *range(1, 11))
    first = {number: identify(stock, number) for number in (0, 5, 8, 10)}
    lost = "DELETE FROM events WHERE number > 7"
    with sqlite3.connect(tmp_path / "catalog.sqlite") as database:
        database.execute(lost)
        database.execute("UPDATE sqlite_sequence SET seq = 7 WHERE name = 'events'")
    for epoch in (2, 3, 4):
        stock.catalog.bind(JOURNAL._replace(epoch=epoch))
    assert len(stock.catalog.event_logs().names) == 2, "one without events leaves no row"
    happen(stock, *range(21, 24))
    with connected(stock) as http:
        for header in ({"Last-Event-ID": first[8]}, {"Last-Event-ID": first[10]}, {"Last-Event-ID": "3-0badc0de"}):
            refused = http.get("/v1/events", headers=header)
            assert (refused.status_code, refused.json()["type"]) == (410, "/problems/events-gone")
            assert http.get("/v1/events", params={"after": header["Last-Event-ID"]}).status_code == 410
        for wrong in ("3", "-1", "x", "3-", "0-3f"):
            assert http.get("/v1/events", params={"after": wrong}).json()["type"] == "/problems/invalid"
        for number, subjects in (
            (first[5], "a6 a7 a21 a22 a23"),
            (first[0], "a1 a2 a3"),
            (identify(stock, 8), "a22 a23"),
        ):
            expected = subjects.split()
            with http.stream("GET", "/v1/events", headers={"Last-Event-ID": number}) as response:
                assert [event["subject"] for event in Listener(response).events(len(expected))] == expected
    assert identify(stock, 8) not in first.values()
    stock.close()


def test_a_stream_ends_when_events_that_its_client_has_seen_are_lost(tmp_path: Path) -> None:
    """The database is put back while the process runs. What has their numbers now comes to nobody in their place."""
    stock = Stock(tmp_path)
    stock.catalog.bind(JOURNAL)
    happen(stock, *range(1, 8))
    begin, lost = identify(stock, 5), identify(stock, 7)
    with connected(stock) as http:
        with http.stream("GET", "/v1/events", headers={"Last-Event-ID": begin}) as response:
            listener = Listener(response)
            assert [event["subject"] for event in listener.events(2)] == ["a6", "a7"]
            with sqlite3.connect(tmp_path / "catalog.sqlite") as database:
                database.execute("DELETE FROM events WHERE number > 5")
                database.execute("UPDATE sqlite_sequence SET seq = 5 WHERE name = 'events'")
            stock.catalog.bind(JOURNAL._replace(epoch=2))
            happen(stock, 21, 22, 23)
            assert listener.rest() == []
        assert http.get("/v1/events", headers={"Last-Event-ID": lost}).status_code == 410
        with http.stream("GET", "/v1/events", headers={"Last-Event-ID": begin}) as response:
            assert [event["subject"] for event in Listener(response).events(3)] == ["a21", "a22", "a23"]
    stock.close()
