"""`send`: send files to a destination, streamed."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Annotated, Any, BinaryIO

import typer
from rich.markup import escape
from rich.progress import DownloadColumn, MofNCompleteColumn, TransferSpeedColumn

from app.cli import data_sets
from app.cli.client import DEFAULT_URL, Client, Url, connect
from app.cli.console import Failure, bars, err
from app.cli.listing import SUBSCRIBERS, KindWord

_MEDIA_TYPE = "application/octet-stream"
_DATA_SET = re.compile(r"[^.]+\.[^.]+")
_KINDS = [kind.value for kind in KindWord]
_LOOK_SECONDS = 0.2
_INPUT = Path("-")


class Outgoing:
    """One file to send.

    `kind` is the word for an attachment kind, None for the gateway to recognise it. `name` is a data set's
    `LIBRARY.MEMBER`, `wanted` the options of a data set.
    """

    def __init__(
        self, path: Path, kind: str | None = None, name: str | None = None, wanted: dict[str, Any] | None = None
    ) -> None:
        self.path = path
        self._kind, self._name, self._wanted = kind, name, wanted or {}

    def entry(self, part: str, beside: Iterable[str] = ()) -> dict[str, Any]:
        """Return its entry in the description of the message; `beside` are parts that describe data sets."""
        wanted = self._wanted | {word: word for word in beside}
        if self._kind is None:
            return {"part": part} | ({"data_set": wanted} if wanted else {})
        if self._kind != "data-set":
            return {"part": part, "kind": self._kind, "name": self.path.name}
        return {"part": part, "kind": self._kind, "name": self._name, "data_set": wanted}


def send(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="The files; - is standard input.")],
    to: Annotated[str, typer.Option("--to", help="The destination's name.")],
    *,
    as_: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="KIND|LIBRARY.MEMBER",
            help=f"Send as this kind ({', '.join(_KINDS)}), or as a data set of this name. Default: by content.",
        ),
    ] = None,
    input_name: Annotated[
        str, typer.Option("--name", help="Name of the file that standard input is sent as.")
    ] = "stdin",
    description: Annotated[str, typer.Option(help="The attachments' description.")] = "",
    message: Annotated[str | None, typer.Option(help="Text of the application message.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: repeated requests with it send only one message.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the broker has confirmed all messages.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be sent, with every variable of data sets; send nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (only with --dry-run).")] = False,
    formats: data_sets.Formats = None,
    informats: data_sets.Informats = None,
    lengths: data_sets.Lengths = None,
    labels: data_sets.Labels = None,
    types: data_sets.Types = None,
    renames: data_sets.Renames = None,
    file_format: data_sets.FileFormat = None,
    encoding: data_sets.Encoding = None,
    delimiter: data_sets.Delimiter = None,
    decimal: data_sets.Decimal = None,
    missing: data_sets.MissingAs = None,
    names: data_sets.NameRule = None,
    member: data_sets.Member = None,
    title: data_sets.Title = None,
    catalog: data_sets.Catalog = None,
    define: data_sets.Define = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Send files as the attachments of one message.

    A data set may be a file of CSV, Parquet, Arrow, NDJSON, Dataset-JSON, SAS transport format or sas7bdat:

    send --as WORK.SALES --format DT=DATE9. --length C=40 --label "X=Amount in EUR" sales.csv --to DEST --dry-run
    """
    wanted = data_sets.wanted(
        {
            "format": formats,
            "informat": informats,
            "length": lengths,
            "label": labels,
            "type": types,
            "name": renames,
        },
        format=file_format,
        encoding=encoding,
        delimiter=delimiter,
        decimal=decimal,
        missing=missing,
        names=names,
        member=member,
        label=title,
    )
    beside = {word: path for word, path in (("catalog", catalog), ("define", define)) if path is not None}
    kind, name = _meaning(as_, files, wanted)
    if beside and kind not in (None, "data-set"):
        raise Failure(f"--{min(beside)} describes data sets, not a {kind}", "leave --as out, or give --as data-set")
    with connect(url) as client, ExitStack() as stack:
        outgoing = [Outgoing(path, kind, name, wanted) for path in _with_input(files, input_name, stack)]
        if dry_run:
            rehearsal = post(
                client, to, outgoing, description=description, message=message, dry_run=True, beside=beside
            )
            return typer.echo(json.dumps(rehearsal)) if as_json else data_sets.show(rehearsal)
        delivery = post(client, to, outgoing, description=description, message=message, key=key, beside=beside)
        err.print(f"delivery {delivery['id']} to {to} is {delivery['state']}", highlight=False)
        if wait:
            delivery = follow(client, delivery)
            told = SUBSCRIBERS.get(delivery["subscribers"])
            err.print(f"sent: {delivery['messages_sent']} messages" + (f" ({told})" if told else ""), highlight=False)
    return typer.echo(delivery["id"])


def _with_input(files: list[Path], name: str, stack: ExitStack) -> list[Path]:
    """Return the files, with one of all that standard input brings in place of `-`. Raises Failure.

    The gateway must know a file's size before its content, so standard input is read to its end first.
    """
    if _INPUT not in files:
        return files
    if files.count(_INPUT) > 1:
        raise Failure("standard input can be sent only once")
    if name in ("", ".", "..") or "/" in name:
        raise Failure(f"--name {name!r} is not the name of a file")
    spooled = Path(stack.enter_context(TemporaryDirectory(prefix="attachment-gateway-"))) / name
    try:
        with spooled.open("wb") as file:
            copyfileobj(sys.stdin.buffer, file)
    except OSError as error:
        raise Failure(f"cannot keep standard input in {spooled}: {error.strerror}") from error
    return [spooled if path == _INPUT else path for path in files]


def _meaning(said: str | None, files: list[Path], wanted: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the kind, and the name of a data set, that `--as` stands for. Raises Failure."""
    if said is None or said in _KINDS:
        kind = said or ("data-set" if wanted else None)
        if wanted and kind != "data-set":
            raise Failure(f"a {kind} has no variables", "formats, lengths, labels and the like are only for data sets")
        return kind, None
    if not _DATA_SET.fullmatch(said):
        raise Failure(
            f"--as {said!r} is neither a kind nor a name", f"write {', '.join(_KINDS)}, or a name such as WORK.SALES"
        )
    if len(files) > 1:
        raise Failure(f"--as {said} names one data set, but there are {len(files)} files")
    return "data-set", said


def post(
    client: Client,
    to: str,
    outgoing: list[Outgoing],
    *,
    description: str = "",
    message: str | None = None,
    key: str | None = None,
    dry_run: bool = False,
    beside: Mapping[str, Path] = MappingProxyType({}),
) -> dict[str, Any]:
    """Send a message with these attachments, with a progress bar.

    `beside` are files that describe the data sets: `catalog`, `define`.

    Return its delivery, or the dry run. Raises Failure.
    """
    draft: dict[str, Any] = {
        "destination": to,
        "description": description,
        "attachments": [file.entry(f"file-{number}", beside) for number, file in enumerate(outgoing)],
    }
    if message is not None:
        draft["application_message"] = {"text": message}
    with ExitStack() as stack, bars(DownloadColumn, TransferSpeedColumn) as progress:
        parts: list[tuple[str, Any]] = [("message", (None, json.dumps(draft), "application/json"))]
        for number, file in enumerate(outgoing):
            total = file.path.stat().st_size if file.path.exists() else None
            bar = progress.add_task(escape(file.path.name), total=total)
            source = _Counted(stack.enter_context(_reading(file.path)), partial(progress.advance, bar))
            parts.append((f"file-{number}", (file.path.name, source, _MEDIA_TYPE)))
        for word, path in beside.items():
            parts.append((word, (path.name, stack.enter_context(_reading(path)), _MEDIA_TYPE)))
        headers = {"Idempotency-Key": key} if key else {}
        parameters = {"dry_run": "true"} if dry_run else {}
        answer: dict[str, Any] = client.request(
            "POST", "messages", files=parts, headers=headers, params=parameters
        ).json()
        return answer


def follow(client: Client, delivery: dict[str, Any]) -> dict[str, Any]:
    """Wait, with a progress bar, until a delivery is sent. Raises Failure when it has failed."""
    with bars(MofNCompleteColumn) as progress:
        bar = progress.add_task("sending", total=None)
        while delivery["state"] in {"queued", "sending"}:
            text = f"sending ({escape(delivery['reason'])})" if delivery["reason"] else "sending"
            progress.update(
                bar, description=text, completed=delivery["messages_sent"], total=delivery["messages_total"]
            )
            time.sleep(_LOOK_SECONDS)
            delivery = client.get(f"deliveries/{delivery['id']}")
    if delivery["state"] == "failed":
        raise Failure(f"delivery {delivery['id']} has failed: {delivery['reason']}")
    if delivery["state"] == "cancelled":
        raise Failure(f"delivery {delivery['id']} was cancelled")
    return delivery


class _Counted:
    """A file that reports how much of it was read."""

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
