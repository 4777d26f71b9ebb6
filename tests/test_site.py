"""The site that `make site` builds: its links, what it loads, its pages, and how they begin."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs import site_builder

ROOT = site_builder.ROOT
PAGES = {str(path.relative_to(ROOT / "docs")): path.read_text() for path in (ROOT / "docs").rglob("*.md")}
del PAGES["vendor/README.md"]


class Built(HTMLParser):
    """A built page: its anchors, where it leads, and what a browser loads with it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.anchors, self.links, self.loaded = path, set[str](), list[str](), list[str]()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self.anchors |= {known[name] for name in ("id", "name") if name in known}
        if tag == "a" and "href" in known:
            self.links.append(known["href"])
        elif loads := [known[name] for name in ("src", "srcset", "data", "href") if tag != "base" and name in known]:
            self.loaded += loads

    def places(self, links: list[str]) -> Iterator[tuple[Path, str]]:
        """The files and anchors of links within the site."""
        for each in map(urlsplit, links):
            if not each.scheme and not each.netloc:
                place = self.path.parent / unquote(each.path) if each.path else self.path
                yield place.resolve(), unquote(each.fragment)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all versions. The build is strict: a warning of MkDocs ends it."""
    folder = tmp_path_factory.mktemp("site")
    site_builder.main(folder)
    return folder


@pytest.fixture(scope="module")
def built(site: Path) -> dict[Path, Built]:
    # 404.html does not know where the site is: its links begin at the root.
    paths = [path for path in (site / site_builder.VERSION).rglob("*.html") if path.name != "404.html"]
    return {path.resolve(): Built(path) for path in paths}


@pytest.mark.process
def test_each_link_and_each_anchor_leads_somewhere(built: dict[Path, Built]) -> None:
    dead = [
        f"{page.path.name}: {place}#{anchor}"
        for page in built.values()
        for place, anchor in page.places(page.links + page.loaded)
        if not place.exists() or (anchor and place in built and anchor not in built[place].anchors)
    ]
    assert dead == []
    assert sum(len(page.links) for page in built.values()) > 5_000


@pytest.mark.process
def test_no_page_loads_anything_of_another_host(built: dict[Path, Built]) -> None:
    loaded = {(page.path.name, each) for page in built.values() for each in page.loaded}
    assert [(name, each) for name, each in loaded if urlsplit(each).netloc] == []
    assert ("states.html", "vendor/mermaid.tiny.js") in loaded, "what draws diagrams"


@pytest.mark.process
def test_every_page_is_in_llms_txt_with_a_sentence(site: Path, built: dict[Path, Built]) -> None:
    """It has the pages of the navigation: a page that is in no place of it ends the build, too."""
    listed = re.findall(
        r"^- \[.+\]\((.+)\.html\): .{20,}$", (site / site_builder.VERSION / "llms.txt").read_text(), re.MULTILINE
    )
    assert len(set(listed)) == len(listed)
    assert {f"{name}.md" for name in listed if not name.startswith("source/")} == PAGES.keys() - {"index.md"}
    assert {name for name in listed if name.startswith("source/")} == {
        f"source/{name}" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")
    }


@pytest.mark.process
@pytest.mark.parametrize("page", ["[none](none.md)", "[no anchor](index.md#none)"])
def test_a_dead_link_and_a_page_in_no_place_end_the_build(
    page: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.md").write_text(f"# Page\n\n{page}\n")
    (tmp_path / "pages" / "orphan.md").write_text("# Orphan\n")
    config = tmp_path / "mkdocs.yml"
    inherited = f"INHERIT: {ROOT}/mkdocs.yml\ndocs_dir: pages\nnav: [index.md]\nhooks: []\nextra_css: []\n"
    config.write_text(inherited)
    assert site_builder.build(config, tmp_path / "site") != 0
    said = capfd.readouterr().err
    assert "orphan.md" in said
    assert page.partition("(")[2].rstrip(")") in said


@pytest.mark.process
def test_versions_are_beside_each_other(site: Path) -> None:
    (version,) = json.loads((site / "versions.json").read_text())
    assert version["version"] == site_builder.VERSION
    assert f"url={site_builder.VERSION}/index.html" in (site / "index.html").read_text()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_short_and_says_for_whom_it_is(name: str) -> None:
    text = PAGES[name]
    # A page of objects is looked up, not read.
    assert text.count("\n") <= (500 if name.endswith("-objects.md") else 400)
    title, first = text.split("\n\n")[:2]
    assert title.startswith("# ")
    if name.partition("/")[0] not in ("adr", "alerts") or name.endswith("index.md"):
        assert re.match(r"For [^:]+: .*\.$", first, re.DOTALL), first


def test_the_readme_has_two_screens() -> None:
    assert (ROOT / "README.md").read_text().count("\n") <= 100
