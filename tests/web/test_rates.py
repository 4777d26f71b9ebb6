"""Requests and bytes a second: 429, and what responses tell of the limits."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from time import sleep
from typing import Any

import httpx
import pytest

from app.service.access.token_buckets import WINDOW_SECONDS
from tests.web.conftest import connected
from tests.web.stock import Stock

TOKENS = ("one", "two")
Open = Callable[..., tuple[Stock, httpx.Client]]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens a gateway with settings of [http]; time stands still for its limits."""
    with ExitStack() as stack:

        def open_it(**http: Any) -> tuple[Stock, httpx.Client]:
            stock = Stock(tmp_path, http=http)
            stack.callback(stock.close)
            return stock, stack.enter_context(connected(stock))

        yield open_it


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def remaining(response: httpx.Response, policy: str) -> int:
    """The tokens that a response says to be left."""
    items = [item.strip().split(";") for item in response.headers["ratelimit"].split(",")]
    return next(int(r.removeprefix("r=")) for name, r, _ in items if name == f'"{policy}"')


def assert_refused(response: httpx.Response, policy: str) -> None:
    assert response.status_code == 429, response.text
    problem = response.json()
    assert (problem["type"], problem["violated-policies"]) == ("/problems/rate-limited", [policy])
    assert int(response.headers["retry-after"]) >= 1
    assert remaining(response, policy) == 0


def test_without_settings_there_is_no_limit(http: httpx.Client) -> None:
    responses = [http.get("/v1/attachments") for _ in range(60)]
    assert {response.status_code for response in responses} == {200}
    assert not any("ratelimit" in response.headers for response in responses)


def test_each_key_has_its_requests(opened: Open) -> None:
    digests = [sha256(token.encode()).hexdigest() for token in TOKENS]
    stock, client = opened(requests_a_second=1, tokens=digests)
    stock.clock.stopped = 0.0
    responses = [client.get("/v1/attachments", headers=bearer("one")) for _ in range(WINDOW_SECONDS)]
    assert [response.status_code for response in responses] == [200] * WINDOW_SECONDS
    assert [remaining(response, "requests") for response in responses] == list(range(WINDOW_SECONDS))[::-1]
    assert responses[0].headers["ratelimit-policy"] == '"requests";q=10;w=10'
    for path in ("/v1/attachments", "/v1/messages/x"):
        assert_refused(client.get(path, headers=bearer("one")), "requests")
    assert client.get("/v1/attachments", headers=bearer("two")).status_code == 200
    assert client.get("/health/live", headers=bearer("one")).status_code == 200, "health is not counted"
    unknown = [client.get("/v1/attachments", headers=bearer("three")).status_code for _ in range(WINDOW_SECONDS + 1)]
    assert unknown == [401] * WINDOW_SECONDS + [429], "failed sign-ins count for their address"
    assert client.get("/v1/attachments", headers=bearer("two")).status_code == 200
    stock.clock.stopped += 2
    assert [client.get("/v1/attachments", headers=bearer("one")).status_code for _ in range(3)] == [200, 200, 429]


def test_bytes_count_in_both_directions(opened: Open) -> None:
    stock, client = opened(bytes_a_second=100_000)
    stock.clock.stopped = 0.0
    path = f"/v1/attachments/{stock.stored(bytes(600_000)).id}/content"
    assert client.head(path).headers["content-length"] == "600000"
    assert remaining(client.head(path), "bytes") == 400_000, "the field counts what was announced"
    assert 999_000 < remaining(client.get("/v1/quarantine"), "bytes") <= 1_000_000, "a HEAD's content did not go"
    sent = client.put("/v1/files/partner/a.bin", content=bytes(300_000))
    assert (sent.status_code, 690_000 < remaining(sent, "bytes") <= 700_000) == (202, True)
    sleep(0.05)
    for left in (690_000, 90_000):  # the first time it is read, the second time the system sends it
        before = client.get("/v1/quarantine")
        assert left < remaining(before, "bytes") <= left + 10_000
        assert len(client.get(path).content) == 600_000
    assert_refused(client.get("/v1/attachments"), "bytes")
    stock.clock.stopped += 7
    assert client.get("/v1/attachments").status_code == 200
