"""`tables`: read the tables of the pipeline directly; no gateway needs to run."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape

from app import plugins
from app.cli.command_files import require_folder
from app.cli.config_command import Config, age, read
from app.cli.line_tables import ListColumn, ListTable, print_list
from app.cli.terminal import Failure, Json, err, facts, out, print_json, size, table
from app.model.errors import GatewayError
from app.model.times import to_microseconds, to_time
from app.ports import OpenTable, TableStore, TableVersion

ROWS_SHOWN = 100

tables = typer.Typer(no_args_is_help=True, help="Read and maintain the tables that the pipeline builds from data sets.")

Place = Annotated[
    str | None,
    typer.Option("--tables", help="Folder or URL of the tables. Default: as configured."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a table, such as WORK.CUSTOMERS, in any case.")]
SomeName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Name of a table. Default: all tables.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
Output = Annotated[
    str | None, typer.Option("--output", "-o", help="File to write: .parquet, .arrow, .csv, .json or .ndjson.")
]

_TABLES = (
    ListColumn("Name", least=16),
    ListColumn("Rows", is_number=True),
    ListColumn("Columns", is_number=True, order=2),
    ListColumn("Files", is_number=True, order=3),
    ListColumn("Size", is_number=True),
    ListColumn("Version", is_number=True, order=4),
    ListColumn("Modified (UTC)", order=1),
)
_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"]


@tables.command()
def ls(*, as_json: Json = False, config: Config = None, place: Place = None) -> None:
    """List tables by name."""
    from app.dataset import side_columns  # noqa: PLC0415 - needs more of Arrow than other commands do
    from app.service.tables.table_reader import outline  # noqa: PLC0415

    grid = ListTable(_TABLES)
    with _opened(config, place) as store:
        for name in sorted(store.names()):
            version, schema = outline(store, name)
            columns = len(side_columns.without_sides(schema))
            if as_json:
                print_json([_facts(version) | {"columns": columns}])
            else:
                numbers = (f"{version.rows:,}", f"{columns:,}", f"{version.files:,}", size(version.size))
                modified = to_time(version.modified_at).strftime("%Y-%m-%d %H:%M:%S")
                grid.add_row(escape(name), *numbers, str(version.version), modified)
    if not as_json:
        print_list(grid, "no tables")


@tables.command()
def show(name: Name, *, as_json: Json = False, config: Config = None, place: Place = None) -> None:
    """Show a table's columns, with their labels and formats, and its location."""
    from app.service.tables.table_reader import described  # noqa: PLC0415 - needs more of Arrow than other commands do

    with _opened(config, place) as store:
        opened = _table(store, name)
        location = store.location(opened.version.name)
    found = described(opened)
    about = _facts(opened.version) | {"label": found.label, "location": location}
    if as_json:
        return print_json([about | {"columns": [variable._asdict() for variable in found.variables]}])
    grid = table(">#", "Column", "Type", ">Length", "Format", "Label", "Notes")
    for number, variable in enumerate(found.variables, 1):
        missing = variable.missing_column
        notes = [*([f"special missing values in {missing}"] if missing else []), *variable.notes]
        cells = (variable.column, variable.arrow_type, str(variable.length or ""), variable.format, variable.label)
        grid.add_row(str(number), *map(escape, cells), escape("; ".join(notes)))
    out.print(facts((key, f"{value:,}" if isinstance(value, int) else str(value)) for key, value in about.items()))
    out.print()
    return out.print(grid)


@tables.command()
def head(
    name: Name,
    *,
    rows: Annotated[int, typer.Option("--rows", "-n", min=0, help="Number of rows.")] = 10,
    columns: Annotated[list[str] | None, typer.Option(help="Columns to show, separated by commas.")] = None,
    as_json: Json = False,
    as_csv: Csv = False,
    config: Config = None,
    place: Place = None,
) -> None:
    """Show the first rows of a table."""
    from app.cli.row_output import to_stream, to_terminal  # noqa: PLC0415 - needs more of Arrow than other commands do
    from app.tables.write import FORMATS, OptionError, OutputOptions  # noqa: PLC0415
    from app.tables.write.query_result import PlainRows  # noqa: PLC0415
    from app.tables.write.stored_table import outgoing_of_files  # noqa: PLC0415

    known = FORMATS[_word(as_json, as_csv) or "csv"]
    options = OutputOptions(None if columns is None else tuple(columns), limit=rows, missing="tag")
    with _opened(config, place) as store:
        opened = _table(store, name)
        try:
            modified = to_time(opened.version.modified_at)
            found = outgoing_of_files(opened.dataset, opened.schema, opened.version.rows, options, known, modified)
        except OptionError as error:
            raise Failure(str(error)) from None
        shown = PlainRows(found.schema, found.batches)
        if as_json or as_csv:
            to_stream(shown, known.name)
        else:
            to_terminal(shown, rows)


@tables.command()
def sql(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Such as: SELECT count(*) FROM work.customers")],
    *,
    output: Output = None,
    as_json: Json = False,
    as_csv: Csv = False,
    rows: Annotated[
        int, typer.Option("--rows", "-n", min=1, help="Maximum number of rows shown in the terminal.")
    ] = ROWS_SHOWN,
    memory: Annotated[str, typer.Option(help="Memory limit of DuckDB; beyond it, DuckDB uses the disk.")] = "1GB",
    config: Config = None,
    place: Place = None,
) -> None:
    """Run a query in DuckDB. Each table has two names: "WORK.CUSTOMERS" and work.customers.

    A query can only read tables: no files, no network, no extensions.
    """
    from app.cli.row_output import (  # noqa: PLC0415
        answered,
        to_file,
        to_stream,
        to_terminal,
    )
    from app.tables.write.query_result import PlainRows, plain  # noqa: PLC0415

    word = _word(as_json, as_csv)
    if word and output:
        raise Failure("-o chooses the format by the file's extension", "leave out --json and --csv")
    with _opened(config, place) as store, answered(store, query, memory) as answer:
        found = plain(PlainRows(answer.schema, answer.batches))
        if output:
            to_file(found, output)
        elif word:
            to_stream(found, word)
        else:
            to_terminal(found, rows)
        if answer.scans and query.lstrip()[: len("explain")].casefold() == "explain":
            scanned = answer.scanned()
            err.print(f"{scanned.read:,} of {scanned.there:,} files read", markup=False, highlight=False)


@tables.command()
def compact(name: SomeName = None, *, config: Config = None, place: Place = None) -> None:
    """Join small files of tables, and divide large ones among sources, so that reading is faster."""
    with _opened(config, place) as store:
        for each in _chosen(store, name):
            err.print(f"{each}: {store.compact(each):,} files replaced", markup=False, highlight=False)


@tables.command()
def retain(
    name: SomeName = None,
    *,
    received_from: Annotated[
        datetime | None, typer.Option(help="Keep rows received at or after this time (UTC).", formats=_FORMATS)
    ] = None,
    keep: Annotated[str | None, typer.Option(help="Keep rows younger than this, such as 90d.")] = None,
    config: Config = None,
    place: Place = None,
) -> None:
    """Remove rows that were received before a time."""
    if (received_from is None) == (keep is None):
        raise Failure("give either --received-from or --keep")
    since = received_from.replace(tzinfo=UTC) if received_from else datetime.now(UTC) - age("--keep", keep or "")
    with _opened(config, place) as store:
        for each in _chosen(store, name):
            removed = store.retain(each, to_microseconds(since))
            err.print(f"{each}: {removed:,} rows removed", markup=False, highlight=False)


@tables.command()
def vacuum(
    name: SomeName = None,
    *,
    older_than: Annotated[
        str | None,
        typer.Option(
            help="Keep files used by table versions younger than this. Default, and least: tables.keep_replaced."
        ),
    ] = None,
    no_retention_check: Annotated[
        bool,
        typer.Option(
            "--no-retention-check",
            help="Allow a shorter time. Readers of older versions fail then, and a batch that runs loses its files.",
        ),
    ] = False,
    config: Config = None,
    place: Place = None,
) -> None:
    """Delete files left behind by compact and retain."""
    least = read(config).tables.keep_replaced
    kept = least if older_than is None else age("--older-than", older_than)
    if kept < least and not no_retention_check:
        raise Failure(
            f"--older-than {older_than} is shorter than tables.keep_replaced, {least / timedelta(hours=1):g}h: whoever "
            "reads an older version would fail, and a batch that is running would lose the files that it has written",
            f"Give {least / timedelta(hours=1):g}h or more. Or end all readers and the pipeline, and add "
            "--no-retention-check.",
        )
    with _opened(config, place) as store:
        for each in _chosen(store, name):
            removed = store.vacuum(each, kept.total_seconds())
            err.print(f"{each}: {removed:,} files removed", markup=False, highlight=False)


@tables.command()
def register(
    *,
    using: Annotated[
        Literal["delta", "parquet"], typer.Option(help="Format to register; parquet reads every file of a folder.")
    ] = "delta",
    catalog: Annotated[str | None, typer.Option(help="Catalog of Unity Catalog, such as main.")] = None,
    schema: Annotated[
        str | None, typer.Option(help="One schema for all tables. Default: a schema for each library.")
    ] = None,
    config: Config = None,
    place: Place = None,
) -> None:
    """Print the SQL that registers all tables in a Hive metastore or in Unity Catalog, for spark-sql."""
    from app.tables.registering import Registered, statements  # noqa: PLC0415 - needs more of Arrow

    with _opened(config, place) as store:
        found = [Registered(name, store.schema(name), store.location(name)) for name in sorted(store.names())]
    if found:
        typer.echo(";\n\n".join(statements(found, using, catalog, schema)) + ";")
    if using == "parquet":
        err.print("Parquet has no versions: until vacuum, rows that compact or retain have replaced are read as well")


@contextmanager
def _opened(config: Path | None, place: str | None) -> Iterator[TableStore]:
    """Open the tables of the configuration, or of another place. Their errors become a Failure."""
    if place is not None:
        require_folder(place)
    url = place or read(config).tables_url
    try:
        yield plugins.table_store()(url)
    except (GatewayError, ValueError) as error:
        raise Failure(str(error)) from error


def _table(store: TableStore, name: str) -> OpenTable:
    from app.service.tables.table_reader import open_table  # noqa: PLC0415 - needs more of Arrow than other commands do

    try:
        return open_table(store, name)
    except KeyError:
        raise _no_table(name) from None


def _chosen(store: TableStore, name: str | None) -> list[str]:
    """Return the table of this name, or all tables."""
    from app.service.tables.table_reader import find_name  # noqa: PLC0415 - needs more of Arrow than other commands do

    if name is None:
        return sorted(store.names())
    try:
        return [find_name(store, name)]
    except KeyError:
        raise _no_table(name) from None


def _no_table(name: str) -> Failure:
    return Failure(f"there is no table {name!r}", "attachment-gateway tables ls   lists all tables")


def _facts(version: TableVersion) -> dict[str, Any]:
    return version._asdict() | {"modified_at": to_time(version.modified_at).isoformat()}


def _word(as_json: bool, as_csv: bool) -> str | None:
    if as_json and as_csv:
        raise Failure("give either --json or --csv, not both")
    return "ndjson" if as_json else "csv" if as_csv else None
