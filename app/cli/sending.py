"""`send`: files to a destination, streamed."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, TextColumn, TransferSpeedColumn

from app.cli.client import DEFAULT_URL, Client, Url, connect
from app.cli.console import Failure, bars, err
from app.cli.listing import KindWord

_LOOKED_AT = 1 << 16
_PARQUET = b"PAR1"
_MEDIA_TYPES = {
    "data-set": "application/vnd.apache.parquet",
    "text-file": "text/plain; charset=utf-8",
    "binary-file": "application/octet-stream",
}
_NOT_IN_A_MEMBER = re.compile(r"[^A-Z0-9_]")
_LONGEST_MEMBER = 32
_LOOK_SECONDS = 0.2


class Outgoing:
    """One file as it is sent: `kind` is an attachment kind's word."""

    def __init__(self, path: Path, kind: str | None = None, library: str = "WORK") -> None:
        self.path, self.kind, self.library = path, kind or guess(path), library

    def entry(self, part: str) -> dict[str, Any]:
        """What the description of a message says of it."""
        if self.kind == "data-set":
            member = _NOT_IN_A_MEMBER.sub("_", self.path.stem.upper())[:_LONGEST_MEMBER]
            return {"part": part, "kind": self.kind, "name": member, "qualifier_1": self.library}
        return {"part": part, "kind": self.kind, "name": self.path.name}


def send(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files; data sets as Parquet.")],
    to: Annotated[str, typer.Option("--to", help="The destination's name.")],
    *,
    kind: Annotated[KindWord | None, typer.Option("--as", help="What they are; else their content tells.")] = None,
    description: Annotated[str, typer.Option(help="The attachments' description.")] = "",
    message: Annotated[str | None, typer.Option(help="Text of the application message.")] = None,
    library: Annotated[str, typer.Option(help="The library that data sets are said to come from.")] = "WORK",
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: however often it is used, one message is sent.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the broker has confirmed all of it.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Send files as the attachments of one message."""
    with connect(url) as client:
        outgoing = [Outgoing(path, kind, library) for path in files]
        delivery = post(client, to, outgoing, description=description, message=message, key=key)
        err.print(f"delivery {delivery['id']} to {to} is {delivery['state']}", highlight=False)
        if wait:
            delivery = follow(client, delivery)
            err.print(f"sent: {delivery['messages_sent']} messages", highlight=False)
    typer.echo(delivery["id"])


def guess(path: Path) -> str:
    """What a file is by its beginning: Parquet, text in UTF-8, or neither. Raises Failure."""
    with _reading(path) as file:
        head = file.read(_LOOKED_AT)
    if head.startswith(_PARQUET):
        return "data-set"
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3 or len(head) < _LOOKED_AT:
            return "binary-file"
    return "binary-file" if b"\0" in head else "text-file"


def post(
    client: Client,
    to: str,
    outgoing: list[Outgoing],
    *,
    description: str = "",
    message: str | None = None,
    key: str | None = None,
) -> dict[str, Any]:
    """Sends a message with these attachments, with a progress bar, and returns its delivery. Raises Failure."""
    draft: dict[str, Any] = {
        "destination": to,
        "description": description,
        "attachments": [file.entry(f"file-{number}") for number, file in enumerate(outgoing)],
    }
    if message is not None:
        draft["application_message"] = {"text": message}
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with ExitStack() as stack, bars(*columns) as progress:
        parts: list[tuple[str, Any]] = [("message", (None, json.dumps(draft), "application/json"))]
        for number, file in enumerate(outgoing):
            bar = progress.add_task(file.path.name, total=file.path.stat().st_size if file.path.exists() else None)
            source = _Counted(stack.enter_context(_reading(file.path)), partial(progress.advance, bar))
            parts.append((f"file-{number}", (file.path.name, source, _MEDIA_TYPES[file.kind])))
        headers = {"Idempotency-Key": key} if key else {}
        delivery: dict[str, Any] = client.request("POST", "messages", files=parts, headers=headers).json()
        return delivery


def follow(client: Client, delivery: dict[str, Any]) -> dict[str, Any]:
    """Waits, with a progress bar, until a delivery is sent. Raises Failure when it has failed."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with bars(*columns) as progress:
        bar = progress.add_task("sending", total=None)
        while delivery["state"] in {"queued", "sending"}:
            text = f"sending ({delivery['reason']})" if delivery["reason"] else "sending"
            progress.update(
                bar, description=text, completed=delivery["messages_sent"], total=delivery["messages_total"]
            )
            time.sleep(_LOOK_SECONDS)
            delivery = client.get(f"deliveries/{delivery['id']}")
    if delivery["state"] == "failed":
        raise Failure(f"delivery {delivery['id']} has failed: {delivery['reason']}")
    return delivery


class _Counted:
    """A file that tells how much of it was read."""

    def __init__(self, file: BinaryIO, tell: Callable[[int], None]) -> None:
        self._file, self._tell = file, tell
        self.fileno, self.seek, self.tell = file.fileno, file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._tell(len(data))
        return data


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    with file:
        yield file
