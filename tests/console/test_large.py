"""Much of everything in a browser: 100,000 attachments, 1,000,000 parts, 50 MB of text, 500 columns; and hostile names.

The longest frames are printed (`pytest -rP`), not asserted: they depend on the machine.
"""

import re
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from io import BytesIO
from time import sleep
from typing import Any

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Locator, Route, expect

from app.model.attachment import AttachmentKind, AttachmentState
from app.model.records import AttachmentRecord
from app.web.app import create_app
from tests.console.support import Console
from tests.support.tables import wide
from tests.web.stock import Stock, serving

Opened = Callable[..., Console]

# A browser that has nothing to draw on, or no time to draw, may withhold frames: then a timer goes on.
FRAME = "const frame = () => new Promise((done) => { requestAnimationFrame(done); setTimeout(done, 200); });"
SCROLLED = f"""async (box, [step, frames]) => {{
    {FRAME}
    const lengths = [];
    for (let count = 0; count < frames; count++) {{
        const before = performance.now();
        box.scrollTop += step;
        await frame();
        lengths.push(performance.now() - before);
    }}
    return lengths;
}}"""
DRAWN = f"async () => {{ {FRAME} const before = performance.now(); await frame(); return performance.now() - before; }}"

HOSTILE = [
    "<img src=x onerror=\"document.title='taken'\">",
    "\u202egpj.exe",
    "a\u2066b\u200f\u0000\u001b[31m",
    "x" * 800,
    "${alert(1)}{{1+1}}",
    "'\"><script>document.title='taken'</script>",
]


PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


class World:
    """A gateway with a stock of large things."""

    def __init__(self, stock: Stock, address: str) -> None:
        self.stock, self.address = stock, address
        self.hostile = [
            stock.attachment(state=AttachmentState.EXPIRED, source="hostile", qualifier_2=name) for name in HOSTILE
        ]
        lines = "".join(f"{number:09} {'text ' * 18}\n" for number in range(500_000)).encode()
        self.text = stock.stored(
            lines, "text/plain; charset=utf-8", kind=AttachmentKind.TEXT_FILE, qualifier_2="50 MB.txt"
        )
        sink = BytesIO()
        pq.write_table(wide(500, 1000), sink)
        self.wide = stock.stored(
            sink.getvalue(),
            "application/vnd.apache.parquet",
            kind=AttachmentKind.DATA_SET,
            qualifier_1="WORK",
            qualifier_2="WIDE",
        )
        gaps = [(first, first + 9) for first in range(1, 1_000_000, 20)]
        self.parts = stock.receiving(gaps, 1_000_000, kind=AttachmentKind.BINARY_FILE, qualifier_2="million.bin")
        stock.many(100_000)
        self.picture = stock.stored(PNG, "text/html", qualifier_2="picture.bin")
        self.broken = stock.stored(PNG[:40], qualifier_2="broken.bin")
        self.ebcdic = stock.stored(
            "<b>Grüße</b>\n".encode("cp037"), "text/plain; charset=IBM037", kind=AttachmentKind.TEXT_FILE
        )
        self.binary = stock.stored(bytes(range(256)) * 10, qualifier_2="bytes.bin")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    stock = Stock(tmp_path_factory.mktemp("large"))
    with serving(create_app(stock.gateway)) as address:
        yield World(stock, address)
    stock.close()


def measured(line: str) -> None:
    """Print what was measured; `pytest -rP` shows it."""
    sys.stdout.write(f"{line}\n")


def scroll(box: Locator, what: str, step: int = 800, frames: int = 30) -> None:
    """Scroll a box down, frame by frame, and print how long the longest frame took."""
    lengths: list[float] = box.evaluate(SCROLLED, [step, frames])
    measured(f"{what}: longest of {frames} frames {max(lengths):.0f} ms, median {sorted(lengths)[frames // 2]:.0f} ms")


def test_a_hundred_thousand_attachments(world: World, open_console: Opened) -> None:
    console = open_console(world.address, "attachments?source=many")
    page = console.page
    status = page.locator(".more > [role=status]")
    expect(status).to_contain_text("At least 4,000 attachments, 200 of them loaded")
    painted = page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")
    measured(f"first paint after {painted:.0f} ms")
    box = page.locator(".attachments-rows")
    scroll(box, "100,000 attachments")
    expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", "-1")  # not known
    expect(page.get_by_role("link", name="many-099000.bin")).to_have_count(0)
    box.evaluate("(box) => { box.scrollTop = box.scrollHeight; }")
    expect(status).not_to_contain_text(", 200 of them loaded")
    assert page.locator(".attachments-rows .virtual-row").count() < 100

    box.evaluate("(box) => { box.scrollTop = 2200; }")
    row = page.get_by_role("link", name="many-099946.bin")
    expect(row).to_be_visible()
    place = row.bounding_box()
    world.stock.many(3_000, 100_000)
    new = page.get_by_role("button", name="Show 3,000 new")
    expect(new).to_be_visible()
    expect(status).to_contain_text("At least 7,000 attachments")
    assert row.bounding_box() == place
    new.click()
    expect(page.get_by_role("link", name="many-103000.bin")).to_be_visible()
    page.get_by_label("Name contains").fill("many-000017")
    expect(page.get_by_role("link", name="many-000017.bin")).to_be_visible()
    expect(status).to_have_text("1 attachment")


def test_a_million_parts(world: World, open_console: Opened) -> None:
    console = open_console(world.address, f"attachment/{world.parts.id}")
    page = console.page
    console.expect_status(410)  # The stock has no journal with these parts.
    text = page.locator(".gap-text")
    expect(text).to_contain_text("500,000 parts of 1,000,000; missing")
    strip = page.locator(".gap-strip")
    box = strip.bounding_box()
    assert box is not None
    lengths: list[float] = []
    for place in range(1, 20):
        page.mouse.move(box["x"] + box["width"] * place / 20, box["y"] + 5)
        lengths.append(page.evaluate(DRAWN))
    measured(f"hovering over 1,000,000 parts: longest frame {max(lengths):.0f} ms")
    expect(text).to_contain_text("missing")
    shown = page.get_by_role("slider", name="Parts by sequence number")
    for shares in ("25,000 parts of 50,000", "1,250 parts of 2,500"):
        strip.click(position={"x": box["width"] / 2, "y": 5})
        expect(shown).to_have_attribute("aria-valuetext", re.compile(shares))
    page.get_by_role("button", name="Show all").click()
    expect(shown).to_have_attribute("aria-valuemax", "1000000")
    coloured: dict[str, Any] = page.locator("canvas.gap-bar").evaluate(
        """(canvas) => {
            const { data } = canvas.getContext('2d').getImageData(canvas.width / 2, 0, 1, canvas.height);
            const found = {};
            for (let at = 0; at < data.length; at += 4) {
                const colour = [...data.slice(at, at + 3)].join();
                found[colour] = (found[colour] ?? 0) + 1;
            }
            return found;
        }"""
    )
    assert len(coloured) == 2
    assert max(coloured.values()) - min(coloured.values()) <= 2


def test_fifty_megabytes_of_text(world: World, open_console: Opened) -> None:
    console = open_console(world.address, f"attachment/{world.text.id}")
    page = console.page
    text = page.get_by_role("list", name="Text")
    expect(text).to_contain_text("000000000 text")
    scroll(text, "50 MB of text", 4000)
    expect(text).not_to_contain_text("000000000 text")

    def slowly(route: Route) -> None:
        sleep(0.2)
        route.continue_()

    page.route("**/content", slowly)
    page.get_by_role("button", name="End", exact=True).click()
    expect(page.get_by_text("to 50,500,000 of 50,500,000 (48.2 MiB)", exact=False)).to_be_visible()
    expect(text.get_by_role("listitem").last).to_contain_text("000499999 text")
    assert page.locator(".text-rows .virtual-row").count() < 100


def test_five_hundred_columns(world: World, open_console: Opened) -> None:
    console = open_console(world.address, f"attachment/{world.wide.id}")
    page = console.page
    grid = page.get_by_role("grid", name="Rows")
    expect(grid).to_contain_text("text 0.0")
    expect(grid).to_have_attribute("aria-colcount", "501")
    scroll(grid, "500 columns", 300)
    grid.evaluate("(box) => { box.scrollTop = box.scrollHeight; box.scrollLeft = box.scrollWidth; }")
    expect(grid).to_contain_text("V499")
    expect(grid.locator("[aria-rowindex='1001'] [aria-colindex='501']")).to_have_text("623.875")
    assert grid.get_by_role("gridcell").count() < 2000
    page.get_by_role("button", name="Profile the columns").click()
    profile = page.get_by_label("Columns and their values")
    expect(profile.locator(".profile-column").first).to_contain_text("V0")
    scroll(profile, "profile of 500 columns")
    assert profile.locator(".profile-column").count() < 40


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_hostile_names_are_text(world: World, open_console: Opened, scheme: str, width: int) -> None:
    console = open_console(world.address, "attachments?source=hostile", scheme=scheme, width=width)
    page = console.page
    names = page.locator(".attachments-rows .name")
    expect(names).to_have_count(len(HOSTILE))
    shown = [name.inner_text() for name in names.all()][::-1]
    assert shown[0] == HOSTILE[0]
    assert shown[1] == "\\u202egpj.exe"
    assert shown[2] == "a\\u2066b\\u200f\\u0000\\u001b[31m"
    assert shown[3:] == HOSTILE[3:]
    assert console.accessibility_violations(only_looks=scheme == "dark") == []
    for record in world.hostile[:4]:
        _named(console, record)
    assert "taken" not in page.title()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def _named(console: Console, record: AttachmentRecord) -> None:
    console.page.goto(f"{console.address}/console/#/attachment/{record.id}")
    expect(console.page.locator("h1")).to_contain_text(record.qualifier_2[-4:])
    expect(console.page.locator("img")).to_have_count(0)
    assert console.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_content_is_shown_as_what_its_bytes_are(world: World, open_console: Opened) -> None:
    console = open_console(world.address, f"attachment/{world.picture.id}")
    page = console.page
    expect(page.get_by_role("img", name="The picture picture.bin")).to_have_js_property("naturalWidth", 1)
    console.open(f"attachment/{world.broken.id}")
    expect(page.get_by_text("the browser cannot show them")).to_be_visible()
    console.open(f"attachment/{world.ebcdic.id}")
    expect(page.get_by_role("list", name="Text")).to_contain_text("<b>Grüße</b>")
    expect(page.get_by_text("is converted by the gateway")).to_be_visible()
    console.open(f"attachment/{world.binary.id}")
    expect(page.get_by_label("Bytes in hexadecimal")).to_contain_text("000000f0")
    expect(page.get_by_text("All 2,560 bytes.")).to_be_visible()
