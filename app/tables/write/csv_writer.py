"""Write CSV as in RFC 4180: UTF-8, a header line, CR LF, quotes where they are needed.

A blank character value is `""` and a missing value is empty, so readers can distinguish them.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from app.tables.write import text_cells
from app.tables.write.output_pieces import Piece, blocks, split
from app.tables.write.output_table import OutputOptions, OutputTable
from app.tables.write.text_cells import RowCell, cells

LINE_END = "\r\n"

_NEEDS_QUOTES = '",\r\n'
_EMPTY = '""'
_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r")


def write_csv(table: OutputTable, options: OutputOptions) -> Iterator[Piece]:
    """Yield a CSV file. With tags, the cell of a special missing value is `.A`."""
    shown = cells(table.schema, options)
    safe = _safe_name if options.formulas == "escape" else str
    yield (",".join(_name(safe(cell.name)) for cell in shown) + LINE_END).encode()
    yield from rows(table.batches, shown, options)


def rows(batches: Iterable[pa.RecordBatch], shown: Sequence[RowCell], options: OutputOptions) -> Iterator[Piece]:
    """Yield the lines after the header. A line is never empty, since readers skip empty lines."""
    literals = ["", *[","] * (len(shown) - 1), LINE_END]
    alone = len(shown) == 1
    empty = "" if options.blank == "null" and not alone else _EMPTY
    for batch in blocks(batches):
        written = [_written(cell, batch, empty, escape=options.formulas == "escape") for cell in shown]
        yield from split(text_cells.lines(literals, written, batch.num_rows, null=_EMPTY if alone else ""))


def _written(cell: RowCell, batch: pa.RecordBatch, empty: str, *, escape: bool) -> pa.StringArray:
    if cell.is_text:
        column = cell.column(batch)
        return _quoted(_safe(column) if escape else column, empty)
    tags = cell.tags(batch)
    return cell.written(batch) if tags is None else pc.coalesce(cell.written(batch), tags)


def _safe(strings: pa.StringArray) -> pa.StringArray:
    """Return text with an apostrophe before a value that a spreadsheet would take for a formula."""
    return pc.replace_substring_regex(strings, r"\A([=+\-@\t\r])", r"'\1")


def _safe_name(name: str) -> str:
    return f"'{name}" if name.startswith(_FORMULA_BEGINS) else name


def _quoted(strings: pa.StringArray, empty: str) -> pa.StringArray:
    """Return text in quotes where a comma, quote, line end or leading blank needs them, and `empty` for empty text."""
    blank = pc.equal(strings, "")
    result = strings
    needed = _needed(strings)
    if needed is not None:
        result = pc.if_else(needed, text_cells.joined('"', pc.replace_substring(strings, '"', '""'), '"'), result)
    return pc.if_else(blank, empty, result) if empty and pc.any(blank).as_py() else result


def _needed(strings: pa.StringArray) -> pa.BooleanArray | None:
    """Return which values need quotes, or None if none does. Searching a whole block first costs almost no time."""
    raw = text_cells.raw(strings)
    found = [character for character in _NEEDS_QUOTES if character.encode() in raw]
    needed = pc.starts_with(strings, " ")
    for character in found:
        needed = pc.or_(needed, pc.match_substring(strings, character))
    return needed if found or pc.any(needed).as_py() else None


def _name(name: str) -> str:
    needed = not name or name.startswith(" ") or any(character in name for character in _NEEDS_QUOTES)
    return '"' + name.replace('"', '""') + '"' if needed else name
