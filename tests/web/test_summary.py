"""The summary."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from app.model.attachment import AttachmentState
from app.model.principals import Scope
from app.model.times import to_time
from app.ports import Tallies
from app.service.access.api_keys import KeyLimits, make_key
from app.testing.waiting import until
from tests.support.sas_client import Program, binary_file, message
from tests.web.conftest import connected
from tests.web.stock import Stock, arriving


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Stock]:
    stock = Stock(tmp_path, **arriving())
    stock.gateway.start()
    yield stock
    stock.close()


def test_what_arrives_is_counted(running: Stock) -> None:
    program = Program(Random(1))
    messages = message(program, [binary_file(program, "a.bin", b"x" * 5000)])
    begun = running.receiving([(1, 2)], 3, last_received_at=running.clock.now() - 700_000_000)
    running.attachment(state=AttachmentState.QUARANTINED, source="earlier")
    running.quarantined(b"?")
    with connected(running) as http:
        running.deliver(messages)
        until(lambda: running.catalog.counts()["attachments"]["finished"] == 1)
        until(lambda: sum(point.activity.finished for point in running.gateway.history.points()))
        running.gateway.history.sample()
        seen = http.get("/v1/summary").json()
    orders, earlier = seen["sources"]
    assert (orders["name"], orders["adapter"], orders["framing"], orders["connected"]) == (
        *("orders", "memory", "sas_queue"),
        True,
    )
    assert (orders["receiving"], orders["finished"], orders["error"], orders["backlog"]) == (1, 1, None, None)
    assert orders["since"] is not None
    assert orders["last_message_at"] > to_time(begun.first_received_at).isoformat()
    assert orders["messages_per_second"] > 0
    assert orders["bytes_per_second"] > 0
    assert (earlier["name"], earlier["adapter"], earlier["connected"], earlier["quarantined"]) == (
        *("earlier", None),
        False,
        1,
    )
    there = {state: number for state, number in seen["attachments"].items() if number}
    assert there == {"receiving": 1, "finished": 1, "quarantined": 1}
    assert seen["quarantine"] == {"open": 1}
    ages = [(each["under_seconds"], each["count"]) for each in seen["partials_by_age"]]
    assert ages == [(60, 0), (600, 0), (3600, 1), (86400, 0), (None, 0)]
    assert seen["journal"]["size"] > 5000
    assert seen["journal"]["free_bytes"] > 0
    assert (seen["journal"]["segments"], seen["journal"]["reserve_bytes"]) == (1, 256 << 20)
    points = seen["history"]["points"]
    assert sum(point["messages"] for point in points) == len(messages)
    assert sum(point["size"] for point in points) == sum(len(each.body) for each in messages)
    assert orders["messages_per_point"] == [point["messages"] for point in points]
    assert earlier["messages_per_point"] == [0] * len(points)
    assert sum(point["finished"] for point in points) == 1
    assert {each["name"] for each in seen["destinations"]} == set(running.settings.destinations)


def test_a_limited_caller_sees_its_own(running: Stock) -> None:
    running.attachment(source="other")
    running.attachment()
    running.quarantined(b"?", source="other")
    limits = KeyLimits(sources=frozenset({"orders"}), destinations=frozenset({"partner"}))
    key, text = make_key("own", frozenset({Scope.READ}), running.clock.now(), limits)
    running.catalog.add_key(key)
    running.gateway.metrics.count_received("other", 7, 700)
    running.gateway.history.sample()
    with connected(running) as http:
        seen = http.get("/v1/summary", headers={"Authorization": f"Bearer {text}"}).json()
    assert [each["name"] for each in seen["sources"]] == ["orders"]
    assert [each["name"] for each in seen["destinations"]] == ["partner"]
    assert (seen["attachments"]["receiving"], seen["quarantine"], seen["journal"]) == (1, {"open": 0}, None)
    assert sum(point["messages"] for point in seen["history"]["points"]) == 0
    assert sum(each["count"] for each in seen["partials_by_age"]) == 1


def test_counting_is_not_repeated_for_every_request(running: Stock, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[int]] = []
    real = running.catalog.tallies

    def counted(times: Sequence[int]) -> Tallies:
        asked.append(times)
        return real(times)

    monkeypatch.setattr(running.catalog, "tallies", counted)
    with connected(running) as http:
        answers = [http.get("/v1/summary") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert len(asked) < 5
