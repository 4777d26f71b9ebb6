"""Output of commands: results on standard output, everything else on standard error."""

import os
import sys
from datetime import UTC, datetime
from typing import Any, Literal

from rich.console import Console
from rich.progress import Progress, ProgressColumn
from rich.table import Table
from rich.text import Text

_WIDE = 250
_WHOLE = {"ID", "State", "Kind"}

_LINE_END = "\n"


def printable(text: str, also: str = "") -> str:
    """Return text without control characters, since it may come from anywhere."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c in also else "\ufffd" for c in text)


class _Printing(Console):
    """A console that prints only printable text, also in the cells of tables."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text, _LINE_END), **options)


out = _Printing() if sys.stdout.isatty() or "COLUMNS" in os.environ else _Printing(width=_WIDE)
err = _Printing(stderr=True, soft_wrap=True)

FAILED = 1
UNREACHABLE = 3

_SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STYLES = {
    "receiving": "cyan",
    "complete": "blue",
    "finished": "green",
    "queued": "cyan",
    "sending": "blue",
    "sent": "green",
    "expired": "yellow",
    "kept": "yellow",
    "failed": "red",
    "quarantined": "red",
    "deleted": "dim",
    "dismissed": "dim",
    "replayed": "dim",
}


class Failure(Exception):
    """An error for a command that cannot do what was asked: a sentence for people, and perhaps a hint."""

    def __init__(self, why: str, hint: str = "", code: int = FAILED) -> None:
        super().__init__(why)
        self.hint, self.code = hint, code


def size(bytes_: int | None) -> str:
    """Return a number of bytes for people."""
    if bytes_ is None:
        return "-"
    value, unit = float(bytes_), 0
    while value >= 1024 and unit < len(_SIZE_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{bytes_} B" if unit == 0 else f"{value:.1f} {_SIZE_UNITS[unit]}"


def time(text: str | None) -> str:
    """Return a time of the REST interface for people, in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if text else "-"


def state(word: str | None) -> str:
    """Return a state in its colour."""
    return f"[{_STYLES.get(word or '', 'default')}]{word or '-'}[/]"


def bars(*columns: ProgressColumn) -> Progress:
    """Return progress bars that disappear when they are done, and are not shown if standard error is no terminal."""
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def table(*columns: str) -> Table:
    """Return a table without lines, so that it can be copied; columns that begin with `>` are numbers."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        number = column.startswith(">")
        justify: Literal["left", "right"] = "right" if number else "left"
        grid.add_column(column.removeprefix(">"), justify=justify, overflow="fold", no_wrap=number or column in _WHOLE)
    return grid
