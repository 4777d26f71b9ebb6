"""The reference of the settings, made of gateway.toml: a page of what a process does, a page of what it connects to."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).with_name("gateway.toml")
_RULE: Final = "# --- "
_TABLE: Final = re.compile(r"(?:# )?(\[[\w.]+\])(?:\s+# (.*))?")
_KEY: Final = re.compile(r"(?:# )?(\w+|\[\[.*\]\])(?: = (.*?))?(?:\s+# (.*))?")
_MORE: Final = re.compile(r"\s+# (.*)|# (.*)")
_LINK: Final = re.compile(r"docs/([\w-]+\.md)(#[\w-]+)?")

_PROCESS: Final = """\
# Settings

For operators: every setting of a gateway. [Settings of sources, destinations and webhooks](settings-connections.md) has
what it connects to.

A value is the default. Where there is none, or where the setting is off by default, it is an example.
[gateway.toml](gateway.toml) has the same as a file, which `attachment-gateway config example` prints, and
`attachment-gateway config check --config FILE` lists the errors of one of your own. `ATTACHMENT_GATEWAY_CONFIG` names
the file for all commands that have this option.

- Environment variables take precedence over the file: `ATTACHMENT_GATEWAY_HTTP__PORT=8081` is `port` of `[http]`.
  A text is written as it is, without quotes, lists and tables as JSON: `ATTACHMENT_GATEWAY_ROLES='["receive"]'`.
- A value can be read from a file: `password_file = "…"` reads `password` from it. Credentials in files are
  [read again](operating.md#credentials-that-change) when they are used.
- Sizes are bytes, or texts such as `"64 MiB"`. Durations are seconds, or texts such as `"30s"`, `"1h30m"`, `"7d"`.

## The process

"""
_CONNECTIONS: Final = """\
# Settings of sources, destinations and webhooks

For operators: every setting of what a gateway receives from, sends to, and tells of its events.

Any number of tables `[sources.NAME]`, `[destinations.NAME]` and `[webhooks.NAME]` is allowed; the names here are
examples. A value is the default, or an example where there is none. [Settings](settings.md) has all others.
"""


def _text(text: str) -> str:
    """Return a comment as it can stand in a table, with links to the pages that it names."""
    linked = _LINK.sub(lambda found: f"[{_title(found[1])}]({found[1]}{found[2] or ''})", text)
    return re.sub(r"([*|<])", r"\\\1", " ".join(linked.split()))


def _title(page: str) -> str:
    return _FILE.with_name(page).read_text().partition("\n")[0].removeprefix("# ")


def _rows(lines: list[str]) -> Iterator[list[str]]:
    """Yield key, value and meaning of each setting; lines of comment continue the meaning before them."""
    row: list[str] | None = None
    for line in lines:
        if found := _KEY.fullmatch(line):
            if row:
                yield row
            row = [found[1], found[2] or "", found[3] or ""]
        elif (more := _MORE.fullmatch(line)) and more[1] and row:
            row[2] = f"{row[2]} {more[1]}"
        elif more:
            if row:
                yield row
            row = ["", "", more[1] or more[2]]
    if row:
        yield row


def _table(lines: list[str]) -> str:
    """Return the settings of some lines as a table."""
    head = "| key | value | meaning |\n|---|---|---|\n"
    coded = (
        [f"`{key}`" if key else "", f"`{value}`" if value else "", _text(told)] for key, value, told in _rows(lines)
    )
    return head + "".join(f"| {' | '.join(each)} |\n" for each in coded)


def _sections(lines: list[str]) -> Iterator[str]:
    """Yield each table of the file as a section."""
    begins = [number for number, line in enumerate(lines) if _TABLE.fullmatch(line)]
    yield _table(lines[: begins[0]])
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
        found = _TABLE.fullmatch(lines[begin])
        assert found is not None
        told = f"{found[2][0].upper()}{_text(found[2][1:])}.\n\n" if found[2] else ""
        yield f"\n## `{found[1]}`\n\n{told}{_table(lines[begin + 1 : end])}"


def page(*, of_connections: bool) -> str:
    """Return the page of the settings of the process, or that of what it connects to."""
    introduction, _, text = _FILE.read_text().partition("\n\n")
    assert introduction.startswith("#")
    process, rule, connections = text.partition(_RULE)
    if not of_connections:
        return _PROCESS + "".join(_sections(process.splitlines()))
    lines = [line for line in f"{rule}{connections}".splitlines() if not line.startswith(_RULE)]
    return _CONNECTIONS + "".join(_sections(lines)).replace("| key | value | meaning |\n|---|---|---|\n", "", 1)


def pages() -> dict[str, Callable[[], str]]:
    """Return both pages by their names, as functions that write them."""
    return {
        "settings.md": partial(page, of_connections=False),
        "settings-connections.md": partial(page, of_connections=True),
    }
