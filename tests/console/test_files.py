"""The files of the console: what is vendored (for the documentation, too), how it is served, and how large it is. No
browser is needed."""

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

from app.web.app import create_app
from app.web.console.endpoints import FOLDER, POLICY
from tests.console.support import LARGEST_PICTURE, PICTURES
from tests.web.stock import Stock

VENDORED = [FOLDER / "vendor", Path(__file__).parent / "axe", Path(__file__).parents[2] / "docs" / "vendor"]
LARGEST = 300_000
ROW = re.compile(r"^\| `([^`]+)` \| `[^`]+` \| `([0-9a-f]{64})` \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    stock = Stock(tmp_path_factory.mktemp("files"))
    with TestClient(create_app(stock.gateway), follow_redirects=False) as client:
        yield client
    stock.close()


@pytest.mark.parametrize("folder", VENDORED, ids=lambda folder: folder.name)
def test_vendored_files_are_those_of_their_packages(folder: Path) -> None:
    told = dict(ROW.findall((folder / "README.md").read_text()))
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "README.md"}
    if "hooks.mjs" in found:
        found["hooks.mjs"] = found["hooks.mjs"].replace(b'from"./preact.mjs"', b'from"preact"')
    assert {name: sha256(content).hexdigest() for name, content in found.items()} == told


def test_the_page_is_small_and_complete() -> None:
    files = [path for path in FOLDER.rglob("*") if path.suffix in (".html", ".css", ".js", ".mjs")]
    assert sum(path.stat().st_size for path in files) < LARGEST
    scripts = [path for path in files if path.parent.name != "vendor" and path.suffix == ".js"]
    imports = {
        (path.parent / target).resolve()
        for path in scripts
        for target in re.findall(r'(?:from |import\()"([^"]+)"', path.read_text())
    }
    assert imports
    assert [path for path in imports if not path.is_file()] == []
    assert {path.resolve() for path in scripts} - imports == {FOLDER / "main.js"}


def test_no_file_names_another_host() -> None:
    own = [path for path in FOLDER.rglob("*") if path.suffix in (".html", ".css", ".js")]
    assert [path.name for path in own if path.parent.name != "vendor" and "://" in path.read_text()] == []


def test_the_page_is_served_with_its_policy_and_once(http: httpx.Client) -> None:
    page = http.get("/console/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["content-security-policy"] == POLICY
    assert "'unsafe" not in POLICY
    assert page.headers["cache-control"] == "no-cache"
    script = http.get("/console/vendor/preact.mjs")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["etag"] != page.headers["etag"]
    again = http.get("/console/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", page.headers["etag"])
    assert http.get("/console/", headers={"If-None-Match": '"other"'}).status_code == 200
    assert http.head("/console/main.js").headers["content-length"] == str((FOLDER / "main.js").stat().st_size)


@pytest.mark.parametrize("path", ["nothing.js", "../files.py", "%2e%2e/files.py", "vendor/LICENSE.htm", "vendor", "//"])
def test_nothing_else_is_served(http: httpx.Client, path: str) -> None:
    answer = http.get(f"/console/{path}")
    assert (answer.status_code, answer.json()["type"]) == (404, "/problems/not-found")


def test_the_address_without_a_slash_redirects_below_any_path(http: httpx.Client) -> None:
    """A relative reference is right also behind a proxy that tells the gateway nothing of its path."""
    answer = http.get("/console")
    assert (answer.status_code, answer.headers["location"]) == (307, "console/")
    assert http.get("/").json()["links"]["console"] == "/console/"


def test_the_documentation_shows_every_picture() -> None:
    shown = set(re.findall(r"\(pictures/(console-[a-z-]+\.png)\)", (PICTURES.parent / "console.md").read_text()))
    taken = {path.name: path.stat().st_size for path in PICTURES.glob("console-*.png")}
    assert shown == taken.keys()
    assert {name: size for name, size in taken.items() if size >= LARGEST_PICTURE} == {}
