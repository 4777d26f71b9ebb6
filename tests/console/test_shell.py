"""The frame of the console: sign-in, scopes, base path, keyboard."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import FastAPI
from playwright.sync_api import Request, Route, expect
from starlette.types import ASGIApp, Receive, Scope, Send

from app.model.principals import Scope as May
from app.model.records import Checkpoint, NewEvent, StoredObject
from app.service.access.api_keys import UNLIMITED, KeyLimits, make_key
from app.web.app import create_app
from tests.console.support import Console
from tests.support.openid_provider import AUDIENCE, CLIENT, Provider, running_provider
from tests.web.stock import Stock, serving

BASE = "/deep/er"
HOSTILE = "<img src=x onerror=alert(1)>\u202egnp.exe"

Opened = Callable[..., Console]


class Below:
    """An application behind a proxy that removes a path and says nothing about it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.state = app.state  # type: ignore[attr-defined]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            assert scope["path"].startswith(f"{BASE}/"), scope["path"]
            scope = {**scope, "path": scope["path"].removeprefix(BASE), "raw_path": None}
        await self._app(scope, receive, send)


class World:
    """A gateway behind a proxy, with a quarantined message, and keys for it."""

    def __init__(self, stock: Stock, app: FastAPI, address: str) -> None:
        self.stock, self._app, self.address = stock, app, f"{address}{BASE}"
        self.entry = stock.quarantined(b"\x00\x01\x02\x03 spoilt")

    def key(self, name: str, *scopes: May, limits: KeyLimits = UNLIMITED) -> str:
        key, text = make_key("key", frozenset(scopes), self.stock.clock.now(), limits)
        self.stock.catalog.add_key(replace(key, name=name))
        self._app.state.authenticator.keys._read_at = None  # so that it is read with the next request
        return text


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    stock = Stock(tmp_path_factory.mktemp("shell"), assembler="spark")
    try:
        app = create_app(stock.gateway)
        with serving(Below(app)) as address:
            world = World(stock, app, address)
            world.key("first", May.READ)
            yield world
    finally:
        stock.close()


def test_without_a_key_one_signs_in_and_out(world: World, open_console: Opened) -> None:
    console = open_console(world.address)
    console.expect_status(401)
    page = console.page
    expect(page.get_by_label("API key")).to_be_focused()
    assert console.accessibility_violations() == []
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("the key or token is not accepted")
    page.get_by_label("API key").fill(world.key("reader", May.READ))
    page.keyboard.press("Enter")
    expect(page.locator(".who")).to_contain_text("reader")
    expect(page.locator(".live")).to_have_text("live")
    assert {host.partition(":")[0] for host in console.recorded.hosts} == {"127.0.0.1"}
    page.reload()
    expect(page.locator(".who")).to_contain_text("reader")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    page.reload()
    expect(page.get_by_label("API key")).to_be_visible()


def test_what_a_key_may_not_do_is_not_offered(world: World, open_console: Opened) -> None:
    entry = f"quarantine/{world.entry.id}"
    reader = open_console(world.address, entry, key=world.key(HOSTILE, May.READ)).page
    expect(reader.get_by_text("read only")).to_be_visible()
    expect(reader.get_by_role("button", name="Download")).to_be_visible()
    assert reader.locator(".who bdi").inner_text().startswith("<img src=x onerror=alert(1)>\\u202e")
    for name in ("Replay", "Dismiss"):
        assert reader.get_by_role("button", name=name).count() == 0
    assert reader.get_by_role("navigation").get_by_role("link", name="Send").count() == 0
    reader.goto(f"{world.address}/console/#/send")
    expect(reader.get_by_role("heading", name="Not found")).to_be_visible()
    operator = open_console(world.address, entry, key=world.key("operator", May.READ, May.OPERATE)).page
    expect(operator.get_by_role("button", name="Replay", exact=True)).to_be_visible()
    assert operator.get_by_text("read only").count() == 0
    operator.goto(f"{world.address}/console/#/tools")
    expect(operator.locator("main")).to_contain_text(
        "MCP is off at this gateway. To switch it on, set mcp = true in [http]"
    )


def test_a_key_that_only_sends_has_only_that_view(world: World, open_console: Opened) -> None:
    console = open_console(world.address, key=world.key("sender", May.SEND))
    console.expect_status(403)
    expect(console.page.get_by_role("heading", name="Send")).to_be_visible()
    links = console.page.get_by_role("navigation").get_by_role("link").all_inner_texts()
    assert links == ["Send"]


def test_a_key_with_limits_shows_its_own_and_offers_nothing_else(world: World, open_console: Opened) -> None:
    """Any error in the browser's log fails it: nothing may be asked for that the key does not allow."""
    stock = world.stock
    stock.table("WORK.OWN", "orders")
    stock.table("WORK.OTHER", "secret")
    mine, other = (stock.stored(b"x", qualifier_2=f"{name}.bin", source=name) for name in ("orders", "secret"))
    stock.quarantined(b"x", source="secret")
    limits = KeyLimits(sources=frozenset({"orders"}), destinations=frozenset({"partner"}))
    console = open_console(world.address, "attachments", key=world.key("limited", May.READ, May.SEND, limits=limits))
    page = console.page
    main = page.locator("main")
    expect(page.get_by_role("link", name="orders.bin")).to_be_visible()
    expect(page.locator(".more > [role=status]")).to_have_text("1 attachment")
    for view, own in (
        ("overview", "Destination partner"),
        ("send", "partner"),
        ("quarantine", world.entry.id.lstrip("0")),
        ("tables", "WORK.OWN"),
        ("pipeline", "WORK.OWN"),
    ):
        console.open(view)
        if view == "overview":
            expect(page.get_by_role("region", name=own)).to_be_visible()
        else:
            expect(main).to_contain_text(own)
        expect(page.locator("main .loading")).to_have_count(0)
        for hidden in ("secret", "archive", "WORK.OTHER", other.id):
            assert hidden not in main.inner_html(), view
        expect(page.get_by_role("alert")).to_have_count(0)
    for place, offered in ((f"attachment/{mine.id}", "As it was sent"), (f"quarantine/{world.entry.id}", "Download")):
        console.open(place)
        expect(page.get_by_role("button", name=offered)).to_be_visible()
        for name in ("Delete", "Replay", "Dismiss"):
            expect(page.get_by_role("button", name=name)).to_have_count(0)
    console.expect_status(404)
    console.open(f"attachment/{other.id}")
    expect(page.get_by_role("alert")).to_contain_text("there is no attachment with the identifier")
    everything = open_console(world.address, "pipeline", key=world.key("unlimited", *May)).page
    expect(everything.get_by_text("All sealed segments of the journal have been processed.")).to_be_visible()
    expect(everything.locator("main")).to_contain_text("WORK.OTHER")


KEPT = "attachment-gateway."
SIGNED_IN = f"""() => [sessionStorage.getItem('{KEPT}key'), Object.keys(sessionStorage).sort(), localStorage.length,
    document.cookie, location.href]"""
RENEW = f"""() => {{
    const kept = JSON.parse(sessionStorage.getItem('{KEPT}renewal'));
    sessionStorage.setItem('{KEPT}renewal', JSON.stringify({{ ...kept, at: 0 }}));
}}"""


def test_people_sign_in_at_their_provider(tmp_path: Path, open_console: Opened) -> None:
    with running_provider() as provider:
        stock = Stock(tmp_path, oidc={"issuer": provider.issuer, "audience": AUDIENCE, "client_id": CLIENT})
        with serving(Below(create_app(stock.gateway))) as address:
            _sign_in_and_out(open_console(f"{address}{BASE}", "trace"), provider)
        stock.close()


def _sign_in_and_out(console: Console, provider: Provider) -> None:
    console.expect_status(400, 401)
    page = console.page
    navigated: set[bool] = set()

    def note(asked: Request) -> None:
        if asked.url.startswith(provider.issuer):
            navigated.add(asked.is_navigation_request())

    page.on("request", note)
    button, who = page.get_by_role("button", name="Sign in with your OpenID provider"), page.locator(".who")
    expect(button).to_be_visible()
    assert console.accessibility_violations() == []

    provider.identity = {"nonce": "of another"}
    button.click()
    expect(page.get_by_role("alert")).to_contain_text("its nonce differs")
    provider.identity = {}
    provider.denial = "not today"
    button.click()
    expect(page.get_by_role("alert")).to_contain_text("not today")
    provider.denial = None
    page.goto(f"{console.address}/console/?code=stolen&state=guessed")
    expect(page.get_by_role("alert")).to_contain_text("was not begun in this tab")
    page.goto(f"{console.address}/console/#/trace")

    button.click()
    expect(who).to_contain_text("ada")
    expect(page.get_by_role("heading", name="Trace")).to_be_visible()
    first, *kept = page.evaluate(SIGNED_IN)
    names = [f"{KEPT}{name}" for name in ("key", "renewal")]
    assert kept == [names, 0, "", f"{console.address}/console/#/trace"], "the code is not in the address"
    assert navigated == {True}, "the page itself asks no other host"
    page.evaluate(RENEW)
    page.reload()
    expect(who).to_contain_text("ada")
    second = page.evaluate(SIGNED_IN)[0]
    assert second != first, "it was renewed before it expires"
    assert [form["grant_type"] for form in provider.forms[-2:]] == ["authorization_code", "refresh_token"]

    provider.end_sessions()
    page.evaluate(RENEW)
    page.evaluate("(token) => sessionStorage.setItem('attachment-gateway.key', token)", provider.token(exp=1))
    page.get_by_role("link", name="Tables and SQL").click()
    expect(page.get_by_role("alert")).to_contain_text("the access token has expired")
    button.click()
    expect(page.get_by_role("heading", name="Tables and SQL", exact=True)).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(button).to_be_visible()
    assert page.evaluate(SIGNED_IN)[:2] == [None, []]


def test_the_keyboard_reaches_everything(world: World, open_console: Opened) -> None:
    console = open_console(world.address, "trace", key=world.key("keyboard", *May))
    page = console.page
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    assert page.url.endswith("#/trace")
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name="Sign out")).to_be_focused()
    page.get_by_role("link", name="Quarantine").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Quarantine")).to_be_visible()
    expect(page.locator("main")).to_be_focused()
    assert page.title() == "Quarantine - Attachment gateway"
    expect(page.get_by_role("navigation").get_by_role("link", name="Quarantine")).to_have_attribute(
        "aria-current", "page"
    )


def test_a_question_is_answered_with_the_keyboard(world: World, open_console: Opened) -> None:
    console = open_console(world.address, f"quarantine/{world.entry.id}", key=world.key("asked", *May))
    page = console.page
    dismiss = page.get_by_role("button", name="Dismiss", exact=True)
    dismiss.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Yes: Dismiss")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dismiss).to_be_focused()
    expect(page.get_by_role("alertdialog")).to_have_count(0)


@pytest.mark.parametrize("is_of_this_log", [True, False])
def test_the_stream_of_events_goes_on_where_it_broke(world: World, open_console: Opened, is_of_this_log: bool) -> None:
    """Or the page is read anew, if the catalog was restored or rebuilt meanwhile."""
    console = open_console(world.address, "quarantine", key=world.key(f"events {is_of_this_log}", *May))
    page, catalog = console.page, world.stock.catalog
    catalog.checkpoint(Checkpoint(events=[NewEvent("attachment.finished", "a", 1, {"source": "orders"})]))
    seen = catalog.event_logs().identify(catalog.last_event()) if is_of_this_log else "42-0badc0de"
    console.expect_status(410)
    asked: list[str | None] = []

    def answer(route: Route) -> None:
        asked.append(route.request.headers.get("last-event-id"))
        if len(asked) == 1:
            route.fulfill(body=f"id: {seen}\n\n", content_type="text/event-stream")
        else:
            route.continue_()

    page.route("**/v1/events", answer)
    page.reload()
    expect(page.locator(".live")).to_have_text("not live")
    wanted = [None, seen, *([] if is_of_this_log else [None])]
    while len(asked) < len(wanted):
        page.wait_for_timeout(20)
    assert asked == wanted
    expect(page.locator(".live")).to_have_text("live")
    expect(page.get_by_role("group", name="With those chosen")).to_be_visible()  # of the page that was read anew
    catalog.checkpoint(Checkpoint(events=[NewEvent("message.quarantined", "x", 1, {"source": "orders"})]))
    world.stock.gateway.notifier.notify()
    expect(page.get_by_role("button", name="1 more quarantined: show")).to_be_visible()


def test_an_address_that_a_person_has_written_asks_for_one_resource(world: World, open_console: Opened) -> None:
    console = open_console(world.address, key=world.key("address", May.READ, May.OPERATE))
    console.expect_status(404, 422)
    for view in ("attachments", "deliveries", "quarantine", "tables"):
        for written in ("..", ".", "..%2F..", "..%2Fsummary", "a%3Fb=1", "a%23b", "%252e%252e"):
            with console.page.expect_request(re.compile(rf"/v1/{view}/")) as asked:
                console.page.goto(f"{world.address}/console/#/{view}/{written}")
            assert re.fullmatch(rf"{re.escape(world.address)}/v1/{view}/[^/?#]+", asked.value.url), written
            expect(console.page.get_by_role("alert").first).to_be_visible()


def test_content_is_downloaded_with_a_key_and_only_read(world: World, open_console: Opened) -> None:
    """The browser itself downloads, by a signed link, since it sends no key."""
    record = world.stock.stored(b"content", qualifier_2="some.bin")
    page = open_console(world.address, f"attachment/{record.id}", key=world.key("downloads", May.READ)).page
    with page.expect_download() as download:
        page.get_by_role("button", name="As it was sent").click()
    assert download.value.path().read_bytes() == b"content"
    assert download.value.suggested_filename == "some.bin"
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    assert record.object_name is not None
    world.stock.catalog.settle({record.id: StoredObject(record.object_name)}, world.stock.clock.now())
    page.reload()
    happened = page.get_by_role("region", name="Timeline")
    expect(happened).to_contain_text("Content was copied to the content store")
    expect(happened).to_contain_text("Content was read")
    expect(happened).not_to_contain_text("downloads")


def test_a_policy_forbids_what_the_page_does_not_need(world: World, open_console: Opened) -> None:
    console = open_console(world.address, "trace", key=world.key("policy", May.READ))
    refused = console.page.evaluate(
        """async () => {
            const seen = [];
            addEventListener('securitypolicyviolation', (event) => seen.push(event.effectiveDirective));
            try { document.body.innerHTML = '<img src=x>'; } catch {}
            try { await fetch('https://127.0.0.1:1/'); } catch {}
            await new Promise((resolve) => setTimeout(resolve, 50));
            return seen.sort();
        }"""
    )
    assert refused == ["connect-src", "require-trusted-types-for"]
    assert len(console.recorded.errors) >= 2
    console.recorded.errors.clear()
