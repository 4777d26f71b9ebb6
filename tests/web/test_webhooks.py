"""Webhooks by REST and by the command line."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from app.cli.application import application
from app.model.records import Checkpoint, EventRecord, NewEvent
from app.model.webhook_state import DeadLetter
from tests.support.webhook_receiver import SECRET
from tests.web.conftest import connected
from tests.web.stock import Stock


@pytest.fixture
def stock(tmp_path: Path) -> Iterator[Stock]:
    """A gateway with a webhook and three dead letters of it."""
    hook = {"url": "https://hook.example/in?key=hidden", "secrets": [SECRET], "types": ["attachment.*"]}
    stock = Stock(tmp_path, webhooks={"audit": hook})
    letters = [
        DeadLetter("audit", EventRecord(n, "attachment.finished", f"a{n}", n, {"size": n}), 50 + n, "it was away")
        for n in (3, 4, 5)
    ]
    stock.catalog.save_webhook(stock.gateway.webhooks.record("audit"), letters)
    yield stock
    stock.close()


@pytest.fixture
def http(stock: Stock) -> Iterator[httpx.Client]:
    with connected(stock) as client:
        yield client


def test_a_webhook_tells_how_far_it_is_and_no_secret(stock: Stock, http: httpx.Client) -> None:
    (listed,) = http.get("/v1/webhooks").json()["items"]
    assert listed == http.get("/v1/webhooks/audit").json()
    assert (listed["name"], listed["state"], listed["dead_letters"]) == ("audit", "active", 3)
    assert listed["url"] == "https://hook.example/in"
    assert SECRET.removeprefix("whsec_") not in http.get("/v1/webhooks").text
    assert http.get("/v1/webhooks/none").status_code == 404


def test_dead_letters_are_listed_replayed_and_deleted(stock: Stock, http: httpx.Client) -> None:
    page = http.get("/v1/webhooks/audit/dead-letters", params={"limit": 2}).json()
    assert [each["number"] for each in page["items"]] == [3, 4]
    rest = http.get("/v1/webhooks/audit/dead-letters", params={"limit": 2, "cursor": page["next"]}).json()
    assert ([each["number"] for each in rest["items"]], rest["next"]) == ([5], None)
    assert page["items"][0]["event"]["data"] == {"size": 3}
    assert page["items"][0]["event"]["id"] == stock.catalog.event_logs().identify(3)
    replayed = http.post("/v1/webhooks/audit/dead-letters/replay", params={"event": [3, 99]})
    assert (replayed.status_code, replayed.json()) == (202, {"dead_letters": 1})
    queued = http.get("/v1/webhooks/audit/dead-letters").json()["items"]
    assert [each["queued_at"] is not None for each in queued] == [True, False, False]
    assert http.delete("/v1/webhooks/audit/dead-letters", params={"event": 4}).json() == {"dead_letters": 1}
    assert http.delete("/v1/webhooks/audit/dead-letters").json() == {"dead_letters": 2}
    assert http.get("/v1/webhooks/audit/dead-letters", params={"cursor": "x"}).status_code == 422
    refused = http.delete("/v1/webhooks/audit/dead-letters", params={"event": ["4", "abc"]})
    assert [each["parameter"] for each in refused.json()["errors"]] == ["event"]


def test_replay_sets_the_position(stock: Stock, http: httpx.Client) -> None:
    assert http.post("/v1/webhooks/audit/replay", json={"after": 0}).json()["last_event"] == 0
    assert stock.catalog.webhooks()["audit"].position == 0
    for wrong in ({}, {"after": -1}, {"after": 1, "before": 2}, {"after": True}, {"after": "1"}):
        assert http.post("/v1/webhooks/audit/replay", json=wrong).status_code == 422, wrong
    stock.catalog.checkpoint(Checkpoint(events=[NewEvent("attachment.finished", "a", 1, {})]))
    newest = stock.catalog.last_event()
    assert http.post("/v1/webhooks/audit/replay", json={"after": newest}).json()["last_event"] == newest
    beyond = http.post("/v1/webhooks/audit/replay", json={"after": newest + 1})
    assert (beyond.status_code, beyond.json()["errors"][0]["pointer"]) == (422, "#/after")
    assert f"the newest event has the number {newest}" in beyond.json()["detail"]
    assert stock.catalog.webhooks()["audit"].position == newest


def test_the_command_line(stock: Stock, http: httpx.Client) -> None:
    def run(*words: str) -> str:
        result = CliRunner().invoke(application, ["webhooks", *words, "--url", str(http.base_url)])
        assert result.exit_code == 0, result.output
        return result.output

    assert "audit" in run("ls")
    assert json.loads(run("ls", "--json"))["dead_letters"] == 3
    assert "attachment.finished" in run("dead", "audit")
    assert "1 dead letters are sent again" in run("replay", "audit", "--event", "3")
    assert "events after 0 again" in run("replay", "audit", "--after", "0")
    assert "3 dead letters were deleted" in run("dismiss", "audit")
    assert "audit is active" in run("enable", "audit")
