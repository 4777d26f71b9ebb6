"""Overview, attachments and one attachment in a browser, on a gateway with a real broker."""

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from random import Random

import pyarrow as pa
import pytest
from playwright.sync_api import Page, Route, expect

from app.codecs.receipts.cose import public_key
from app.codecs.receipts.statements import key_ring, verify_statement
from app.codecs.sas import file_messages
from app.model.attachment import AttachmentDefinition, AttachmentKind
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from tests.console.support import Console
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.mosquitto import Mosquitto
from tests.support.publish import publish
from tests.support.receipts import write_key
from tests.support.sas_client import Attached, Program, binary_file, data_set, message, text_file
from tests.support.tables import field, visits

pytestmark = pytest.mark.broker

Opened = Callable[..., Console]

LINES = b"".join(b"line %d of the withheld text\n" % number for number in range(40))
HOSTILE = "<img src=x onerror=alert(1)>"


class World:
    """A gateway, its broker, and the program that sends to it."""

    def __init__(self, gateway: GatewayProcess, broker: Mosquitto) -> None:
        self.gateway, self.broker = gateway, broker
        self.address = f"http://127.0.0.1:{gateway.port}"
        self.program = Program(Random(18), body_limit=200)

    def send(self, messages: list[PhysicalMessage]) -> None:
        publish(messages, self.broker.port, "orders", "5")

    def identifier(self, name: str) -> str:
        """Return the identifier of an attachment, once it is known."""

        def known() -> list[str]:
            return [each["id"] for each in self.gateway.listing("/v1/attachments", name=name)]

        self.gateway.until(known)
        return known()[0]

    def until_finished(self, *names: str) -> None:
        def finished() -> set[str]:
            return {each["name"] for each in self.gateway.listing("/v1/attachments", state="finished")}

        self.gateway.until(lambda: finished().issuperset(names))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("attachment")
    with Mosquitto(folder) as broker:
        settings = mqtt_source("orders", broker.port, "orders") + mqtt_destination("loop", broker.port, "orders")
        write_key(folder / "key.pem", folder / "pub.pem", 1)
        settings += f'[receipts]\nkey_file = "{folder / "key.pem"}"\nevents = true\n'
        with ForkedGateway(folder, settings) as gateway:
            gateway.await_source("orders")
            yield World(gateway, broker)


def same_page(page: Page) -> bool:
    return bool(page.evaluate("() => window.stayed === true"))


def test_a_withheld_part_is_a_gap_that_closes_when_it_comes(world: World, open_console: Opened) -> None:
    attached = [text_file(world.program, "withheld.txt", LINES), binary_file(world.program, HOSTILE, b"\x00\x01" * 300)]
    messages = message(world.program, attached)
    withheld = messages[4]  # the third part: the header and the application message come first
    later = [each for each in messages if each is not withheld]
    world.send([*later[:6], later[2]])
    found = world.identifier("withheld.txt")

    console = open_console(world.address, "attachments")
    page = console.page
    page.evaluate("() => { window.stayed = true; }")
    row = page.get_by_role("row").filter(has_text="withheld.txt")
    expect(row.get_by_role("img")).to_have_attribute(
        "aria-label", "Parts: 4 parts; their number is not known yet; missing 3"
    )
    console.picture("attachments")
    page.get_by_role("link", name="withheld.txt").click()
    expect(page.locator(".gap-text")).to_contain_text("missing 3")
    bar = page.get_by_role("slider", name="Parts by sequence number")
    bar.press("Home")
    expect(page.locator(".gap-text")).to_contain_text("received")
    bar.press("ArrowRight")
    bar.press("ArrowRight")
    expect(page.get_by_text("Header arrived")).to_be_visible()
    expect(page.get_by_label("Attachments of this message").get_by_role("listitem")).to_have_count(2)
    text = page.get_by_role("list", name="Text")
    expect(text).to_contain_text("line 0 of the withheld text")
    expect(page.get_by_text("This is the content before the first gap; missing parts: 3")).to_be_visible()
    assert console.accessibility_violations() == []
    console.picture("attachment")

    world.send([withheld, *later[6:]])
    expect(page.locator(".facts .state").first).to_have_text("finished")
    expect(page.locator(".gap-text")).not_to_contain_text("missing")
    expect(page.get_by_text("Content can be read")).to_be_visible()
    expect(page.get_by_text(f"of {len(LINES):,}", exact=False).first).to_be_visible()
    expect(text).to_contain_text("line 9 of the withheld text")
    assert same_page(page)
    assert page.url.endswith(found)

    with page.expect_download() as download:
        page.get_by_role("button", name="As it was sent").click()
    assert download.value.path().read_bytes() == LINES
    expect(page.get_by_text(f"attachment-gateway receipt verify {found}.receipt.cose")).to_be_visible()
    expect(page.get_by_text("Its receipt was made")).to_be_visible()
    with page.expect_download() as receipt:
        page.get_by_role("button", name="Receipt").click()
    ring = key_ring([public_key((world.gateway.folder / "pub.pem").read_bytes())])
    verified = verify_statement(receipt.value.path().read_bytes(), ring)
    assert sha256(LINES).hexdigest().encode() in verified.statement
    page.get_by_role("link", name=HOSTILE).click()
    expect(page.locator("h1")).to_have_text(HOSTILE)
    expect(page.locator("img")).to_have_count(0)
    page.go_back()
    page.go_back()
    expect(row.locator(".state")).to_have_text("finished")
    assert same_page(page)


def test_what_waits_for_its_header_is_apart_until_it_is_known(world: World, open_console: Opened) -> None:
    header, application, *parts = message(world.program, [binary_file(world.program, "late-header.bin", b"x")])
    world.send([application, *parts])
    world.gateway.until(lambda: len(world.gateway.listing("/v1/attachments", announced="false")) == 2)

    consoles = [
        open_console(world.address, view) for view in ("overview", "attachments", "attachments?announced=false")
    ]
    for console in consoles:
        console.recorded.expected = {410}
    page, other, waiting = (console.page for console in consoles)
    page.get_by_role("link", name="2 without a header").click()
    rows = page.locator(".attachments-rows").get_by_role("row")
    expect(rows).to_have_count(2)
    expect(page.get_by_text("2 without a header, not known to be attachments")).to_be_visible()
    assert consoles[0].accessibility_violations() == []
    expect(waiting.locator(".attachments-rows").get_by_role("row")).to_have_count(2)
    expect(other.get_by_role("link", name="late-header.bin")).to_have_count(0)
    page.goto(f"{world.address}/console/#/attachment/{attachment_id('orders', application.correl_id[:16])}")
    expect(page.locator("h1")).to_have_text("Without a header")

    world.send([header])
    expect(other.get_by_role("link", name="late-header.bin")).to_be_visible()
    expect(waiting.get_by_text("Nothing without a header matches the filter")).to_be_visible()
    # Each part of the page that asks while the header comes says so.
    expect(page.get_by_role("alert").first).to_contain_text("This is an application message")
    expect(page.get_by_role("region", name="Its message")).to_contain_text("This is the actual application message.")


def test_physical_messages_are_explained_beside_their_bytes(world: World, open_console: Opened) -> None:
    world.send(message(world.program, [text_file(world.program, "traced.txt", LINES)]))
    world.until_finished("traced.txt")
    console = open_console(world.address, f"attachment/{world.identifier('traced.txt')}")
    page = console.page
    page.get_by_role("button", name="Show the physical messages").click()
    page.get_by_role("button", name="header", exact=True).click()
    fields = page.get_by_label("Fields: offset, size, name, value")
    chosen = fields.get_by_role("listitem").nth(2)
    expect(chosen).to_be_visible()
    chosen.hover()
    size = int(chosen.locator(".hex-size").inner_text().replace(",", ""))
    expect(page.locator(".hex-bytes .lit")).to_have_count(size)
    page.locator(".hex-bytes [data-at]").first.hover()
    expect(fields.locator(".lit")).to_have_count(1)
    assert fields.locator(".lit .hex-at").inner_text() == "0"
    assert console.accessibility_violations() == []
    chosen.hover()
    chosen.click()
    page.locator(".physical").evaluate("(place) => place.scrollIntoView()")
    console.picture("physical-message")
    page.get_by_text("Descriptor", exact=True).click()
    expect(page.get_by_text("sas_queue").first).to_be_visible()


def test_a_data_set_is_a_table_that_is_sorted_by_the_gateway(world: World, open_console: Opened) -> None:
    world.send(message(world.program, [data_set(Program(world.program.random), "CLINIC", "VISITS", visits())]))
    world.until_finished("VISITS")
    console = open_console(world.address, f"attachment/{world.identifier('VISITS')}", scheme="dark")
    page = console.page
    grid = page.get_by_role("grid", name="Rows")
    expect(grid.get_by_role("row")).to_have_count(6)
    expect(grid).to_contain_text("Age, in years")
    expect(grid.locator(".special")).to_have_text([".A"])
    expect(grid.get_by_role("row").nth(1)).to_contain_text('Åsa, "the" 1st')
    grid.get_by_role("button", name="Age").click()
    grid.get_by_role("button", name="Age").click()
    expect(grid.get_by_role("columnheader", name="Age")).to_have_attribute("aria-sort", "descending")
    expect(grid.get_by_role("row").nth(1)).to_contain_text("1e+70")
    page.get_by_role("button", name="Profile the columns").click()
    profile = page.get_by_label("Columns and their values")
    expect(profile.locator(".profile-column")).to_have_count(7)
    expect(profile.get_by_role("img").first).to_be_visible()
    expect(profile).to_contain_text(".A 1")
    expect(profile).to_contain_text("-0.125 to 1e+70")
    grid.evaluate("(place) => place.scrollIntoView()")
    console.picture("data-set")
    assert console.accessibility_violations() == []


def test_the_rows_before_a_gap_are_shown(world: World, open_console: Opened) -> None:
    table = pa.table(
        [pa.array(range(40), pa.float64()), pa.array([f"row {number}" for number in range(40)])],
        pa.schema([field("NUMBER", pa.float64()), field("TEXT", pa.string())], {"sas.library": "WORK"}),
    )
    messages = message(world.program, [data_set(world.program, "WORK", "SLOW", table)])
    withheld = messages.pop(-3)
    world.send(messages)
    console = open_console(world.address, f"attachment/{world.identifier('SLOW')}")
    page = console.page
    grid = page.get_by_role("grid", name="Rows")
    expect(grid).to_contain_text("row 5")
    expect(page.get_by_text("These rows can be read already; missing parts")).to_be_visible()
    assert 6 < int(grid.get_attribute("aria-rowcount") or 0) < 41
    world.send([withheld])
    expect(page.locator(".facts .state").first).to_have_text("finished")
    expect(page.get_by_role("status").filter(has_text="40 rows, 2 columns")).to_be_visible()
    expect(grid).to_have_attribute("aria-rowcount", "41")


def test_equal_entries_of_the_timeline_are_one(world: World, open_console: Opened) -> None:
    program = Program(Random(19), body_limit=200)
    sent = message(program, [binary_file(program, "conflicts.bin", b"x" * 600)])
    conflicting = [sent[2]._replace(body=bytes([number])) for number in range(120)]
    world.send([*sent[:3], *conflicting])
    console = open_console(world.address, f"attachment/{world.identifier('conflicts.bin')}")
    console.expect_status(409)
    entries = console.page.locator(".timeline-message-quarantined")
    expect(entries).to_contain_text(re.compile("^.*120 . A message of it went to quarantine"))
    expect(entries).to_have_count(1)
    expect(entries).to_contain_text("the last at")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_overview_tells_what_comes(world: World, open_console: Opened, scheme: str) -> None:
    console = open_console(world.address, "overview", scheme=scheme)
    page = console.page
    source = page.get_by_role("region", name="Source orders")
    expect(source).to_contain_text("connected")
    page.set_viewport_size({"width": 1280, "height": 800})
    shown = page.get_by_role("region", name="Destination loop").bounding_box()
    assert shown is not None
    assert shown["y"] + shown["height"] < 800, "it is seen without scrolling"
    expect(page.get_by_role("region", name="Journal")).to_contain_text("Free")
    name = f"news-{scheme}.bin"
    before = int(page.get_by_role("link", name="finished").locator("strong").inner_text())
    world.send(message(world.program, [binary_file(world.program, name, b"new")]))
    expect(page.get_by_role("link", name="finished").locator("strong")).to_have_text(str(before + 1))
    expect(source).to_contain_text("messages/s")
    expect(source.get_by_role("img", name=re.compile("^[0-9,]+ messages? in the last hour"))).to_be_visible()
    expect(page.locator(".chart canvas")).to_be_visible()
    if scheme == "light":
        console.picture("overview")
    assert console.accessibility_violations(only_looks=scheme == "dark") == []
    page.get_by_role("link", name="finished").click()
    expect(page.get_by_role("link", name=name)).to_be_visible()
    assert console.accessibility_violations(only_looks=scheme == "dark") == []


def test_warnings_are_counted_in_the_list_and_told_with_how_it_was_read(world: World, open_console: Opened) -> None:
    program = world.program
    description = file_messages.write_file_description(file_messages.FileDescription(2, 0), program.dialect)
    definition = AttachmentDefinition(AttachmentKind.TEXT_FILE, program.random.randbytes(16), "FILENAME", "short.txt")
    bodies = (description, *file_messages.write_records([b"a line"], program.dialect, 200))
    world.send(message(program, [Attached(definition, bodies, b"")]))
    world.until_finished("short.txt")
    console = open_console(world.address, "attachments")
    page = console.page
    page.get_by_label("Warnings").select_option("with warnings")
    page.get_by_label("Name contains").fill("short")
    row = page.get_by_role("row").filter(has_text="short.txt")
    expect(row.locator(".warned")).to_have_text("⚠ 1 warning")
    expect(page.get_by_text("1 attachment", exact=True)).to_be_visible()
    assert console.accessibility_violations() == []
    page.get_by_role("link", name="short.txt").click()
    expect(page.get_by_role("list", name="Warnings")).to_contain_text("announced records of at most 2 bytes")
    read = page.get_by_role("region", name="How it was read")
    line = read.get_by_role("row").filter(has_text="End of the last line")
    expect(line).to_contain_text("nothing: the most common reading was chosen")
    expect(line).to_contain_text("no-line-end")
    assert console.accessibility_violations() == []


def test_the_list_is_filtered_and_keeps_its_place(world: World, open_console: Opened) -> None:
    many = [binary_file(world.program, f"many-{number:03}.bin", b"x") for number in range(60)]
    world.send(message(world.program, many))
    world.until_finished("many-059.bin")
    console = open_console(world.address, "attachments?kind=binary-file")
    page = console.page
    page.get_by_label("Name contains").fill("many")
    expect(page.get_by_text("60 attachments")).to_be_visible()
    rows = page.locator(".attachments-rows")
    rows.evaluate("(box) => { box.scrollTop = 1000; }")
    first = page.get_by_role("link", name="many-035.bin")
    expect(first).to_be_visible()
    world.send(message(world.program, [binary_file(world.program, "many-new.bin", b"x")]))
    new = page.get_by_role("button", name="Show 1 new")
    expect(new).to_be_visible()
    assert rows.evaluate("(box) => box.scrollTop") == 1000
    first.scroll_into_view_if_needed()
    place = rows.evaluate("(box) => box.scrollTop")
    assert place > 0
    first.click()
    expect(page.get_by_role("heading", name="Parts")).to_be_visible()
    page.go_back()
    expect(first).to_be_visible()
    assert rows.evaluate("(box) => box.scrollTop") == place
    new.click()
    expect(page.get_by_role("link", name="many-new.bin")).to_be_visible()
    page.get_by_role("button", name="No filter").click()
    expect(page.get_by_role("link", name="many-new.bin")).to_be_visible()
    assert page.url.endswith("#/attachments")


def test_what_its_sender_was_asked_for_is_shown(world: World, open_console: Opened) -> None:
    messages = message(world.program, [text_file(world.program, "asked.txt", LINES)])
    world.send([each for each in messages if each is not messages[4]])
    found = world.identifier("asked.txt")
    requested = {
        "requests": 2,
        "asked_at": "2026-01-02T03:04:05Z",
        "next_at": None,
        "address": HOSTILE,
        "parts": [[3, 3]],
        "lacks_header": False,
        "lacks_count": False,
        "text": "parts 3",
        "ended": "deleted",
    }

    def answer(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, json=response.json() | {"requested": requested})

    console = open_console(world.address, "attachments")
    console.page.route(f"**/v1/attachments/{found}", answer)
    console.page.get_by_role("link", name="asked.txt").click()
    facts = console.page.locator(".facts").filter(has_text="Asked for")
    for text in ("parts 3", HOSTILE, "2 requests", "its sender says: deleted"):
        expect(facts).to_contain_text(text)
