"""What waits for its header is listed apart, and every identifier that was shown keeps answering."""

from base64 import b64decode
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from app.model.identity import attachment_id
from app.model.principals import Scope
from app.service.access.api_keys import KeyLimits, make_key
from app.testing.waiting import until
from tests.support.announcing import KEY, Known, Sent, traffic
from tests.support.length import examples
from tests.support.sas_client import Program, binary_file, message
from tests.web.conftest import connected
from tests.web.stock import Stock, arriving

SOURCE = "orders"
PATH = "/v1/attachments"


class Watched:
    """A gateway that receives, a client of it, what is known of what came, and the identifiers that were shown."""

    def __init__(self, stock: Stock, http: httpx.Client) -> None:
        self.stock, self.http, self.known = stock, http, Known()
        self.shown: dict[str, bytes] = {}
        self.waiting: set[str] = set()

    def receive(self, piece: list[Sent]) -> None:
        self.stock.deliver([each.message for each in piece])
        for each in piece:
            self.known.come(each)
        self.look()

    def look(self) -> None:
        """Look at both lists, which must have exactly what is known."""
        listed, waiting = self.listed("true"), self.listed("false")
        assert {each["id"] for each in listed} == self.ids(self.known.announced)
        assert {each["id"] for each in waiting} == self.ids(self.known.unannounced)
        assert all(each["kind"] for each in listed)
        assert not any(each["kind"] or each["message"] for each in waiting)
        self.waiting |= {each["id"] for each in waiting}
        assert self.stock.catalog.counts()["unannounced"]["receiving"] == len(waiting)
        assert sum(self.stock.catalog.counts()["attachments"].values()) == len(listed)

    def ids(self, keys: set[bytes]) -> set[str]:
        found = {attachment_id(SOURCE, key): key for key in keys}
        self.shown |= found
        return set(found)

    def listed(self, announced: str) -> list[dict[str, Any]]:
        response = self.http.get(PATH, params={"announced": announced, "limit": 500, "count": True})
        items: list[dict[str, Any]] = response.json()["items"]
        assert int(response.headers["total-count"]) == len(items)
        return items

    def check_answers(self) -> None:
        """Every identifier that was shown answers: as an attachment, as what waits, or with a link to its messages."""
        for identifier, key in self.shown.items():
            response = self.http.get(f"{PATH}/{identifier}")
            if key in self.known.announced:
                assert (response.status_code, bool(response.json()["kind"])) == (200, True)
            elif key in self.known.unannounced:
                assert (response.status_code, response.json()["kind"]) == (200, None)
            else:
                assert response.status_code == 410
                assert self.answers(response) == self.known.bodies(key)

    def answers(self, response: httpx.Response) -> set[bytes]:
        """The application messages to which the problem links."""
        problem = response.json()
        assert problem["type"] == "/problems/application-message"
        messages = (self.http.get(each["links"]["self"]).json() for each in problem["messages"])
        return {b64decode(each["application_message"]["base64"]) for each in messages}

    def check_events(self) -> None:
        """Whoever was shown what waits is told what it is."""
        told: dict[str, set[str]] = {}
        for event in self.stock.catalog.events_after(0, 100_000):
            if event.type == "attachment.identified":
                assert event.data["source"] == SOURCE
                told.setdefault(event.subject, set()).add(str(event.data["what"]))
        for identifier in self.waiting:
            key = self.shown[identifier]
            if key in self.known.announced:
                assert told[identifier] == {"attachment"}
            elif key not in self.known.unannounced:
                assert told[identifier] == {"application-message"}
        assert told.keys() <= {attachment_id(SOURCE, each[:KEY]) for each in self.known.came}


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    stock = Stock(tmp_path, **arriving())
    stock.gateway.start()
    with connected(stock) as http:
        yield Watched(stock, http)
    stock.close()


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=traffic())
def test_lists_have_what_is_known_and_identifiers_answer(watched: Watched, pieces: list[list[Sent]]) -> None:
    for piece in pieces:
        watched.receive(piece)
    watched.check_answers()
    watched.check_events()


def sent(seed: int) -> list[Any]:
    program = Program(Random(seed))
    return message(program, [binary_file(program, "a.bin", b"x" * 5000)])


def identifier_of(correl_id: bytes) -> str:
    return attachment_id(SOURCE, correl_id[:KEY])


def test_an_application_message_before_its_header(watched: Watched) -> None:
    header, application, *parts = sent(1)
    watched.stock.deliver([application])
    identifier = identifier_of(application.correl_id)
    (waiting,) = watched.listed("false")
    assert (waiting["id"], waiting["state"], waiting["kind"]) == (identifier, "receiving", None)
    until(lambda: watched.http.get("/v1/summary").json()["unannounced"] == 1)
    summary = watched.http.get("/v1/summary").json()
    assert summary["sources"][0]["unannounced"] == 1
    assert summary["sources"][0]["receiving"] == sum(summary["attachments"].values()) == 0
    assert sum(each["count"] for each in summary["partials_by_age"]) == 0
    watched.stock.deliver([header, *parts])
    for path in ("", "/parts", "/timeline", "/content", "/physical-messages", "/rows"):
        assert watched.http.get(f"{PATH}/{identifier}{path}").status_code == 410, path
    assert watched.http.delete(f"{PATH}/{identifier}").status_code == 410
    problem = watched.http.get(f"{PATH}/{identifier[:8]}").json()
    (named,) = problem["messages"]
    assert named["id"] in problem["detail"]
    assert watched.http.get(named["links"]["self"]).json()["application_message"]["text"].startswith("This is")
    until(lambda: watched.http.get("/v1/summary").json()["unannounced"] == 0)


def test_a_message_that_the_caller_does_not_know_is_not_told(watched: Watched) -> None:
    header, application, *_ = sent(2)
    watched.stock.deliver([application])
    watched.stock.deliver([header])
    limits = KeyLimits(sources=frozenset({"others"}))
    key, text = make_key("own", frozenset({Scope.READ}), watched.stock.clock.now(), limits)
    watched.stock.catalog.add_key(key)
    identifier = identifier_of(application.correl_id)
    for given_digits in (identifier, identifier[:8]):
        found = watched.http.get(f"{PATH}/{given_digits}", headers={"Authorization": f"Bearer {text}"})
        assert found.status_code == 404


def test_who_waits_is_told_when_it_is_known(watched: Watched) -> None:
    header, application, *_ = sent(3)
    watched.stock.deliver([application])
    identifier = identifier_of(application.correl_id)
    after = watched.stock.catalog.last_event()
    watched.stock.deliver([header])
    with watched.http.stream("GET", "/v1/events", params={"after": after, "type": "attachment.identified"}) as stream:
        lines = (line for line in stream.iter_lines() if line.startswith("data:"))
        event = httpx.Response(200, content=next(lines).removeprefix("data:")).json()
    (message_id,) = (each["id"] for each in watched.http.get("/v1/messages").json()["items"])
    assert event["subject"] == identifier
    assert event["data"] == {"source": SOURCE, "what": "application-message", "message": message_id}


def test_what_nobody_was_shown_is_not_told_of(watched: Watched) -> None:
    """Of 200 application messages that came just before their headers, hardly any is in the catalog in between."""
    watched.stock.deliver(list(chain.from_iterable(sent(each)[1::-1] for each in range(10, 210))))
    told = [each for each in watched.stock.catalog.events_after(0, 1000) if each.type == "attachment.identified"]
    assert len(told) < 20
    found = watched.http.get(f"{PATH}/{identifier_of(sent(77)[1].correl_id)}")
    assert found.json()["type"] == "/problems/application-message", "another start may have shown it"
