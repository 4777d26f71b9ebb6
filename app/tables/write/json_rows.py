"""Write JSON: rows as objects, in an array or one per line (NDJSON)."""

from collections.abc import Callable, Iterator, Sequence

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from app.tables.write import text_cells
from app.tables.write.output_pieces import Piece, blocks, split
from app.tables.write.output_table import OutputOptions, OutputTable
from app.tables.write.text_cells import RowCell, blank_as_null, cells

IsBare = Callable[[pa.DataType], bool]

_ESCAPES = {"\\": "\\\\", '"': '\\"'} | {
    character: orjson.dumps(character).decode().strip('"') for character in map(chr, range(32))
}
"""The JSON escapes of characters. The backslash comes first, since the other escapes contain one."""


def write_ndjson(table: OutputTable, options: OutputOptions) -> Iterator[Piece]:
    """Yield one object per line."""
    shown = cells(table.schema, options)
    for block in _row_blocks(table, shown, options, _framed("", _objects(shown), "\n")):
        yield from split(block)


def write_json(table: OutputTable, options: OutputOptions) -> Iterator[Piece]:
    """Yield an array of objects, one per line."""
    shown = cells(table.schema, options)
    yield b"["
    yield from separated(_row_blocks(table, shown, options, _framed(",\n", _objects(shown), "")))
    yield b"\n]\n"


def row_arrays(
    table: OutputTable,
    options: OutputOptions,
    before: str = ",",
    behind: str = "",
    is_bare: IsBare = text_cells.is_bare,
) -> Iterator[memoryview]:
    """Yield rows as arrays, many at a time, with text before and after each row.

    `is_bare` tells whether values of a type are written without quotes.
    """
    shown = cells(table.schema, options)
    literals = ["[", *[","] * (len(shown) - 1), "]"] if shown else ["[]"]
    return _row_blocks(table, shown, options, _framed(before, literals, behind), is_bare)


def _framed(before: str, literals: Sequence[str], behind: str) -> list[str]:
    """Return the texts between the cells of a row, with more text before and after the row."""
    if len(literals) == 1:
        return [before + literals[0] + behind]
    return [before + literals[0], *literals[1:-1], literals[-1] + behind]


def separated(rows: Iterator[memoryview]) -> Iterator[Piece]:
    """Yield blocks of rows that begin with a comma each, without the first comma."""
    for at, block in enumerate(rows):
        yield from split(block[1:] if at == 0 else block)


def _row_blocks(
    table: OutputTable,
    shown: Sequence[RowCell],
    options: OutputOptions,
    literals: Sequence[str],
    is_bare: IsBare = text_cells.is_bare,
) -> Iterator[memoryview]:
    """Yield rows of JSON, many at a time."""
    for batch in blocks(table.batches):
        written = [_written(cell, batch, options, is_bare) for cell in shown]
        yield text_cells.lines(literals, written, batch.num_rows, null="null")


def _objects(shown: Sequence[RowCell]) -> list[str]:
    keys = [orjson.dumps(cell.name).decode() + ":" for cell in shown]
    return ["{" + keys[0], *["," + key for key in keys[1:]], "}"] if keys else ["{}"]


def _written(cell: RowCell, batch: pa.RecordBatch, options: OutputOptions, is_bare: IsBare) -> pa.StringArray:
    column = cell.column(batch)
    if cell.is_text:
        strings = blank_as_null(column) if options.blank == "null" else column
        raw = text_cells.raw(strings)  # Searching a whole block first costs almost no time.
        for character, escape in _ESCAPES.items():
            if character.encode() in raw:
                strings = pc.replace_substring(strings, character, escape)
        return text_cells.joined('"', strings, '"')
    written = cell.written(batch)
    if pa.types.is_floating(cell.type):
        finite = pc.is_finite(column)  # JSON has neither infinity nor NaN
        written = written if pc.all(finite).as_py() else pc.if_else(finite, written, None)
    elif not is_bare(cell.type):
        written = text_cells.joined('"', written, '"')
    tags = cell.tags(batch)
    return written if tags is None else pc.coalesce(written, text_cells.joined('"', tags, '"'))
