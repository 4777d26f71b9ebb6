"""Output of rows: to people in a terminal, and to files."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import pyarrow.compute as pc
from rich.markup import escape

from app.cli.command_files import whole_file
from app.cli.get_command import choose
from app.cli.terminal import Failure, err, out, table
from app.model.masking import printable
from app.ports import TableStore
from app.service.tables import sql_queries
from app.tables.write import FORMATS, OutputOptions, OutputTable, text_cells
from app.tables.write.query_result import PlainRows
from app.tables.write.text_cells import cells

WRITTEN = ("parquet", "arrow", "arrow-file", "csv", "json", "ndjson")
"""The formats that do not begin with the number of rows, which is unknown before the last row."""

_TAGS = OutputOptions(missing="tag")


def to_terminal(rows: PlainRows, most: int) -> None:
    """Print rows as a grid, at most `most`; special missing values are shown in their cells."""
    shown = cells(rows.schema, _TAGS)
    grid = table()
    for cell in shown:
        is_number = text_cells.is_bare(cell.type)
        grid.add_column(escape(printable(cell.name)), justify="right" if is_number else "left", overflow="fold")
    more = False
    for batch in rows.batches:
        more = batch.num_rows > most - grid.row_count
        first = batch.slice(0, most - grid.row_count)
        columns = []
        for cell in shown:
            written, tags = cell.written(first), cell.tags(first)
            columns.append((written if tags is None else pc.coalesce(written, tags)).to_pylist())
        for row in zip(*columns, strict=True):
            grid.add_row(*("[dim]null[/]" if value is None else escape(printable(value)) for value in row))
        if more:
            break
    out.print(grid)
    if more:
        err.print(f"only the first {most:,} rows are shown")


def to_stream(rows: PlainRows, word: str) -> None:
    """Write rows in a text format to standard output; special missing values are in their cells."""
    _write(rows, word, _TAGS, sys.stdout.buffer)


def to_file(rows: PlainRows, output: str) -> None:
    """Write rows to a file in the format of its extension; the file appears when it is complete. Raises Failure."""
    word = choose(None, output, None).word
    if word not in WRITTEN:
        raise Failure(f"{output}: rows cannot be written as {word}", f"known formats: {', '.join(WRITTEN)}")
    with whole_file(Path(output)) as file:
        _write(rows, word, OutputOptions(), file)


def _write(rows: PlainRows, word: str, options: OutputOptions, file: BinaryIO) -> None:
    known = FORMATS[word]
    file.writelines(known.write(OutputTable(rows.schema, rows.batches, 0, datetime.now(UTC)), known.settled(options)))
    file.flush()


@contextmanager
def answered(store: TableStore, sql: str, memory: str) -> Iterator[sql_queries.QueryResult]:
    """Run a query, as `app.service.tables.sql_queries.answered`. Raises Failure, also during the iteration."""
    try:
        with sql_queries.answered(store, sql, memory) as answer:
            yield answer
    except sql_queries.QueryFailed as error:
        raise Failure(str(error), error.hint) from error
