"""The demo's steps: send three attachments through a broker, watch them arrive, and compare the results."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow.parquet as pq
from attachment_gateway_client import Attachment
from rich.console import Console
from rich.progress import MofNCompleteColumn

from app.cli.get_command import fetch
from app.cli.rest_client import Client
from app.cli.send_command import post, readable
from app.cli.terminal import Failure, progress, size, table
from app.cli.watch_command import Bar, ProgressDisplay

if TYPE_CHECKING:
    from app.service.gateway import Gateway
import struct
import zlib

import pyarrow as pa

DESTINATION = "demo"
MESSAGE = "This is the actual application message."
_DEADLINE_SECONDS = 60
_POLL_SECONDS = 0.1

T = TypeVar("T")


class Comparison(NamedTuple):
    """One attachment that was sent and received."""

    attachment: Attachment
    equal: bool
    how: str


class DemoContext(NamedTuple):
    """The demo's gateway, a client of it, the folder for the files, and where steps are shown."""

    client: Client
    gateway: "Gateway"
    folder: Path
    console: Console


def run_steps(stage: DemoContext) -> list[Comparison]:
    """Run all steps. Raises Failure when nothing arrives in time."""
    client, _, folder, console = stage
    _eventually(stage, "the gateway to be ready", lambda: stage.gateway.health().ready or None)
    sent = write_files(folder)
    for path in sent:
        console.print(f"  sending [bold]{path.name}[/], {size(path.stat().st_size)}", highlight=False)
    outgoing = [readable(path) for path in sent]
    delivery = post(client, DESTINATION, outgoing, description="sent by the demo", message=MESSAGE)
    attachments = _arrival(stage, delivery, len(sent))
    received = folder / "received"
    received.mkdir(exist_ok=True)
    return [_compare(client, path, attachment, received) for path, attachment in zip(sent, attachments, strict=True)]


def report(results: list[Comparison], console: Console) -> None:
    """Print the results as a table. Raises Failure when anything differs."""
    grid = table("Attachment", "Kind", ">Size", "SHA-256", "Sent and received")
    for attachment, equal, how in results:
        verdict = f"[green]equal[/], {how}" if equal else f"[red]different[/], {how}"
        digest = (attachment["sha256"] or "")[:16] + "…"
        grid.add_row(attachment["name"], attachment["kind"], size(attachment["size"]), digest, verdict)
    console.print(grid)
    if not all(result.equal for result in results):
        raise Failure("the received attachments differ from those sent")


def _eventually(stage: DemoContext, what: str, look: Callable[[], T | None]) -> T:
    """Return the result of `look` as soon as it finds something.

    Raises Failure when it finds nothing for a minute, with the gateway's checks that failed; at once when the gateway
    does not receive.
    """
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while (found := look()) is None:
        checks = stage.gateway.health().checks
        if holding := checks["journal"]["holding"]:
            raise Failure(f"the demo's gateway does not receive: {holding}")
        if time.monotonic() > deadline:
            failed = "; ".join(f"{name}: {check}" for name, check in checks.items() if not check["ok"])
            raise Failure(f"waited {_DEADLINE_SECONDS} seconds for {what}", failed)
        time.sleep(_POLL_SECONDS)
    return found


def _arrival(stage: DemoContext, delivery: dict[str, Any], count: int) -> list[Attachment]:
    """Show the attachments arriving, and return them when finished, in the message's order."""
    with progress(stage.console, MofNCompleteColumn) as bars:
        board = ProgressDisplay(bars)

        def look() -> list[Attachment] | None:
            header = delivery["header_correl_id"]
            message = next((each for each in stage.client.messages(20) if each["header_correl_id"] == header), None)
            found = [stage.client.attachment(identifier) for identifier in message["attachments"]] if message else []
            shown: dict[str, Bar] = {}
            for item in found:
                name, parts = item["name"] or item["correl_id"], item["progress"]
                text = f"  {item['state']:9} {name}"
                shown[item["id"]] = (text, parts["parts_received"], parts["parts_expected"])
            board.show(shown)
            done = len(found) == count and all(item["state"] == "finished" for item in found)
            return found if done else None

        return _eventually(stage, "the attachments to arrive", look)


def _compare(client: Client, sent: Path, attachment: Attachment, folder: Path) -> Comparison:
    received = folder / sent.name
    fetch(client, attachment, received)
    if attachment["kind"] != "data-set":
        return Comparison(attachment, sent.read_bytes() == received.read_bytes(), "byte for byte")
    ours, theirs = pq.read_table(sent), pq.read_table(received)
    names = ours.column_names
    equal = theirs.column_names[: len(names)] == names and ours.to_pylist() == theirs.select(names).to_pylist()
    return Comparison(attachment, equal, f"{theirs.num_rows:,} rows")


WIDTH, HEIGHT = 480, 320
_ROWS = 20_000
_TEXT = """\
The attachment gateway

A message can carry attachments, as an e-mail does: files and SAS data sets. On a queue each of them is a header and
many small messages. The gateway puts them together again, and offers them by REST as what they are.

Größe, señor, čeština, Ελληνικά, 日本語: text keeps its characters.
"""


def write_files(folder: Path) -> tuple[Path, Path, Path]:
    """Write the three files into a folder: text, picture and data set (Parquet)."""
    text, picture, table = folder / "welcome.txt", folder / "picture.png", folder / "stations.parquet"
    text.write_text(_TEXT, encoding="utf-8")
    picture.write_bytes(png())
    pq.write_table(data_set(), table)
    return text, picture, table


def png() -> bytes:
    """Return a picture with a gradient and rings, as a PNG file (RFC 2083) of 8-bit RGB."""
    pixels = bytearray()
    for y in range(HEIGHT):
        pixels.append(0)
        for x in range(WIDTH):
            distance = (x - WIDTH // 2) ** 2 + (y - HEIGHT // 2) ** 2
            ring = 255 if distance // 400 % 7 == 0 else 0
            pixels += bytes((x * 255 // WIDTH, y * 255 // HEIGHT, ring))
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(bytes(pixels), 6)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def data_set() -> pa.Table:
    """Return measurements of weather stations: character values, and numbers of which some are missing."""
    names = ["Łódź", "Malmö", "Córdoba", "Graz", "Oulu"]
    columns = {
        "STATION": pa.array([names[row % len(names)] for row in range(_ROWS)]),
        "HOUR": pa.array([float(row // len(names)) for row in range(_ROWS)]),
        "CELSIUS": pa.array([None if row % 97 == 0 else (row * 37 % 600) / 10 - 20 for row in range(_ROWS)]),
    }
    return pa.table(columns)
