"""Receivers that share a journal by REST and by the command line."""

import json

import httpx
from typer.testing import CliRunner

from app.cli.application import application
from tests.web.stock import Stock


def test_only_a_receiver_that_is_away_can_be_forgotten(stock: Stock, http: httpx.Client) -> None:
    away, there = stock.receiver("pod-0", 3600), stock.receiver("pod-1")
    listed = {item["id"]: item for item in http.get("/v1/receivers").json()["items"]}
    assert (listed[away]["receiver"], listed[away]["published"], listed[away]["state"]) == ("pod-0", 0, "away")
    assert (listed[there]["receiver"], listed[there]["state"]) == ("pod-1", "receiving")
    assert listed[there]["opened_at"] == listed[there]["seen_at"] > listed[away]["seen_at"]
    refused = http.delete(f"/v1/receivers/{there}")
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/not-ended")
    assert http.delete(f"/v1/receivers/{away}").status_code == 204
    assert http.delete(f"/v1/receivers/{away}").status_code == 404
    assert [each["id"] for each in http.get("/v1/receivers").json()["items"]] == [there]


def test_a_receiver_is_asked_to_leave_while_another_one_receives(stock: Stock, http: httpx.Client) -> None:
    away, there, last = stock.receiver("pod-0", 3600), stock.receiver("pod-1"), stock.receiver("pod-2")
    for journal in (away, there, there):
        asked = http.post(f"/v1/receivers/{journal}/leave")
        assert (asked.status_code, asked.json()["id"], asked.json()["state"]) == (202, journal, "leaving")
    states = {each["id"]: each["state"] for each in http.get("/v1/receivers").json()["items"]}
    assert states == {away: "leaving", there: "leaving", last: "receiving"}
    refused = http.post(f"/v1/receivers/{last}/leave")
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/last-receiver")
    assert http.post("/v1/receivers/unknown/leave").status_code == 404
    assert http.delete(f"/v1/receivers/{away}").status_code == 204


def test_the_command_line(stock: Stock, http: httpx.Client) -> None:
    def run(*words: str) -> str:
        result = CliRunner().invoke(application, ["receivers", *words, "--url", str(http.base_url)])
        assert result.exit_code == 0, result.output
        return result.output

    away = stock.receiver("pod-0", 3600)
    there = stock.receiver("pod-1")
    assert "away" in run("ls")
    assert {json.loads(line)["receiver"] for line in run("ls", "--json").splitlines()} == {"pod-0", "pod-1"}
    assert f"{away} is forgotten" in run("forget", away)
    assert [json.loads(line)["receiver"] for line in run("ls", "--json").splitlines()] == ["pod-1"]
    stock.receiver("pod-2")
    assert f"{there} leaves" in run("leave", there)
    assert "leaving" in run("ls")
