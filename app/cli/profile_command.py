"""`profile`: the values of a data set, variable by variable, of the gateway or in a file."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from app.cli.line_tables import ListColumn, ListTable, numbers
from app.cli.rest_client import DEFAULT_URL, Url, connect, located
from app.cli.terminal import Failure, err, out
from app.model.errors import InvalidInputError
from app.tables.profiles import TOP, profile, shown_number
from app.tables.read import file_formats
from app.tables.read.defining import define
from app.tables.read.read_request import DataSetOverrides, DataSetTarget, ReadOptions

_SHOWN_FREQUENT = 3
_LONGEST = 40
_COLUMNS = (
    *numbers("#"),
    ListColumn("Variable", least=8),
    ListColumn("Type", order=3),
    *numbers("Values"),
    ListColumn("Missing", least=7),
    *numbers("Different"),
    ListColumn("Range", least=12),
    ListColumn("Mean", is_number=True, order=2),
    ListColumn("Most frequent", least=13, order=1),
    ListColumn("Label", least=12, order=4),
)


def show_profile(
    what: Annotated[str, typer.Argument(metavar="ID|FILE", help="An attachment's identifier, or a file.")],
    *,
    top: Annotated[int, typer.Option(min=0, max=100, help="Number of most frequent values.")] = TOP,
    file_format: Annotated[
        str | None, typer.Option("--file-format", help="Format of the file: csv, parquet, xpt, sas7bdat ...")
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="Character set of the file.")] = None,
    member: Annotated[str | None, typer.Option(help="Name of the data set, if a file has several.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, in the format of REST.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show the values of a data set: missing and different values, range, mean and frequent values."""
    path = Path(what)
    # Identifiers have neither folders nor suffixes.
    if path.exists() or path.suffix or path.name != what:
        found = _of_file(path, file_format, ReadOptions(encoding=encoding, member=member), top)
    else:
        with connect(url) as client:
            found = client.get(f"{located('attachments', what)}/profile", top=top)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        _show(found)


def _of_file(path: Path, file_format: str | None, options: ReadOptions, top: int) -> dict[str, Any]:
    """Return the profile of the data set that a file would be sent as, as REST has it. Raises Failure."""
    try:
        with path.open("rb") as file:
            reading = file_formats.read(file, file_format or file_formats.format_of(file, path.name, ""), options)
            definition = define(reading, DataSetOverrides(file_stem=path.stem, names="literal"), DataSetTarget())
            wrong = [fault for fault in definition.errors if fault.code in {"type", "value"}]
            if wrong:
                raise Failure(f"{path}: {wrong[0].variable}: {wrong[0].why}")
            found = profile(definition.schema, definition.batches(), top)
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror or error}") from error
    except InvalidInputError as error:
        raise Failure(f"{path}: {error}") from error

    variables = []
    for each in found.variables:
        about = each.about
        variables.append(
            {
                "number": about.position,
                "name": about.name,
                "column": about.column,
                "type": "numeric" if about.is_numeric else "character",
                "label": about.label,
                "format": about.format,
                "missing_values": each.missing,
                **{key: value for key, value in asdict(each).items() if key not in ("about", "missing")},
            }
        )
    return {**found._asdict(), "variables": variables}


def _show(found: dict[str, Any]) -> None:
    name = ".".join(filter(None, [found["library"], found["member"]])) or "data set"
    out.print(f"[bold]{escape(name)}[/]: {found['observations']:,} observations")
    grid = ListTable(_COLUMNS)
    for each in found["variables"]:
        grid.add_row(
            str(each["number"]),
            escape(each["name"]),
            each["type"],
            f"{each['count']:,}",
            escape(", ".join(f"{kind} {count:,}" for kind, count in each["missing_values"].items())),
            f"{'' if each['is_exact'] else 'about '}{each['distinct']:,}",
            "" if each["minimum"] is None else escape(f"{_short(each['minimum'])} to {_short(each['maximum'])}"),
            "" if each["mean"] is None else f"{each['mean']:.6g}",
            escape(
                ", ".join(f"{_short(one['value'])} ({one['count']:,})" for one in each["frequent"][:_SHOWN_FREQUENT])
            ),
            escape(each["label"]),
        )
    out.print(grid)
    if not all(each["is_exact"] for each in found["variables"]):
        err.print("about: estimated, because there are too many different values to count", highlight=False)


def _short(value: object) -> str:
    words = str(shown_number(value) if isinstance(value, float) else value)
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
