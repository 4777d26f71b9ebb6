"""Output of commands: results on standard output, everything else on standard error.

Errors of standard output itself end a command: with a sentence if the disk is full, quietly if a pipe is closed.
"""

import json
import os
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column, Table
from rich.text import Text

from app.model.masking import printable

_UNLIMITED = 1 << 16
_NARROW = 100
_WHOLE = {"ID", "State", "Kind"}

_LINE_END = "\n"


class _Printing(Console):
    """A console that prints only printable text, also in the cells of tables."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text, _LINE_END), **options)


out = _Printing() if sys.stdout.isatty() else _Printing(width=_UNLIMITED)
"""Standard output. Only the lines of a terminal have a width; files and pipes get everything in full."""

err = _Printing(stderr=True, soft_wrap=True)

FAILED = 1
WRONG_USAGE = 2
UNREACHABLE = 3
BROKEN_PIPE = 141
"""Exit statuses, which docs/cli.md lists. BROKEN_PIPE is the shell's status for a program that SIGPIPE ends."""

_SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STYLES = {
    "receiving": "cyan",
    "complete": "blue",
    "finished": "green",
    "queued": "cyan",
    "running": "cyan",
    "committed": "green",
    "interrupted": "red",
    "sending": "blue",
    "sent": "green",
    "expired": "yellow",
    "kept": "yellow",
    "failed": "red",
    "cancelled": "red",
    "quarantined": "red",
    "deleted": "dim",
    "dismissed": "dim",
    "replayed": "dim",
}


_TECHNICAL = re.compile(r"\[Errno -?\d+\] |\s*\n+Debug source:\n.*", re.DOTALL)
"""Parts of libraries' errors that do not help users: the number of an OSError, the debug text of obstore."""


class Failure(Exception):
    """An error for a command that cannot do what was asked: a sentence for people, and perhaps a hint."""

    def __init__(self, why: str, hint: str = "", code: int = FAILED) -> None:
        super().__init__(_TECHNICAL.sub("", why))
        self.hint, self.code = hint, code


def print_failure(failure: Failure, console: Console) -> None:
    """Print a failure and its hint."""
    console.print("[bold red]error:[/] ", end="")
    console.print(str(failure), markup=False, highlight=False)
    if failure.hint:
        console.print(failure.hint, style="dim", markup=False, highlight=False)


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]


def confirm(what: str, *, yes: bool) -> None:
    """Ask for confirmation, unless `yes`. Raises Failure when it is refused, or there is no terminal to ask."""
    if yes:
        return
    if not err.is_terminal:
        raise Failure(f"{what} Nothing was done: there is no terminal to ask for confirmation", "add --yes")
    if not typer.confirm(what, err=True):
        raise Failure("nothing was done")


def print_json(items: Iterable[Any]) -> None:
    """Print one JSON object per line."""
    for item in items:
        typer.echo(json.dumps(item, ensure_ascii=False))


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


class _Name(TextColumn):
    """The description of a bar: one line, cut where there is no room."""

    def __init__(self) -> None:
        super().__init__("{task.description}", table_column=Column())

    def render(self, task: Task) -> Text:
        text = super().render(task)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


def progress(console: Console, *columns: type[ProgressColumn], **options: Any) -> Progress:
    """Return progress bars that stay within the width: only descriptions are cut. Their texts have rich's markup."""
    bar = BarColumn(bar_width=max(8, min(40, console.width // 6)), table_column=Column(no_wrap=True))
    others = (column(table_column=Column(no_wrap=True)) for column in columns)
    return Progress(_Name(), bar, *others, console=console, **options)


def bars(*columns: type[ProgressColumn]) -> Progress:
    """Return progress bars that disappear when they are done, and are not shown if standard error is no terminal."""
    return progress(err, *columns, transient=True, disable=not err.is_terminal)


def is_narrow(console: Console) -> bool:
    """Return whether lines with whole identifiers and dates are too long for this console."""
    return console.width < _NARROW


def table(*columns: str) -> Table:
    """Return a table whose long cells take several lines, without borders, so that it can be copied.

    Columns that begin with `>` are numbers. `app.cli.line_tables` is for lists.
    """
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        number = column.startswith(">")
        justify: Literal["left", "right"] = "right" if number else "left"
        grid.add_column(column.removeprefix(">"), justify=justify, overflow="fold", no_wrap=number or column in _WHOLE)
    return grid


class _Output(FileIO):
    """The file descriptor of standard output. After an error, the content of buffers is discarded."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            self._discard()
            raise SystemExit(BROKEN_PIPE) from None
        except OSError as error:
            self._discard()
            raise Failure(f"cannot write to standard output: {error.strerror}") from error

    def _discard(self) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.close(null)


def guard_standard_output() -> None:
    """Replace `sys.stdout` by a standard output with these errors, unless it has been replaced or closed."""
    given = sys.stdout
    if given is not sys.__stdout__ or not isinstance(given, TextIOWrapper):
        return
    given.flush()
    output = BufferedWriter(_Output(given.fileno(), "wb", closefd=False))
    sys.stdout = TextIOWrapper(
        output, given.encoding, given.errors, line_buffering=given.line_buffering, write_through=given.write_through
    )


def facts(values: Iterable[tuple[str, str]]) -> Table:
    """Return a table without a heading: names, and values as plain text."""
    grid = table("", "")
    grid.show_header = False
    for name, value in values:
        grid.add_row(name, escape(value))
    return grid
