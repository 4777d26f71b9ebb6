"""Data sets for `send`: the options for their variables, and the output of a dry run."""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from app.cli.line_tables import List, ListColumn
from app.cli.terminal import Failure, err, out

Missing = StrEnum("Missing", {"NULL": "null", "TAG": "tag"})
Names = StrEnum("Names", {"STRICT": "strict", "LITERAL": "literal", "RENAME": "rename"})

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
MissingAs = Annotated[Missing | None, _option("--missing", help_="tag: CSV cells such as .A are missing values.")]
NameRule = Annotated[Names | None, _option("--names", help_="Handling of names that SAS does not accept.")]
Member = Annotated[str | None, _option("--member", help_="Name of the data set, if a transport file has several.")]
Catalog = Annotated[
    Path | None, _option("--catalog", help_="Value labels: a sas7bcat, or a data set of CNTLOUT=.", metavar="FILE")
]
Define = Annotated[Path | None, _option("--define", help_="A define.xml that describes the data sets.", metavar="FILE")]
Title = Annotated[str | None, _option("--title", help_="The data set's label.")]


def wanted(per_column: dict[str, list[str] | None], **whole: Any) -> dict[str, Any]:
    """Return the options of the command line for data sets.

    `per_column` has for each attribute the settings for columns, such as `DT=DATE9.` Raises Failure.
    """
    variables: dict[str, dict[str, Any]] = {}
    for attribute, said in per_column.items():
        for each in said or []:
            column, value = _split(attribute, each)
            variables.setdefault(column, {})[attribute] = _integer(each, value) if attribute == "length" else value
    found = {key: value for key, value in whole.items() if value is not None}
    return found | ({"variables": variables} if variables else {})


def _split(attribute: str, said: str) -> tuple[str, str]:
    column, mark, value = said.partition("=")
    if not mark or not column:
        option = {"name": "rename"}.get(attribute, attribute)
        raise Failure(f"--{option} {said!r} names no column", f"write for example --{option} COLUMN=VALUE")
    return column, value


def _integer(said: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise Failure(f"--length {said!r}: {value!r} is not a number of bytes") from None


def show(rehearsal: dict[str, Any]) -> None:
    """Print what would be sent as tables on standard output; warnings go to standard error."""
    for attachment in rehearsal["attachments"]:
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
    out.print(f"{rehearsal['messages']:,} messages to {escape(rehearsal['destination'])}; nothing was sent")


def _variables(variables: Iterable[dict[str, Any]]) -> List:
    grid = List(_VARIABLES)
    for number, variable in enumerate(variables, 1):
        grid.add_row(
            str(number),
            escape(variable["name"]),
            variable["type"],
            str(variable["length"]),
            escape(variable["format"]),
            escape(variable["informat"]),
            escape(variable["label"]),
            escape(variable["column"] if variable["column"] != variable["name"] else ""),
            _origins(variable["origins"]),
        )
    return grid


def _origins(origins: dict[str, str]) -> str:
    """Return which attributes were given and which are from the file; all others were inferred."""
    said = (
        (word, [attribute for attribute, origin in origins.items() if origin == word and attribute != "name"])
        for word in ("given", "file")
    )
    return "; ".join(f"{word}: {', '.join(attributes)}" for word, attributes in said if attributes) or "inferred"
