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
    header = []
    for cell in shown:
        name = cell.name
        if options.formulas == "escape" and name.startswith(_FORMULA_BEGINS):
            name = f"'{name}"
        needs_quotes = not name or name.startswith(" ") or any(character in name for character in _NEEDS_QUOTES)
        header.append('"' + name.replace('"', '""') + '"' if needs_quotes else name)
    yield (",".join(header) + LINE_END).encode()
    yield from rows(table.batches, shown, options)


def rows(batches: Iterable[pa.RecordBatch], shown: Sequence[RowCell], options: OutputOptions) -> Iterator[Piece]:
    """Yield the lines after the header. A line is never empty, since readers skip empty lines."""
    literals = ["", *[","] * (len(shown) - 1), LINE_END]
    alone = len(shown) == 1
    empty = "" if options.blank == "null" and not alone else _EMPTY
    for batch in blocks(batches):
        written = []
        for cell in shown:
            if cell.is_text:
                column = cell.column(batch)
                if options.formulas == "escape":
                    # An apostrophe before a value that a spreadsheet would take for a formula.
                    column = pc.replace_substring_regex(column, r"\A([=+\-@\t\r])", r"'\1")
                written.append(_quoted(column, empty))
            else:
                tags = cell.tags(batch)
                written.append(cell.written(batch) if tags is None else pc.coalesce(cell.written(batch), tags))
        yield from split(text_cells.lines(literals, written, batch.num_rows, null=_EMPTY if alone else ""))


def _quoted(strings: pa.StringArray, empty: str) -> pa.StringArray:
    """Return text in quotes where a comma, quote, line end or leading blank needs them, and `empty` for empty text."""
    raw = text_cells.raw(strings)  # Searching a whole block first costs almost no time.
    found = [character for character in _NEEDS_QUOTES if character.encode() in raw]
    needed = pc.starts_with(strings, " ")
    for character in found:
        needed = pc.or_(needed, pc.match_substring(strings, character))
    result = strings
    if found or pc.any(needed).as_py():
        result = pc.if_else(needed, text_cells.joined('"', pc.replace_substring(strings, '"', '""'), '"'), strings)
    blank = pc.equal(strings, "")
    return pc.if_else(blank, empty, result) if empty and pc.any(blank).as_py() else result
