"""Pages of other sites in a real browser: they read nothing and change nothing, while the gateway's own pages work."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.http_server import Handler, serving
from tests.web.operations import Everything, everything

ATTACK = """async ([gateway, operations]) => {
  const read = [];
  const attempts = [];
  const page = document.body;
  const loading = (element) => new Promise((done) => {
    element.onload = element.onerror = done;
    page.append(element);
  });
  const note = (how, name) => async (response) => {
    if (response.type !== "opaque" && response.status !== 403)
      read.push(`${how} of ${name}: ${response.status} ${(await response.text()).slice(0, 80)}`);
    else if (response.body) response.body.cancel();
  };
  const send = (how, name, url, given) => attempts.push(fetch(url, given).then(note(how, name), () => {}));
  let frames = 0;
  const form = (url, method, enctype, body) => {
    const made = document.createElement("form");
    const frame = document.createElement("iframe");
    frame.name = made.target = `frame-${frames++}`;
    Object.assign(made, { action: url, method, enctype });
    // The name and the value of a field that make a text/plain form JSON.
    const fields = { [body.slice(0, -1) + (body === "{}" ? '"x":"' : ',"x":"')]: '"}', destination: "archive" };
    for (const [name, value] of Object.entries(fields)) {
      const field = document.createElement("input");
      Object.assign(field, { type: "hidden", name, value });
      made.append(field);
    }
    page.append(made);
    attempts.push(loading(frame));
    made.submit();
  };
  for (const { name, method, path, body } of operations) {
    const url = gateway + path;
    const json = { "Content-Type": "application/json" };
    if (method === "GET" || method === "HEAD") {
      for (const mode of ["cors", "no-cors"]) send(mode, name, url, { method, mode });
      if (method === "HEAD") continue;
      for (const kind of ["img", "script"])
        attempts.push(loading(Object.assign(document.createElement(kind), { src: url })));
      const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: url });
      attempts.push(loading(sheet));
      form(url, "get", "", "{}");
      const frame = Object.assign(document.createElement("iframe"), { src: url });
      attempts.push(loading(frame).then(() => {
        const shown = frame.contentDocument?.body.innerText ?? "";
        if (shown && !shown.includes("/problems/cross-origin")) read.push(`frame of ${name}: ${shown.slice(0, 80)}`);
      }));
      continue;
    }
    send("cors", name, url, { method, headers: json, body });
    send("cors with a field", name, url, { method, headers: { ...json, "X-Requested-With": "console" }, body });
    if (method !== "POST") continue;
    const data = new FormData();
    data.append("destination", "archive");
    data.append("file", new Blob(["evil"]), "evil.txt");
    for (const sent of [body, data, new URLSearchParams({ destination: "archive" }), new Blob([body]), undefined]) {
      send("no-cors", name, url, { method, mode: "no-cors", body: sent });
      navigator.sendBeacon(url, sent);
    }
    for (const enctype of ["text/plain", "multipart/form-data", "application/x-www-form-urlencoded"])
      form(url, "post", enctype, body);
  }
  const events = new EventSource(`${gateway}/v1/events?after=0`);
  attempts.push(new Promise((done) => {
    events.onopen = () => { read.push("events"); done(); };
    events.onerror = done;
  }));
  await Promise.race([Promise.all(attempts), new Promise((done) => setTimeout(done, 60000))]);
  events.close();
  return read;
}"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    with everything(tmp_path_factory.mktemp("everything")) as world:
        yield world


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(60_000)
    yield page
    context.close()


class Empty(Handler):
    """Answers with a page that has nothing."""

    def do_GET(self) -> None:
        self.answer(200, headers={"Content-Type": "text/html"})


@pytest.fixture(scope="module")
def other_port() -> Iterator[int]:
    """The port of another server on this machine."""
    with serving(Empty) as port:
        yield port


@pytest.mark.parametrize("kind", ["another site", "another port", "rebound name"])
def test_pages_of_other_sites_read_and_change_nothing(
    world: Everything, page: Page, other_port: int, kind: str
) -> None:
    """With everything that a page can send to each operation; from pages with some rights here, to one of each method.

    Under a rebound name, which leads to the gateway when the page is there, the browser lets it read all answers.
    """
    pages = {
        "another site": f"http://evil.example:{other_port}",
        "another port": f"http://127.0.0.1:{other_port}",
        "rebound name": f"http://evil.example:{world.port}",
    }
    gateway = pages[kind] if kind == "rebound name" else world.address
    page.goto(pages[kind])
    before = world.state()
    world.answers.clear()
    by_method = {each.method: each for each in world.operations}
    operations = world.operations if kind == "another site" else [*by_method.values()]
    assert page.evaluate(ATTACK, [gateway, [each._asdict() for each in operations]]) == []
    assert {answer.status for answer in world.answers} == {403}, [a for a in world.answers if a.status != 403]
    seen = {answer.path for answer in world.answers}
    assert {each.path.partition("?")[0] for each in operations} <= seen, "all requests have come"
    assert world.state() == before


def test_what_these_pages_tried_is_done_for_a_program(world: Everything) -> None:
    before = world.state()
    headers = {"Content-Type": "application/json"}
    with httpx.Client(base_url=world.address, headers=headers, timeout=60) as client:
        for operation in world.operations:
            if operation.name in ("dismiss_many_quarantined", "delete_attachment", "query_tables"):
                answer = client.request(operation.method, operation.path, content=operation.body)
                assert answer.is_success, (operation, answer.text)
    assert world.state() != before


def test_the_gateways_own_pages_work_without_keys(world: Everything, page: Page, other_port: int) -> None:
    world.answers.clear()
    page.goto(f"http://evil.example:{other_port}")
    page.evaluate("(to) => { location.href = to; }", f"{world.address}/console/#/quarantine")
    expect(page.locator("h1")).to_contain_text("Quarantine")
    page.goto(f"{world.address}/console/#/send")
    page.locator("input[type=file]").first.set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"a"})
    page.goto(f"{world.address}/docs")
    expect(page.get_by_role("heading", name="Attachment gateway")).to_be_visible()
    sending = """async () => {
        const data = new FormData();
        data.append("destination", "archive");
        data.append("file", new Blob(["own"]), "own.txt");
        return (await fetch("/v1/messages", { method: "POST", body: data })).status;
    }"""
    assert page.evaluate(sending) == 202, "as Swagger UI sends forms"
    assert {answer.status for answer in world.answers if answer.path.startswith("/v1/")} <= {200, 201, 202, 304}
