"""`get` and `contents`.

Stored content is resumed where an earlier attempt ended, and compared with its SHA-256. A data set in another format is
converted while it is fetched.
"""

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import typer
from attachment_gateway_client import Attachment, ContentChanged, DigestMismatch
from attachment_gateway_client.downloads import is_special
from rich.markup import escape
from rich.progress import DownloadColumn, FileSizeColumn, TimeRemainingColumn, TransferSpeedColumn

from app.cli.command_files import whole_file
from app.cli.rest_client import DEFAULT_URL, Client, Url, connect, located
from app.cli.terminal import Failure, bars, err, size

PARQUET = "parquet"

EXTENSIONS: Mapping[str, str] = {
    PARQUET: ".parquet",
    "arrow": ".arrows",
    "arrow-file": ".arrow",
    "csv": ".csv",
    "json": ".json",
    "ndjson": ".ndjson",
    "dataset-json": ".json",
    "dataset-ndjson": ".ndjson",
    "dsjc": ".dsjc",
    "xpt": ".xpt",
    "xpt-v5": ".xpt",
    "sas": ".zip",
}
"""The formats of data sets, and the extensions of their files."""

_BY_EXTENSION = {extension: word for word, extension in reversed(list(EXTENSIONS.items()))} | {
    ".feather": "arrow-file",
    ".jsonl": "ndjson",
    ".pq": PARQUET,
}


class FormatChoice(NamedTuple):
    """A format, and the query parameters that request it."""

    word: str
    query: dict[str, Any]

    @property
    def is_stored(self) -> bool:
        """Whether the content is returned as stored: with known size and digest, and resumable at any byte."""
        return self.word == PARQUET and self.query.keys() == {"format"}

    def file_name(self, stored: str) -> str:
        """Return the name of its file, given the name of the stored data set."""
        return stored.removesuffix(EXTENSIONS[PARQUET]) + EXTENSIONS[self.word]


def choose(word: str | None, output: str | None, xpt_version: str | None, **options: Any) -> FormatChoice:
    """Return the format by its name, else by the output's extension. Raises Failure.

    It is Parquet for a folder, for standard output (`-`), and for a file without an extension.
    """
    if word is None:
        extension = Path(output).suffix.lower() if output and not Path(output).is_dir() else ""
        if extension and extension not in _BY_EXTENSION:
            known = ", ".join(sorted(_BY_EXTENSION))
            hint = "or state the format: --format"
            raise Failure(f"{output}: unknown extension {extension!r}; known are {known}", hint)
        word = _BY_EXTENSION[extension] if extension else PARQUET
    if word not in EXTENSIONS:
        raise Failure(f"unknown format of data sets {word!r}", f"known formats: {', '.join(EXTENSIONS)}")
    if xpt_version is not None:
        if not word.startswith("xpt"):
            raise Failure("--xpt-version is only for transport files", "add --format xpt")
        word = {"5": "xpt-v5", "8": "xpt"}[xpt_version]
    return FormatChoice(word, {"format": word} | {name: value for name, value in options.items() if value is not None})


_PIECE = 1 << 20
_PANEL = "Data sets"

SpecialMissing = StrEnum("SpecialMissing", {"NULL": "null", "TAG": "tag", "COLUMN": "column"})
Dates = StrEnum("Dates", {"ISO": "iso", "SAS": "sas"})
NameCase = StrEnum("NameCase", {"KEEP": "keep", "LOWER": "lower"})
Blank = StrEnum("Blank", {"EMPTY": "empty", "NULL": "null"})
Times = StrEnum("Times", {"TIME": "time", "DURATION": "duration"})
Formulas = StrEnum("Formulas", {"KEEP": "keep", "ESCAPE": "escape"})
XptVersion = StrEnum("XptVersion", {"FIVE": "5", "EIGHT": "8"})

Identifier = Annotated[str, typer.Argument(metavar="ID", help="The attachment's identifier.")]

_WAIT_FOR = {
    "receiving": "it is still being received: {parts_received} of {parts_expected} parts have arrived",
    "complete": "all its parts have arrived; its content is being assembled",
}


def get(
    identifier: Identifier,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Target: a file, a folder, or - for standard output.")
    ] = None,
    *,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", help=f"{', '.join(EXTENSIONS)}. Default: by the output's extension.", rich_help_panel=_PANEL
        ),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option(help="Variables to fetch, separated by commas.", rich_help_panel=_PANEL)
    ] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="Number of rows to skip.", rich_help_panel=_PANEL)] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Maximum number of rows.", rich_help_panel=_PANEL)] = None,
    missing: Annotated[
        SpecialMissing | None, typer.Option(help="Handling of special missing values.", rich_help_panel=_PANEL)
    ] = None,
    dates: Annotated[
        Dates | None, typer.Option(help="Dates in ISO 8601, or as SAS numbers.", rich_help_panel=_PANEL)
    ] = None,
    names: Annotated[
        NameCase | None, typer.Option(help="Column names unchanged, or in lower case.", rich_help_panel=_PANEL)
    ] = None,
    blank: Annotated[
        Blank | None, typer.Option(help="Blank text as empty text, or as null.", rich_help_panel=_PANEL)
    ] = None,
    rename: Annotated[
        bool | None, typer.Option("--rename", help="Change names that SAS cannot have.", rich_help_panel=_PANEL)
    ] = None,
    formulas: Annotated[
        Formulas | None,
        typer.Option(help="Texts like formulas in CSV: unchanged, or preceded by '.", rich_help_panel=_PANEL),
    ] = None,
    labels: Annotated[
        bool | None,
        typer.Option("--labels", help="Value labels in place of values.", rich_help_panel=_PANEL),
    ] = None,
    times: Annotated[
        Times | None,
        typer.Option(help="Times of day in their own type, or as durations since midnight.", rich_help_panel=_PANEL),
    ] = None,
    attrs: Annotated[
        bool | None, typer.Option("--attrs", help="Labels also as DataFrame.attrs of pandas.", rich_help_panel=_PANEL)
    ] = None,
    xpt_version: Annotated[
        XptVersion | None, typer.Option(help="Version of transport files (default 8).", rich_help_panel=_PANEL)
    ] = None,
    utf_8: Annotated[bool, typer.Option("--utf-8", help="Convert a text file to UTF-8.")] = False,
    apart: Annotated[
        bool, typer.Option("--apart", help="Write several files in one content apart: NAME.1, NAME.2, and so on.")
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Fetch an attachment's content. Resumes from FILE.part (not for converted content)."""
    options = {
        "columns": columns,
        "offset": offset,
        "limit": limit,
        "missing": missing,
        "dates": dates,
        "names": names,
        "blank": blank,
        "rename": rename,
        "formulas": formulas,
        "labels": labels,
        "times": times,
        "attrs": attrs,
    }
    with connect(url) as client:
        attachment = client.attachment(identifier)
        _require_finished(attachment)
        if apart and (utf_8 or output == "-"):
            raise Failure("--apart writes content as it is stored, to files")
        if utf_8:
            if format_ is not None or any(value is not None for value in options.values()):
                raise Failure("--utf-8 converts text files; it cannot be combined with options for data sets")
            return _fetch_converted(client, attachment, output, attachment["file_name"], {"charset": "utf-8"})
        if attachment["kind"] == "data-set":
            choice = choose(format_, output, xpt_version, **options)
            if not choice.is_stored:
                name = choice.file_name(attachment["file_name"])
                return _fetch_converted(client, attachment, output, name, choice.query)
        elif format_ is not None or any(value is not None for value in options.values()):
            raise Failure("this attachment is a file; options for data sets do not apply")
        if output == "-":
            return fetch(client, attachment, sys.stdout.buffer)
        target = _target(output, attachment["file_name"])
        if apart and is_special(target):
            raise Failure(f"--apart writes several files, and {target} is a device or a pipe")
        fetch(client, attachment, target)
    if apart and attachment["files"]:
        return _take_apart(target, attachment)
    err.print(f"{target}  {size(attachment['size'])}  sha256 {attachment['sha256']}", markup=False, highlight=False)
    return None


def _take_apart(whole: Path, attachment: Attachment) -> None:
    """Write each file of a content to a file of its own, and delete the file with the whole content."""
    with whole.open("rb") as source:
        for number, file in enumerate(attachment["files"], 1):
            target = whole.with_name(f"{whole.name}.{number}")
            with whole_file(target) as written:
                left = file["size"]
                while left and (piece := source.read(min(left, _PIECE))):
                    written.write(piece)
                    left -= len(piece)
    whole.unlink()


def contents(
    identifier: Identifier,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, in the format of REST.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show the contents of a data set, as PROC CONTENTS does."""
    with connect(url) as client:
        response = client.request(
            "GET",
            f"{located('attachments', identifier)}/schema",
            headers={"Accept": "application/json" if as_json else "text/plain"},
        )
    typer.echo(response.text.rstrip("\n"))


def fetch(client: Client, attachment: Attachment, target: Path | BinaryIO) -> None:
    """Fetch content into a file, which appears when it is complete. Raises Failure when its digest is wrong."""
    with bars(DownloadColumn, TransferSpeedColumn, TimeRemainingColumn) as progress:
        bar = progress.add_task(escape(attachment["file_name"]), total=attachment["size"])
        try:
            client.fetch(attachment, target, lambda received: progress.update(bar, completed=received))
        except DigestMismatch as error:
            raise Failure(str(error), "fetch it again") from error
        except ContentChanged as error:
            raise Failure(str(error), f"delete {target}.part") from error
        except OSError as error:
            raise Failure(f"cannot write {target}: {error.strerror or error}") from error


def _fetch_converted(
    client: Client, attachment: Attachment, output: str | None, name: str, query: dict[str, Any]
) -> None:
    """Fetch converted content: a data set in another format, or a text file in UTF-8. Raises Failure."""
    if output == "-":
        return _receive_converted(client, attachment, sys.stdout.buffer, name, query)
    with whole_file(_target(output, name)) as file:
        _receive_converted(client, attachment, file, name, query)
    return None


def _receive_converted(
    client: Client, attachment: Attachment, file: BinaryIO, name: str, query: dict[str, Any]
) -> None:
    with (
        client.stream(f"attachments/{attachment['id']}/content", **query) as response,
        bars(FileSizeColumn, TransferSpeedColumn) as progress,
    ):
        bar = progress.add_task(escape(name), total=None)
        for piece in response.iter_bytes(_PIECE):
            file.write(piece)
            progress.advance(bar, len(piece))
        if undecodable := response.headers.get("Undecodable-Bytes"):
            count, _, first = undecodable.partition("; first=")
            err.print(f"{name}: {count} bytes could not be decoded, the first at byte {first}; each became U+FFFD")
    file.flush()


def _target(output: str | None, name: str) -> Path:
    """Return the path for content.

    Names come from senders, so only the last component of the gateway's safe name is used.
    """
    safe = Path(name).name or "attachment"
    if output is None:
        return Path(safe)
    target = Path(output)
    return target / safe if target.is_dir() else target


def _require_finished(attachment: Attachment) -> None:
    state = attachment["state"]
    if state == "finished":
        return
    if state in _WAIT_FOR:
        progress = attachment["progress"] | {"parts_expected": attachment["progress"]["parts_expected"] or "?"}
        raise Failure(_WAIT_FOR[state].format(**progress), "attachment-gateway watch shows it arriving")
    reason = attachment["reason"]
    raise Failure(f"no content: the attachment is {state}" + (f", {reason['text']}" if reason else ""))
