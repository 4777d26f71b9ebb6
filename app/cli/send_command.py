"""`send`: send files to a destination, streamed."""

import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Annotated, Any, BinaryIO

import typer
from attachment_gateway_client import File
from rich.markup import escape
from rich.progress import DownloadColumn, MofNCompleteColumn, TransferSpeedColumn

from app.cli.line_tables import ListColumn, ListTable
from app.cli.list_commands import SUBSCRIBERS, KindWord
from app.cli.rest_client import DEFAULT_URL, Client, Url, connect
from app.cli.terminal import Failure, bars, err, out, print_json

MissingCells = StrEnum("MissingCells", {"NULL": "null", "TAG": "tag"})
NameHandling = StrEnum("NameHandling", {"STRICT": "strict", "LITERAL": "literal", "RENAME": "rename"})

_PANEL = "Data sets"
_VARIABLES = (
    ListColumn("#", is_number=True),
    ListColumn("Variable", least=12),
    ListColumn("Type", order=1),
    ListColumn("Length", is_number=True, order=2),
    ListColumn("Format"),
    ListColumn("Informat", order=5),
    ListColumn("Label", least=10, order=4),
    ListColumn("Column", least=8, order=3),
    ListColumn("From", least=10, order=6),
)


def _option(*names: str, help_: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help_, metavar=metavar, rich_help_panel=_PANEL)


def _per_column(name: str, value: str, help_: str) -> Any:
    return _option(name, help_=f"{help_}; may be repeated.", metavar=f"COLUMN={value}")


Formats = Annotated[list[str] | None, _per_column("--format", "FORMAT", "A variable's format, such as DT=DATE9.")]
Informats = Annotated[list[str] | None, _per_column("--informat", "FORMAT", "A variable's informat")]
Lengths = Annotated[list[str] | None, _per_column("--length", "BYTES", "A variable's length")]
Labels = Annotated[list[str] | None, _per_column("--label", "TEXT", "A variable's label")]
Types = Annotated[list[str] | None, _per_column("--type", "TYPE", "numeric; or character, to keep 007 unchanged")]
Renames = Annotated[list[str] | None, _per_column("--rename", "NAME", "The variable name for a column")]
FileFormat = Annotated[str | None, _option("--file-format", help_="Format of the file: csv, parquet, xpt ...")]
Encoding = Annotated[str | None, _option("--encoding", help_="Character set of a CSV, transport or sas7bdat file.")]
Delimiter = Annotated[str | None, _option("--delimiter", help_="Separator of a CSV file's cells.")]
Decimal = Annotated[str | None, _option("--decimal", help_="Decimal separator of CSV numbers.")]
MissingAs = Annotated[MissingCells | None, _option("--missing", help_="tag: CSV cells such as .A are missing values.")]
NameRule = Annotated[NameHandling | None, _option("--names", help_="Handling of names that SAS does not accept.")]
Member = Annotated[str | None, _option("--member", help_="Name of the data set, if a transport file has several.")]
Catalog = Annotated[
    Path | None, _option("--catalog", help_="Value labels: a sas7bcat, or a data set of CNTLOUT=.", metavar="FILE")
]
Define = Annotated[Path | None, _option("--define", help_="A define.xml that describes the data sets.", metavar="FILE")]
Title = Annotated[str | None, _option("--title", help_="The data set's label.")]


def requested_options(per_column: dict[str, list[str] | None], **whole: Any) -> dict[str, Any]:
    """Return the options of the command line for data sets.

    `per_column` has for each attribute the settings for columns, such as `DT=DATE9.` Raises Failure.
    """
    variables: dict[str, dict[str, Any]] = {}
    for attribute, settings in per_column.items():
        for each in settings or []:
            column, mark, value = each.partition("=")
            if not mark or not column:
                option = "rename" if attribute == "name" else attribute
                raise Failure(f"--{option} {each!r} names no column", f"write for example --{option} COLUMN=VALUE")
            try:
                variables.setdefault(column, {})[attribute] = int(value) if attribute == "length" else value
            except ValueError:
                raise Failure(f"--length {each!r}: {value!r} is not a number of bytes") from None
    found = {key: value for key, value in whole.items() if value is not None}
    return found | ({"variables": variables} if variables else {})


def show_dry_run(plan: dict[str, Any]) -> None:
    """Print what would be sent as tables on standard output; warnings go to standard error."""
    for attachment in plan["attachments"]:
        data_set = attachment.get("data_set")
        if data_set is None:
            out.print(f"{escape(attachment['name'])} ({attachment['kind']}): {attachment['messages']:,} messages")
            continue
        name = escape(f"{data_set['library']}.{data_set['member']}")
        rows, messages = f"{data_set['observations']:,}", f"{attachment['messages']:,}"
        label = f" ({escape(data_set['label'])})" if data_set["label"] else ""
        out.print(f"[bold]{name}[/]{label} of {data_set['format']}: {rows} observations, {messages} messages")
        out.print(_variables(data_set["variables"]))
        if data_set["value_labels"]:
            counts = ", ".join(f"{name}. {count:,}" for name, count in data_set["value_labels"].items())
            out.print(f"value labels: {escape(counts)}")
        for warning in data_set["warnings"]:
            err.print("[yellow]warning:[/] ", end="")
            err.print(warning["detail"], markup=False, highlight=False)
    out.print(f"{plan['messages']:,} messages to {escape(plan['destination'])}; nothing was sent")


def _variables(variables: Iterable[dict[str, Any]]) -> ListTable:
    grid = ListTable(_VARIABLES)
    for number, variable in enumerate(variables, 1):
        origins = []
        for word in ("given", "file"):
            of_word = [key for key, origin in variable["origins"].items() if origin == word and key != "name"]
            origins += [f"{word}: {', '.join(of_word)}"] if of_word else []
        grid.add_row(
            str(number),
            escape(variable["name"]),
            variable["type"],
            str(variable["length"]),
            escape(variable["format"]),
            escape(variable["informat"]),
            escape(variable["label"]),
            escape(variable["column"] if variable["column"] != variable["name"] else ""),
            "; ".join(origins) or "inferred",
        )
    return grid


_DATA_SET = re.compile(r"[^.]+\.[^.]+")
_KINDS = [kind.value for kind in KindWord]
_POLL_SECONDS = 0.2
_INPUT = Path("-")


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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the delivery, or with --dry-run what would be sent, as JSON.")
    ] = False,
    formats: Formats = None,
    informats: Informats = None,
    lengths: Lengths = None,
    labels: Labels = None,
    types: Types = None,
    renames: Renames = None,
    file_format: FileFormat = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    missing: MissingAs = None,
    names: NameRule = None,
    member: Member = None,
    title: Title = None,
    catalog: Catalog = None,
    define: Define = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Send files as the attachments of one message.

    A data set may be a file of CSV, Parquet, Arrow, NDJSON, Dataset-JSON, SAS transport format or sas7bdat:

    send --as WORK.SALES --format DT=DATE9. --length C=40 --label "X=Amount in EUR" sales.csv --to DEST --dry-run
    """
    wanted = requested_options(
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
    descriptions = {word: path for word, path in (("catalog", catalog), ("define", define)) if path is not None}
    kind, name = _kind_and_name(as_, files, wanted)
    if descriptions and kind not in (None, "data-set"):
        raise Failure(f"--{min(descriptions)} describes data sets, not a {kind}", "omit --as, or give --as data-set")
    with connect(url) as client, ExitStack() as stack:
        more = wanted | {word: word for word in descriptions}
        outgoing = [readable(path, kind, name, more) for path in _as_files(files, input_name, stack)]
        if dry_run:
            plan = post(
                client, to, outgoing, description=description, message=message, dry_run=True, descriptions=descriptions
            )
            return print_json([plan]) if as_json else show_dry_run(plan)
        delivery = post(
            client, to, outgoing, description=description, message=message, key=key, descriptions=descriptions
        )
        err.print(f"delivery {delivery['id']} to {to} is {delivery['state']}", highlight=False)
        if wait:
            delivery = wait_until_sent(client, delivery)
            subscribers = SUBSCRIBERS.get(delivery["subscribers"])
            err.print(
                f"sent: {delivery['messages_sent']} messages" + (f" ({subscribers})" if subscribers else ""),
                highlight=False,
            )
    return print_json([delivery]) if as_json else typer.echo(delivery["id"])


def _as_files(files: list[Path], name: str, stack: ExitStack) -> list[Path]:
    """Return the files. Standard input and pipes are replaced by temporary files with their content. Raises Failure.

    The gateway must know a file's size before its content, so inputs without a size are read to their end first.
    """
    if files.count(_INPUT) > 1:
        raise Failure("standard input can be sent only once")
    if _INPUT in files and (name in ("", ".", "..") or "/" in name):
        raise Failure(f"--name {name!r} is not the name of a file")
    return [_regular(path, name, stack) for path in files]


def _regular(path: Path, name: str, stack: ExitStack) -> Path:
    if path != _INPUT and not (path.is_fifo() or path.is_char_device()):
        return path
    name = name if path == _INPUT else path.name
    kept = Path(stack.enter_context(TemporaryDirectory(prefix="attachment-gateway-"))) / name
    with reading(path) if path != _INPUT else nullcontext(sys.stdin.buffer) as source:
        try:
            with kept.open("wb") as file:
                copyfileobj(source, file)
        except OSError as error:
            what = "standard input" if path == _INPUT else str(path)
            raise Failure(f"cannot keep {what} in {kept}: {error.strerror}") from error
    return kept


def _kind_and_name(given: str | None, files: list[Path], wanted: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the kind, and the name of a data set, that `--as` stands for. Raises Failure."""
    if given is None or given in _KINDS:
        kind = given or ("data-set" if wanted else None)
        if wanted and kind != "data-set":
            raise Failure(f"a {kind} has no variables", "formats, lengths, labels and the like are only for data sets")
        return kind, None
    if not _DATA_SET.fullmatch(given):
        raise Failure(
            f"--as {given!r} is neither a kind nor a name", f"write {', '.join(_KINDS)}, or a name such as WORK.SALES"
        )
    if len(files) > 1:
        raise Failure(f"--as {given} names one data set, but there are {len(files)} files")
    return "data-set", given


def post(
    client: Client,
    to: str,
    files: Sequence[File],
    *,
    description: str = "",
    message: str | None = None,
    key: str | None = None,
    dry_run: bool = False,
    descriptions: Mapping[str, Path] = MappingProxyType({}),
) -> Any:
    """Send a message with these attachments, with a progress bar.

    `descriptions` are files that describe the data sets: `catalog`, `define`.

    Return its delivery, or the dry run. Raises Failure for a file that cannot be read, and what the client raises.
    """
    parts = {f"file-{number}": file for number, file in enumerate(files)}
    draft: dict[str, Any] = {
        "destination": to,
        "description": description,
        "attachments": [file.entry(part) for part, file in parts.items()],
    }
    if message is not None:
        draft["application_message"] = {"text": message}
    with bars(DownloadColumn, TransferSpeedColumn) as progress:
        shown = {part: progress.add_task(escape(file.file_name), total=file.size) for part, file in parts.items()}

        def tell(part: str, sent: int) -> None:
            if part in shown:
                progress.update(shown[part], completed=sent)

        every = {**parts, **{word: readable(path) for word, path in descriptions.items()}}
        if dry_run:
            return client.dry_run(draft, every, progress=tell)
        return client.send_message(draft, every, key=key, progress=tell)


def readable(path: Path, kind: str | None = None, name: str | None = None, data_set: Any = None) -> File:
    """Return a file to send. `name` is a data set's `LIBRARY.MEMBER`, `data_set` its options. Raises Failure."""
    with reading(path):
        pass
    if kind not in (None, "data-set"):
        return File.of(path, kind=kind, name=path.name)
    return File.of(path, kind=kind, name=name, attachment={"data_set": data_set} if data_set else None)


def wait_until_sent(client: Client, delivery: dict[str, Any]) -> dict[str, Any]:
    """Wait, with a progress bar, until a delivery is sent. Raises Failure when it has failed."""
    with bars(MofNCompleteColumn) as progress:
        bar = progress.add_task("sending", total=None)
        while delivery["state"] in {"queued", "sending"}:
            text = f"sending ({escape(delivery['reason'])})" if delivery["reason"] else "sending"
            progress.update(
                bar, description=text, completed=delivery["messages_sent"], total=delivery["messages_total"]
            )
            time.sleep(_POLL_SECONDS)
            delivery = client.get(f"deliveries/{delivery['id']}")
    if delivery["state"] == "failed":
        raise Failure(f"delivery {delivery['id']} has failed: {delivery['reason']}")
    if delivery["state"] == "cancelled":
        raise Failure(f"delivery {delivery['id']} was cancelled")
    return delivery


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Open a file. Raises Failure when it cannot be read."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    with file:
        yield file
