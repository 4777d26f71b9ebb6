"""Signed links: they work without credentials, for one address, for a time, and as long as their signer could read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.sql_catalog.schema import catalog_tables
from app.model.principals import Scope
from app.service.access.api_keys import UNLIMITED, KeyLimits, make_key
from app.web.app import create_app
from tests.web.stock import Stock, serving


class World:
    """A gateway with an attachment of the source `orders`, and clients of it."""

    def __init__(self, stock: Stock, app: Any, client: httpx.Client) -> None:
        self.stock, self.app, self.client = stock, app, client
        self.record = stock.stored(b"content")
        self.path = f"/v1/attachments/{self.record.id}/content"

    def key(self, name: str, limits: KeyLimits = UNLIMITED, *scopes: Scope) -> str:
        key, text = make_key(name, frozenset(scopes or {Scope.READ}), self.stock.clock.now(), limits)
        self.stock.catalog.add_key(key)
        self.app.state.authenticator.keys._read_at = None
        return text

    def signed(self, key: str, path: str | None = None, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}"}
        return self.client.post("/v1/links", json={"path": path or self.path, **more}, headers=headers)

    def link(self, key: str, path: str | None = None, **more: Any) -> str:
        made = self.signed(key, path, **more)
        assert made.status_code == 201, made.text
        url: str = made.json()["url"]
        return url


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    stock = Stock(tmp_path)
    app = create_app(stock.gateway)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield World(stock, app, client)
    stock.close()


def test_a_link_works_for_its_address_alone(world: World) -> None:
    url = world.link(world.key("reader"))
    read = world.client.get(url)
    assert (read.status_code, read.content) == (200, b"content")
    assert world.client.head(url).status_code == 200
    assert world.client.get(url, headers={"Range": "bytes=1-2"}).content == b"on"
    other = world.stock.stored(b"other")
    changed = [
        url.replace(world.record.id, other.id),
        url + "&charset=utf-8",
        url.replace("link=", "format=csv&link="),
        url[:-2],
        f"{world.path}?link=",
        f"{world.path}?link=x.y",
    ]
    for each in changed:
        assert world.client.get(each).status_code == 401, each
    assert world.client.delete(url.replace("/content", "")).status_code == 401
    assert world.client.get(url.replace("/content", "")).status_code == 401, "it is for content alone"


def test_a_link_with_a_query_has_it_in_any_order(world: World) -> None:
    url = world.link(world.key("reader"), f"{world.path}?charset=utf-8")
    assert "charset=utf-8" in url
    assert world.client.get(url).status_code == 422, "what is asked is not possible for a binary file, and allowed"
    assert world.client.get(url.replace("charset=utf-8", "charset=utf-16")).status_code == 401


def test_a_link_ends(world: World) -> None:
    start = world.stock.clock.fixed = world.stock.clock.now()
    key = world.key("reader", KeyLimits(expires_at=start + 500_000_000))
    made = world.signed(key, seconds=86400).json()
    world.stock.clock.fixed = start + 499_000_000
    assert world.client.get(made["url"]).status_code == 200
    world.stock.clock.fixed = start + 501_000_000
    ended = world.client.get(made["url"])
    assert (ended.status_code, ended.json()["detail"]) == (401, "the link has expired")


def test_a_link_ends_with_its_signers_key(world: World) -> None:
    key = world.key("reader")
    url = world.link(key)
    world.stock.catalog.revoke_key(key.split("_")[1], 1)
    world.app.state.authenticator.keys._read_at = None
    assert world.client.get(url).status_code == 401


def test_a_link_shows_what_its_signer_knows(world: World) -> None:
    limited = world.key("limited", KeyLimits(sources=frozenset({"hr"})))
    url = world.link(limited)
    assert world.client.get(url).status_code == 404
    entry = world.client.get("/v1/audit", headers={"Authorization": f"Bearer {world.key('a', UNLIMITED, Scope.ADMIN)}"})
    refusal = next(each for each in entry.json()["items"] if each["result"] == "refused")
    assert (refusal["who"]["name"], refusal["status"], "link=" in str(refusal)) == ("limited", 404, False)


def test_a_link_to_events(world: World) -> None:
    url = world.link(world.key("reader"), "/v1/events?after=0")
    world.stock.gateway.draining = True
    world.stock.gateway.notifier.notify()
    with world.client.stream("GET", url) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize(
    "path",
    ["/v1/attachments", "https://evil.example/v1/events", "//evil.example/v1/events", "/v1/events#x", "/metrics", ""],
)
def test_only_content_and_events_are_linked(world: World, path: str) -> None:
    made = world.signed(world.key("reader"), path or " ")
    assert (made.status_code, made.json()["type"]) == (422, "/problems/invalid")


def test_who_calls_is_asked_before_the_body_is_read(world: World) -> None:
    key = world.key("reader")
    for body, status, word in (
        (b"{", 400, "malformed"),
        (b"x" * 20_000, 413, "too-large"),
        (b'{"path": 1}', 422, "invalid"),
    ):
        assert world.client.post("/v1/links", content=body).status_code == 401
        answer = world.client.post("/v1/links", content=body, headers={"Authorization": f"Bearer {key}"})
        assert (answer.status_code, answer.json()["type"]) == (status, f"/problems/{word}")
    # A member may have the name of a place of parameters.
    assert answer.json()["errors"][0]["pointer"] == "#/path"


def test_a_key_without_read_makes_no_links_and_no_link_lasts_for_ever(world: World) -> None:
    assert world.signed(world.key("sender", UNLIMITED, Scope.SEND)).status_code == 403
    assert world.signed(world.key("reader"), seconds=8 * 86400).status_code == 422


def test_the_secret_is_made_once_for_all_processes_of_the_gateway(world: World) -> None:
    url = world.link(world.key("reader"))
    app = create_app(world.stock.gateway)
    with serving(app) as address:
        assert httpx.get(address + url, timeout=60).status_code == 200, "also after a restart, and from another process"
    secret = world.stock.catalog.shared_secret("links", 32)
    assert len(secret) == 32
    assert secret == world.stock.catalog.shared_secret("links", 32) != world.stock.catalog.shared_secret("other", 32)
    with world.stock.catalog._database.write() as connection:
        connection.execute(catalog_tables.shared_secrets.delete())
    app = create_app(world.stock.gateway)
    with serving(app) as address:
        assert httpx.get(address + url, timeout=60).status_code == 401
