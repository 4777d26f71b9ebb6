"""Sending, the quarantine, tables, the pipeline and trace in a browser, on a gateway with a real broker."""

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import httpx
import pyarrow as pa
import pytest
from playwright.sync_api import Page, Route, expect

from adapters.delta_tables import DeltaTables
from adapters.sql_catalog import SqlCatalog
from app.model.message import PhysicalMessage
from app.model.pipeline_run import PipelineRun, RunState
from app.tables.quality import QUALITY, Increment, quality_rows
from app.trace import FORMATS
from app.web.console.endpoints import FOLDER
from tests.console.support import Console
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.mosquitto import Mosquitto
from tests.support.publish import publish
from tests.support.sas_client import Program, message, text_file
from tests.support.tables import visits

pytestmark = pytest.mark.broker

HOSTILE = """<img src=x onerror='alert("1")'>\\.csv"""
CSV = b"order no,city\n1,Oslo\n2,Rome\n"

Opened = Callable[..., Console]


class World:
    """A gateway with tables of a pipeline, and its broker."""

    def __init__(self, gateway: GatewayProcess, broker: Mosquitto, data: Path) -> None:
        self.gateway, self.broker, self.data, self.tables = gateway, broker, data, DeltaTables(str(data / "tables"))
        self.address = f"http://127.0.0.1:{gateway.port}"
        self._spoilt = 0

    def commit(self, name: str, rows: pa.Table) -> None:
        version = self.tables.write(name, rows.schema, rows.to_batches())
        self.tables.commit(name, rows.schema, [version], "test", self._next())

    def quarantine(self, *bodies: bytes) -> list[str]:
        """Send messages that are no headers, and return their entries in quarantine, oldest first."""
        before = {one["id"] for one in self.gateway.listing("/v1/quarantine")}
        messages = [
            PhysicalMessage("orders", "sas_queue", msg_type=100000, correl_id=self._next().to_bytes(24), body=body)
            for body in bodies
        ]
        publish(messages, self.broker.port, "orders", "5")

        def found() -> list[str]:
            entries = [one["id"] for one in self.gateway.listing("/v1/quarantine") if one["id"] not in before]
            return entries if len(entries) == len(bodies) else []

        self.gateway.until(found)
        return found()[::-1]

    def _next(self) -> int:
        self._spoilt += 1
        return self._spoilt


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("operating")
    with Mosquitto(folder) as broker:
        settings = mqtt_source("orders", broker.port, "orders") + mqtt_destination("loop", broker.port, "orders")
        with ForkedGateway(folder, settings) as gateway:
            gateway.await_source("orders")
            world = World(gateway, broker, folder / "var")
            world.commit("CLINIC.VISITS", visits())
            world.commit(QUALITY, quality_rows([Increment("orders", 1_780_000_000_000_000, 7200, missing_ranges=2)]))
            yield world


def drop(page: Page, name: str, content: bytes) -> None:
    """Drop a file where files are dropped, as a mouse does."""
    page.locator(".drop").evaluate(
        """(place, [name, bytes]) => {
            const carried = new DataTransfer();
            carried.items.add(new File([new Uint8Array(bytes)], name));
            for (const type of ['dragover', 'drop'])
                place.dispatchEvent(new DragEvent(type, { dataTransfer: carried, bubbles: true, cancelable: true }));
        }""",
        [name, list(content)],
    )


def copied(page: Page, button: str) -> str:
    """Press a button that copies a line, and return the line; a page without TLS shows it."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name=button, exact=True).first.click()
    line: str = page.evaluate("() => navigator.clipboard.readText()")
    return line


def test_files_are_rehearsed_sent_and_watched(world: World, open_console: Opened, tmp_path: Path) -> None:
    console = open_console(world.address, "send")
    console.expect_status(422)
    page = console.page
    drop(page, HOSTILE, CSV)
    page.get_by_label("Choose files").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"text\n"})
    expect(page.locator(".files li")).to_have_count(2)
    assert page.locator(".files bdi").first.inner_text() == HOSTILE
    expect(page.get_by_label("Destination")).to_have_value("loop")
    page.get_by_label("Kind").first.select_option("data-set")
    page.get_by_label("Name", exact=True).first.fill("WORK.ORDERS")
    page.get_by_role("button", name="Dry run", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("order no")
    page.get_by_label("Names of columns").select_option("rename")
    page.get_by_role("button", name="Dry run", exact=True).click()
    table = page.get_by_role("region", name=f"Variables of {HOSTILE}")
    expect(table.get_by_role("row")).to_have_count(3)
    expect(table).to_contain_text("order_no")
    assert console.accessibility_violations() == []
    console.picture("send")

    line = copied(page, "copy as curl")
    for name, content in ((HOSTILE, CSV), ("a.txt", b"text\n")):
        (tmp_path / name).write_bytes(content)
    sent = subprocess.run([*shlex.split(line), "-s"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [one["name"] for one in json.loads(sent.stdout)["attachments"]] == ["ORDERS", "a.txt"]

    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("heading", name="Delivery to loop")).to_be_visible()
    expect(page.locator(".state")).to_have_text("sent")
    assert console.accessibility_violations() == []
    expect(page.locator("progress")).to_have_js_property("position", 1)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Yes: Delete").click()
    expect(page.get_by_role("region", name="Deliveries").get_by_role("row")).to_have_count(2)


def test_large_files_are_uploaded_in_pieces_and_go_on_after_a_failure(
    world: World, open_console: Opened, tmp_path: Path
) -> None:
    console = open_console(world.address, "send")
    console.expect_status(503)
    page = console.page
    large = tmp_path / "grün.bin"
    large.write_bytes(Random(5).randbytes(17 << 20))
    failing = [True]

    def fail_once(route: Route) -> None:
        if route.request.method == "PATCH" and route.request.headers["upload-offset"] != "0" and failing:
            failing.clear()
            route.fulfill(status=503)
        else:
            route.continue_()

    page.route("**/v1/uploads/*", fail_once)
    page.get_by_label("Choose files").set_input_files(large)
    page.get_by_role("button", name="Dry run", exact=True).click()
    expect(page.get_by_role("region", name="Dry run", exact=True)).to_contain_text("binary-file")
    assert not failing
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.method))
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Delivery")
    assert "PATCH" not in requests, "the dry run has uploaded it"

    def received() -> list[str]:
        found = world.gateway.listing("/v1/attachments", state="finished")
        return [one["id"] for one in found if one["size"] == 17 << 20]

    world.gateway.until(received)
    content = httpx.get(f"{world.address}/v1/attachments/{received()[0]}/content", timeout=60).content
    assert content == large.read_bytes()


def test_quarantined_messages_are_explained_replayed_and_dismissed(world: World, open_console: Opened) -> None:
    program = Program(Random(3))
    header = bytes(message(program, [text_file(program, "notes.txt", b"one\n")])[0].body)
    entries = world.quarantine(header[:-40], b"another", b"third")
    console = open_console(world.address, "quarantine")
    page = console.page
    rows = page.get_by_role("region", name="Quarantined messages").locator("tbody tr")
    expect(rows).to_have_count(3)
    assert console.accessibility_violations() == []
    page.get_by_label("Choose all").check()
    rows.last.get_by_role("checkbox").uncheck()
    expect(page.get_by_text("2 chosen")).to_be_visible()
    console.picture("quarantine")
    page.get_by_role("button", name="Dismiss", exact=True).click()
    expect(page.get_by_role("button", name="Yes: dismiss 2")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("2 dismissed", exact=True)).to_be_visible()
    expect(rows).to_have_count(1)

    rows.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Quarantined message")).to_be_visible()
    expect(page.get_by_label("Bytes in hexadecimal")).to_contain_text(header[:16].hex())
    fields = page.get_by_label("Fields: offset")
    expect(fields.get_by_title("AttachmentHeader.header_correlid", exact=True)).to_be_visible()
    stopped = page.locator(".hex-bytes .marked")
    assert stopped.inner_text() == f"{header[int(stopped.get_attribute('data-at') or 0)]:02x}"
    assert console.accessibility_violations() == []
    page.get_by_role("heading", name="Bytes").scroll_into_view_if_needed()
    console.picture("quarantined-message")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.path().read_bytes() == header[:-40]
    page.get_by_role("button", name="Replay", exact=True).click()
    expect(page.locator(".card .state")).to_have_text("quarantined")
    expect(page.locator(".state").first).to_have_text("replayed")
    assert page.url.endswith(entries[0])
    page.get_by_role("link", name="All quarantined messages").click()
    page.get_by_label("State").select_option("all")
    expect(rows).to_have_count(4)
    assert "state=all" in page.url
    world.quarantine(b"news")
    page.get_by_role("button", name="1 more quarantined").click()
    expect(rows).to_have_count(5)


def test_a_group_of_the_quarantine_is_handled_at_once(world: World, open_console: Opened) -> None:
    """However many it has, also those that the page has not read."""
    world.quarantine(*(b"spoilt %d" % number for number in range(130)))
    console = open_console(world.address, "quarantine")
    page = console.page
    page.set_viewport_size({"width": 1280, "height": 800})
    groups = page.get_by_role("region", name="Groups").locator("tbody tr")
    listed = page.get_by_role("region", name="Quarantined messages").locator("tbody tr")
    expect(groups.first).to_be_visible()
    before = sum(int(text.replace(",", "")) for text in groups.locator("td:first-child").all_inner_texts())
    assert before == len(world.gateway.listing("/v1/quarantine", state="kept"))
    expect(page.get_by_label("Code").locator("option")).to_contain_text(["any", "bad-header"])
    assert page.get_by_label("Source").locator("option").all_inner_texts() == ["any", "orders"]
    largest = groups.first
    count = int(largest.locator("td").first.inner_text())
    assert count >= 130
    line = copied(page, "curl")
    assert json.loads(shlex.split(line)[shlex.split(line).index("-d") + 1])["group"]["source"] == "orders"
    largest.get_by_role("link").click()
    expect(page.get_by_role("heading", name="One reason")).to_be_visible()
    expect(groups).to_have_count(1)
    expect(page.get_by_text("100 messages shown; there are more")).to_be_visible()
    address = page.url
    page.reload()
    expect(groups.locator("td").first).to_have_text(str(count))
    groups.get_by_role("button", name="Dismiss all of").click()
    page.get_by_role("button", name=f"Yes: dismiss {count}").click()
    expect(page.get_by_text(f"{count} dismissed", exact=True)).to_be_visible()
    expect(listed).to_have_count(0)
    page.get_by_label("State").select_option("dismissed")
    expect(page.get_by_text(re.compile("^[0-9]+ messages in 1 group$"))).to_be_visible()
    assert page.get_by_role("button", name="Dismiss all of").count() == 0, "only what is kept"
    assert page.url.partition("source=")[2].partition("&state")[0] in address
    page.get_by_role("button", name="No filter").click()
    world.quarantine(b"news of the group")
    expect(page.get_by_text(re.compile(f"^{before - count + 1} messages? in "))).to_be_visible()


def test_tables_are_shown_and_downloaded(world: World, open_console: Opened) -> None:
    console = open_console(world.address, "tables")
    page = console.page
    page.get_by_role("link", name="CLINIC.VISITS").click()
    grid = page.get_by_role("grid", name="Rows of CLINIC.VISITS")
    expect(grid).to_contain_text('Åsa, "the" 1st')
    expect(grid).to_contain_text("Malmö")
    expect(grid.get_by_role("gridcell", name="-0.125")).to_have_css("text-align", "right")
    assert console.accessibility_violations() == []
    console.picture("table")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download all rows").click()
    assert download.value.suggested_filename.endswith(".csv")
    assert download.value.path().read_bytes().decode().startswith("Name,Age")


def test_sql_is_answered_as_a_grid_and_as_a_file(world: World, open_console: Opened) -> None:
    console = open_console(world.address, "tables")
    console.expect_status(422)
    page = console.page
    page.get_by_label("One query").fill("SELECT Name, Age FROM clinic.visits ORDER BY Age")
    page.keyboard.press("Control+Enter")
    grid = page.get_by_role("grid", name="Result")
    expect(grid.get_by_role("row").nth(1)).to_contain_text("-0.125")
    expect(grid.get_by_role("gridcell", name="-0.125")).to_have_css("text-align", "right")
    assert console.accessibility_violations() == []
    console.picture("sql")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    assert download.value.path().read_bytes().startswith(b"Name,Age")
    line = copied(page, "copy as curl")
    answer = subprocess.run([*shlex.split(line), "-s"], capture_output=True, check=True).stdout
    assert answer == download.value.path().read_bytes()
    page.get_by_label("One query").fill("SELECT range AS n FROM range(101)")
    page.get_by_label("At most rows").select_option("100")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("only the first 100 are shown")).to_be_visible()
    page.get_by_label("One query").fill("DELETE FROM clinic.visits")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text("DELETE is not a query")


def test_batches_of_the_pipeline_appear_as_they_are_committed(world: World, open_console: Opened) -> None:
    console = open_console(world.address, "pipeline")
    page = console.page
    page.clock.install()
    page.reload()
    expect(page.get_by_role("region", name="By source and hour").locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("region", name="By source and hour")).to_contain_text("7,200")
    batches = page.get_by_role("log").locator("tbody tr")
    expect(batches).to_have_count(0)
    began = 1_795_000_000_000_000
    failed = PipelineRun("a" * 32, "batch", RunState.RUNNING, began)
    running = PipelineRun("b" * 32, "stream", RunState.RUNNING, began + 60_000_000)
    with closing(SqlCatalog(f"sqlite:///{world.data}/catalog.sqlite")) as catalog:
        catalog.begin_run(failed, 9)
        catalog.end_run(replace(failed, state=RunState.FAILED, ended_at=began, error=f"GatewayError: {HOSTILE}"))
        catalog.begin_run(running, 9)
        page.clock.fast_forward(5000)
        expect(batches).to_have_count(2)
        expect(batches.first).to_contain_text("running")
        expect(batches.last).to_contain_text(HOSTILE)
        done = replace(running, state=RunState.COMMITTED, ended_at=running.began_at + 2_500_000)
        catalog.end_run(replace(done, messages=5000, attachments=12, rows=300))
    world.commit("CLINIC.VISITS", visits())
    page.clock.fast_forward(5000)
    expect(batches.first).to_contain_text("committed")
    shown = batches.first.locator("td").all_inner_texts()
    assert shown[3:] == ["2.5 s", "5,000", "2,000", "12", "0", "0", "300"]
    commits = page.get_by_role("region", name="Newest commits").get_by_role("row").filter(has_text="CLINIC.VISITS")
    expect(commits.locator("td").nth(1)).to_have_text("1")
    assert console.accessibility_violations() == []
    console.picture("pipeline")


COUNT = "00 00 00 03"


def test_bytes_are_explained_however_they_are_given(world: World, open_console: Opened) -> None:
    console = open_console(world.address, "trace")
    console.expect_status(422)
    page = console.page
    page.get_by_label("Bytes, in").fill(COUNT)
    page.get_by_label("Format").select_option("sas-count")
    page.get_by_role("button", name="Explain").click()
    fields = page.get_by_label("Fields: offset")
    expect(fields.get_by_title("Count.count")).to_be_visible()
    assert console.accessibility_violations() == []
    console.picture("trace")
    page.get_by_label("Bytes, in").fill("AAAABA==")
    page.get_by_role("button", name="Explain").click()
    expect(fields).to_contain_text("4")
    page.get_by_label("Format").select_option("")
    drop(page, "capture.bin", bytes.fromhex("10 10 0004 4d515454 05 02 003c 00 0003 616263"))
    expect(fields.get_by_title("FixedHeader.remaining_length")).to_be_visible()
    for wrong, told in (
        ("abc", "3 hexadecimal digits"),
        ("§", "“§”"),
        ("zzzzz", "base64"),
        ("ff" * 9, "No format explains"),
    ):
        page.get_by_label("Bytes, in").fill(wrong)
        page.get_by_role("button", name="Explain").click()
        expect(page.get_by_role("alert")).to_contain_text(told)
    expect(page.get_by_text("formats were tried")).to_be_visible()


def test_the_page_offers_every_format_of_trace() -> None:
    listed = re.search(r"const FORMATS = \[(.*?)\];", (FOLDER / "views" / "trace.js").read_text(), re.DOTALL)
    assert listed is not None
    assert re.findall(r'"([^"]+)"', listed[1]) == list(FORMATS)
