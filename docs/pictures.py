"""Pictures of the command line for docs/cli.md, drawn by the functions that commands print with."""

from collections.abc import Callable, Iterator
from io import StringIO
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.progress import MofNCompleteColumn, TimeElapsedColumn
from rich.terminal_theme import MONOKAI

from app.cli.command_files import require_folder
from app.cli.config_command import read
from app.cli.list_commands import attachment_list
from app.cli.terminal import Failure, print_failure, progress, state
from app.cli.trace_command import frame_lines
from app.cli.watch_command import ProgressDisplay
from app.codecs.sas.attachment_messages import AttachmentEntry, AttachmentHeader
from app.trace import explain

COLUMNS = (80, 60)

_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""

_WHY = "AttachmentHeader.attachments[0].description at byte 143: the text has no end"


def _attachment(digits: str, name: str, received: str, size: int | None, **changes: Any) -> dict[str, Any]:
    item: dict[str, Any] = {
        "id": f"{digits:0<32}",
        "state": "finished",
        "kind": "binary-file",
        "name": name,
        "size": size,
        "source": "orders",
        "first_received_at": f"2026-11-22T{received}+00:00",
        "reason": None,
        "observations": None,
        "description": "",
        "warnings_count": 0,
        "progress": {"bytes_received": 0, "parts_received": 0, "parts_expected": None},
    }
    return item | changes


ATTACHMENTS = [
    _attachment(
        "b7c8430e",
        "film-of-the-plant-in-Oulu.mp4",
        "08:14:02",
        None,
        state="receiving",
        progress={"bytes_received": 61_472_000, "parts_received": 1921, "parts_expected": 5300},
    ),
    _attachment("9f2c4b1e", "STATIONS", "08:13:58", 9_523, kind="data-set", observations=20_000),
    _attachment("15d0a977", "picture.png", "08:13:57", 143_974, description="sent by the demo"),
    _attachment("e2a06f3b", "", "08:11:40", 640, state="quarantined", kind=None, reason={"text": _WHY}),
]
"""What the picture of `ls` shows: attachments as REST describes them."""

EVENTS: list[dict[str, Any]] = [
    {
        "type": "attachment.finished",
        "subject": ATTACHMENTS[1]["id"],
        "time": "2026-11-22T08:13:59+00:00",
        "data": {"name": "STATIONS", "size": 9_523},
    },
    {
        "type": "message.quarantined",
        "subject": "0000000100002000",
        "time": "2026-11-22T08:14:01+00:00",
        "data": {"source": "orders", "why": _WHY},
    },
]


def _ls(console: Console) -> None:
    console.print(attachment_list(ATTACHMENTS))


def _watch(console: Console) -> None:
    now = iter((0.0, 0.0))
    bars = progress(console, MofNCompleteColumn, TimeElapsedColumn, get_time=lambda: next(now, 12.0))
    board = ProgressDisplay(bars)
    for event in EVENTS:
        board.say(event)
    board.show(
        {
            "a": ("[cyan]receiving[/] film-of-the-plant-in-Oulu.mp4", 1921, 5300),
            "b": (f"{state('sending')} quarterly-figures.xlsx [dim]to partner[/]", 12, 47),
        }
    )
    console.print(bars.get_renderable())


def _trace(console: Console) -> None:
    entry = AttachmentEntry(1, b"\1" * 24, "WORK", "STATIONS", "weather stations", 0, 1)
    body = AttachmentHeader(b"\x9f" * 24, 8, bytes(24), bytes(24), 1, [entry]).encode()
    for frame in explain(body, "sas-attachment-header"):
        for line in frame_lines(frame, 0, console.width):
            console.print(line, markup=False, highlight=False)


def _errors(console: Console) -> None:
    for failure in _failures():
        print_failure(failure, console)
        console.print()


def _failures() -> Iterator[Failure]:
    """Yield the failures of commands that cannot do what they are asked."""
    with TemporaryDirectory() as folder:
        wrong = Path(folder) / "gateway.toml"
        wrong.write_text('[http]\nport = 99999\n[sources.orders]\ntransport = "mqtt"\nurl = "mqtt://broker"\n')
        for command in (lambda: read(wrong), lambda: require_folder("archive/tables")):
            try:
                command()
            except Failure as failure:
                yield failure


PICTURES: dict[str, tuple[str, Callable[[Console], None]]] = {
    "ls": ("attachment-gateway ls", _ls),
    "watch": ("attachment-gateway watch", _watch),
    "trace": ("attachment-gateway trace header.bin --as sas-attachment-header", _trace),
    "errors": ("errors", _errors),
}


def drawn(name: str, columns: int) -> str:
    """Return a picture of a terminal of this width, as SVG."""
    title, draw = PICTURES[name]
    console = Console(
        record=True,
        width=columns,
        file=StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        _environ={},
    )
    draw(console)
    return console.export_svg(title=title, theme=MONOKAI, code_format=_SVG, unique_id=f"{name}-{columns}")


def pages() -> dict[str, Callable[[], str]]:
    """Return all pictures by their paths, as functions that draw them."""

    def drawing(name: str, columns: int) -> Callable[[], str]:
        return lambda: drawn(name, columns)

    return {f"pictures/{name}-{columns}.svg": drawing(name, columns) for name, columns in product(PICTURES, COLUMNS)}
