"""`get`: fetches content, goes on where an earlier try ended, and compares what came with its SHA-256."""

import hashlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from app.cli.client import DEFAULT_URL, Client, Url, connect
from app.cli.console import Failure, bars, err, size

_PIECE = 1 << 20
_WAIT_FOR = {
    "receiving": "it is still being received: {parts_received} of {parts_expected} parts are there",
    "complete": "all of it was received; it is being finished",
}


def get(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="The attachment's identifier.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Where to: a file, a folder, or - for standard output.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Fetch an attachment's content. What an interrupted fetch left in FILE.part is continued."""
    with connect(url) as client:
        attachment = find(client, identifier)
        _require_finished(attachment)
        if output == "-":
            return _to_stream(client, attachment, sys.stdout.buffer)
        target = _target(output, attachment["file_name"])
        fetch(client, attachment, target)
    err.print(f"{target}  {size(attachment['size'])}  sha256 {attachment['sha256']}", markup=False, highlight=False)
    return None


def find(client: Client, identifier: str) -> dict[str, Any]:
    """The attachment with this identifier. Raises Failure."""
    attachment: dict[str, Any] = client.get(f"attachments/{identifier}")
    return attachment


def fetch(client: Client, attachment: dict[str, Any], target: Path) -> None:
    """Content into a file, which appears when it is whole. Raises Failure when its bytes are not those announced."""
    part = target.with_name(target.name + ".part")
    digest = hashlib.sha256()
    have = 0
    try:
        if part.exists():
            with part.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256")
            have = part.stat().st_size
        if have > attachment["size"]:
            have, digest = 0, hashlib.sha256()
        with part.open("r+b" if have else "wb") as file:
            file.seek(have)
            if have < attachment["size"]:
                _receive(client, attachment, file, digest, have)
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != attachment["sha256"]:
            part.unlink()
            raise Failure(f"what came is not what was announced: its SHA-256 is {digest.hexdigest()}", "fetch it again")
        part.replace(target)
    except OSError as error:
        raise Failure(f"cannot write {target}: {error.strerror or error}") from error


def _receive(client: Client, attachment: dict[str, Any], file: BinaryIO, digest: Any, have: int) -> None:
    headers = {"If-Range": f'"{attachment["sha256"]}"', "Range": f"bytes={have}-"} if have else {}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with (
        client.stream(f"attachments/{attachment['id']}/content", headers) as response,
        bars(*columns) as progress,
    ):
        if have and response.status_code != 206:
            raise Failure(
                "the content has changed since it was begun", f"delete {getattr(file, 'name', 'the .part file')}"
            )
        bar = progress.add_task(attachment["file_name"], total=attachment["size"], completed=have)
        for piece in response.iter_raw(_PIECE):
            file.write(piece)
            digest.update(piece)
            progress.advance(bar, len(piece))


def _to_stream(client: Client, attachment: dict[str, Any], stream: BinaryIO) -> None:
    digest = hashlib.sha256()
    _receive(client, attachment, stream, digest, 0)
    stream.flush()
    if digest.hexdigest() != attachment["sha256"]:
        raise Failure(f"what came is not what was announced: its SHA-256 is {digest.hexdigest()}")


def _target(output: str | None, name: str) -> Path:
    """Where content goes. Names come from senders, so the gateway's safe one is cut to its last component once more."""
    safe = Path(name).name or "attachment"
    if output is None:
        return Path(safe)
    target = Path(output)
    return target / safe if target.is_dir() else target


def _require_finished(attachment: dict[str, Any]) -> None:
    state = attachment["state"]
    if state == "finished":
        return
    if state in _WAIT_FOR:
        progress = attachment["progress"] | {"parts_expected": attachment["progress"]["parts_expected"] or "?"}
        raise Failure(_WAIT_FOR[state].format(**progress), "attachment-gateway watch shows it arriving")
    reason = attachment["reason"]
    raise Failure(f"there is no content: it is {state}" + (f", {reason['text']}" if reason else ""))
