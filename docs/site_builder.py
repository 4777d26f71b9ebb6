"""Build the site of the documentation, which mkdocs.yml describes: `python -m docs.site_builder [FOLDER]`. The
functions that begin with `on_` are the hooks that MkDocs calls.

Pages also link to files of the project that are not documentation. Each of these becomes a page in `source`.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parent.parent
VERSION: Final[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
_SOURCE: Final = "source/"
_LINK: Final = re.compile(r"(?<=\]\()(?!#|\w+:)([^)\s#]+)")
_DIAGRAM: Final = re.compile(r'<pre class="mermaid">.*?</pre>', re.DOTALL)
_DIAGRAMS: Final = '<script src="vendor/mermaid.tiny.js"></script>'
_REDIRECT: Final = (
    '<!doctype html>\n<title>Documentation</title>\n<meta http-equiv="refresh" content="0; url={}/index.html">\n'
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of folders into the navigation."""
    config.nav = _expanded(config.nav)
    return config


def _expanded(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_expanded(each) for each in entry]
    if isinstance(entry, dict):
        return {name: _expanded(each) for name, each in entry.items()}
    if not entry.endswith("/"):
        return entry
    pages = sorted((ROOT / "docs" / entry).glob("*.md"), key=lambda page: (page.name != "index.md", page.name))
    return [f"{entry}{page.name}" for page in pages]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file of the project to which a page links, and for those in the navigation."""
    wanted = {ROOT / name for name in re.findall(rf"{_SOURCE}(\S+\.md)'", str(config.nav))}
    wanted |= {to for page in files.documentation_pages() for to in _linked(_origin(page.src_uri), page.content_string)}
    made: set[Path] = set()
    while new := wanted - made:
        for path in sorted(new):
            content = _content(path)
            files.append(File.generated(config, _place(path), content=content))
            wanted |= set(_linked(path, content)) if path.suffix == ".md" else set()
        made |= new
    return files


def _linked(origin: Path, text: str) -> Iterator[Path]:
    """Yield the files of the project outside of the documentation to which a page links."""
    for link in _LINK.findall(text):
        to = (origin.parent / link).resolve()
        if to.exists() and _place(to).startswith(_SOURCE):
            yield to


def _origin(page: str) -> Path:
    """Return the file of which a page is made."""
    return ROOT / page.removeprefix(_SOURCE) if page.startswith(_SOURCE) else ROOT / "docs" / page


def _place(path: Path) -> str:
    """Return the page of a file of the project."""
    name = str(path.relative_to(ROOT))
    in_site = path.suffix in (".md", ".toml") or path.parent.name == "pictures"
    if name.startswith("docs/") and in_site and "examples/" not in name:
        return name.removeprefix("docs/")
    return f"{_SOURCE}{name}{'' if path.suffix == '.md' else '.md'}"


def _content(path: Path) -> str:
    if path.suffix == ".md":
        return path.read_text()
    name = str(path.relative_to(ROOT))
    text = "\n".join(sorted(each.name for each in path.iterdir())) if path.is_dir() else path.read_text()
    return f"---\nsearch: {{exclude: true}}\n---\n\n# {name}\n\n````text\n{text}\n````\n"


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let links to files of the project lead to their pages, and keep the page's first sentence for llms.txt."""
    here = page.file.src_uri
    up = "../" * here.count("/")

    def moved(found: re.Match[str]) -> str:
        to = (_origin(here).parent / found[1]).resolve()
        return f"{up}{_place(to)}" if to.is_relative_to(ROOT) and to.exists() else found[1]

    page.meta["sentence"] = _sentence(markdown)
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]  # its diagram needs the width
    return _LINK.sub(moved, markdown)


def _sentence(markdown: str) -> str:
    """Return the first sentence of a page, as plain text. Decisions begin with their status, which says little."""
    paragraphs = (each for each in markdown.split("\n\n") if not each.startswith(("#", "Status:")))
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", next(paragraphs, ""))
    return re.split(r"(?<=\.) (?=[A-Z])", " ".join(plain.split()))[0]


def on_page_content(html: str, **_: object) -> str:
    """Load the library for diagrams from this site, on the pages that have one, and let them be wider than a screen."""
    wide, diagrams = _DIAGRAM.subn(r'<div class="diagram">\g<0></div>', html)
    return wide + _DIAGRAMS if diagrams else html


def on_nav(nav: Navigation, config: MkDocsConfig, **_: object) -> None:
    """Keep the navigation for llms.txt."""
    config.extra["nav"] = nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt: what is here, for programs that read."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}. Version {VERSION}."]
    for door in config.extra["nav"]:
        if isinstance(door, Section):
            lines += ["", f"## {door.title}", ""]
            lines += [f"- [{page.title}]({page.url}): {page.meta['sentence']}" for page in _pages(door)]
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines) + "\n")


def _pages(section: Section) -> Iterator[Page]:
    for each in section.children:
        if isinstance(each, Page):
            yield each
        elif isinstance(each, Section):
            yield from _pages(each)


def build(config: Path, folder: Path) -> int:
    """Build a site, and return MkDocs' exit status. It counts only warnings that it prints: it must not be quiet."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)]
    known = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run([*command, "--site-dir", str(folder)], cwd=ROOT, env=known, check=False).returncode


def main(folder: Path) -> None:
    """Build the site of this version into a folder, beside those of other versions, as the tool mike lays them out."""
    if status := build(ROOT / "mkdocs.yml", folder / VERSION):
        sys.exit(status)
    found = sorted((path.parent.name for path in folder.glob("*/llms.txt")), key=_numbers, reverse=True)
    versions = [{"version": each, "title": each, "aliases": []} for each in found]
    (folder / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")
    (folder / "index.html").write_text(_REDIRECT.format(found[0]))


def _numbers(version: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", version)]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "dist" / "site")
