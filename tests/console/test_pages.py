"""Every page and every detail page: accessible in both schemes, on a desk and on a phone; and every other address."""

import json
import re
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import product

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page, expect

from app.model.attachment import AttachmentKind, AttachmentState
from app.model.pipeline_run import PipelineRun, RunState
from app.tables.quality import QUALITY, Increment, quality_rows
from app.testing.outgoing_files import delivery
from app.web.app import create_app
from app.web.console.endpoints import FOLDER
from app.web.mcp.tools import OFFERED
from tests.console.support import Console
from tests.support.tables import visits
from tests.web.stock import Stock, arriving, serving

Opened = Callable[..., Console]

LONG = "a-name-without-any-place-to-break-it" * 5


class World:
    """A gateway with one of everything that a page can show, and the address of each page."""

    def __init__(self, stock: Stock, address: str) -> None:
        self.stock, self.address = stock, address
        text = stock.stored(b"a line\n" * 50, "text/plain; charset=utf-8", kind=AttachmentKind.TEXT_FILE)
        sink = BytesIO()
        pq.write_table(visits(), sink)
        table = stock.stored(
            sink.getvalue(),
            "application/vnd.apache.parquet",
            kind=AttachmentKind.DATA_SET,
            qualifier_1="CLINIC",
            qualifier_2="VISITS",
        )
        bytes_ = stock.stored(bytes(range(256)) * 4, qualifier_2=f"{LONG}.bin")
        self.receiving = stock.receiving([(1, 16_024), (16_030, 16_400)], 16_604, qualifier_2="large.bin")
        stock.receiving([(1, 999_999)], 1_000_000, qualifier_2="million.bin")
        stock.attachment(state=AttachmentState.QUARANTINED, warnings=("a warning",))
        for number in range(3):
            self.entry = stock.quarantined(b"spoilt %d" % number)
        context = stock.gateway.context
        self.delivery = delivery(context, [(AttachmentKind.BINARY_FILE, f"{LONG}.bin", b"x")])
        stock.catalog.add_delivery(self.delivery, [])
        stock.table("CLINIC.VISITS", "orders")
        rows = quality_rows([Increment("orders", 1_780_000_000_000_000, 7200, missing_ranges=2)])
        tables = stock.gateway.tables.delta()
        tables.commit(QUALITY, rows.schema, [tables.write(QUALITY, rows.schema, rows.to_batches())], "test", 2)
        run = PipelineRun("a" * 32, "batch", RunState.RUNNING, 1_795_000_000_000_000)
        stock.catalog.begin_run(run, 9)
        self.pages = (
            "overview",
            "attachments",
            *(f"attachment/{each.id}" for each in (text, table, bytes_, self.receiving)),
            "send",
            f"delivery/{self.delivery.id}",
            "quarantine",
            f"quarantine?source=orders&code={self.entry.code}&why={self.entry.why}",
            f"quarantine/{self.entry.id}",
            "tables",
            "tables/CLINIC.VISITS",
            "pipeline",
            "tools",
            "trace",
            "nowhere",
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    stock = Stock(tmp_path_factory.mktemp("pages"), **arriving() | {"http": {"mcp": True}})
    try:
        with serving(create_app(stock.gateway)) as address:
            yield World(stock, address)
    finally:
        stock.close()


def shown_whole(page: Page) -> None:
    """Wait until nothing is loaded any more."""
    expect(page.locator("main .loading")).to_have_count(0)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_every_page_is_accessible_and_fits(world: World, open_console: Opened, scheme: str, width: int) -> None:
    console = open_console(world.address, scheme=scheme, width=width)
    console.expect_status(404, 409, 410)  # The stock has no journal with the parts of what is stored.
    page = console.page
    views = set(re.findall(r'path: "([a-z]+)"', (FOLDER / "views.js").read_text()))
    assert views == {re.split("[/?]", each)[0] for each in world.pages} - {"nowhere"}, "every view is looked at"
    for place in world.pages:
        console.open(place)
        shown_whole(page)
        if place == "trace":
            page.get_by_label("Bytes, in").fill("00 00 00 03")
            page.get_by_role("button", name="Explain").click()
            expect(page.get_by_role("region", name="Explained bytes")).to_be_visible()
        for button in page.locator(
            "header .fold-button:visible" if place == "overview" else "main .fold-button:visible"
        ).all():
            button.click()
        assert console.accessibility_violations(only_looks=scheme == "dark") == [], place
        overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, (place, overflow)


def test_the_tools_of_models_are_listed_with_what_their_programs_need(world: World, open_console: Opened) -> None:
    console = open_console(world.address, "tools")
    page = console.page
    rows = page.get_by_role("region", name="Tools").locator("tbody tr")
    expect(rows).to_have_count(len(OFFERED))
    assert {name: changes for name, changes, _ in (row.locator("td").all_inner_texts() for row in rows.all())} == {
        name: "yes" if name == "send_file" else "no" for name in OFFERED
    }
    over_http, local = (json.loads(text)["mcpServers"] for text in page.locator("pre").all_inner_texts())
    assert over_http["attachment-gateway"] == {"type": "http", "url": f"{world.address}/mcp"}
    assert local["attachment-gateway"] == {
        "command": "attachment-gateway",
        "args": ["mcp"],
        "env": {"ATTACHMENT_GATEWAY_URL": world.address},
    }
    console.picture("tools")


def test_navigation_and_filters_are_folded_and_rows_are_cards_on_a_phone(world: World, open_console: Opened) -> None:
    console = open_console(world.address, "quarantine", width=390)
    page = console.page
    navigation, source = page.get_by_role("navigation"), page.get_by_label("Source")
    expect(source).to_be_hidden()
    expect(navigation).to_be_hidden()
    cell = page.get_by_role("region", name="Groups").locator("tbody td").nth(1)
    assert cell.evaluate("(cell) => getComputedStyle(cell, '::before').content") == '"Source"'
    page.get_by_role("button", name="Filters").click()
    source.select_option("orders")
    expect(page).to_have_url(re.compile("source=orders$"))
    menu = page.get_by_role("button", name="Menu")
    expect(menu).to_have_attribute("aria-expanded", "false")
    menu.click()
    expect(menu).to_have_attribute("aria-expanded", "true")
    navigation.get_by_role("link", name="Attachments").click()
    expect(page.get_by_role("heading", name="Attachments")).to_be_visible()
    expect(navigation).to_be_hidden()
    row = page.get_by_role("row").filter(has_text="large.bin")
    name, state, progress = row.get_by_role("link"), row.locator(".state"), row.get_by_text("16,395 of 16,604")
    boxes = [each.bounding_box() for each in (name, state, progress)]
    assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
    tops = [box["y"] for box in boxes if box]
    assert tops[2] > tops[0] + 20, "below its name"
    console.picture("phone")


def test_how_many_parts_there_are_is_never_cut(world: World, open_console: Opened) -> None:
    page = open_console(world.address, "attachments").page
    for width, text in product((360, 700, 1000, 1280, 1900), ("16,395 of 16,604", "999,999 of 1,000,000")):
        page.set_viewport_size({"width": width, "height": 720})
        told = page.get_by_role("row").get_by_text(text)
        inside = told.evaluate(
            """(text) => {
                const [own, cell] = [text, text.parentElement].map((each) => each.getBoundingClientRect());
                const isWhole = text.scrollWidth <= text.clientWidth + 1;
                return isWhole && own.right <= cell.right + 0.5 && cell.right <= innerWidth;
            }"""
        )
        assert inside, (width, text)


def test_addresses_without_a_view_say_so_or_lead_to_what_is_meant(world: World, open_console: Opened) -> None:
    console = open_console(world.address, "overview")
    console.expect_status(404, 410)  # The stock has no journal with the parts of what is stored.
    page = console.page
    for given, place in (
        (f"attachments/{world.receiving.id}", f"attachment/{world.receiving.id}"),
        (f"deliveries/{world.delivery.id}", f"delivery/{world.delivery.id}"),
        ("messages/0123", "attachments?message=0123"),
        ("attachment", "attachments"),
        ("delivery", "send"),
        ("deliveries", "send"),
    ):
        console.open(given)
        expect(page).to_have_url(f"{world.address}/console/#/{place}")
        expect(page.get_by_role("heading", name="Not found")).to_have_count(0)
    for unknown in ("nowhere", "overview/5", f"quarantine/{world.entry.id}/5", "attachments/1/2", "<b>", "constructor"):
        console.open(unknown)
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        expect(page.locator("main code")).to_have_text(f"#/{unknown}")
    page.locator("main").get_by_role("link", name="Overview").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    console.open("attachments/00000000000000000000000000000000")
    expect(page.get_by_role("alert")).to_contain_text("there is no attachment with the identifier")
