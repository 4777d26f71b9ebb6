"""Positions of fields in the headers of fixed size, taken from their layouts.

Code that reads a few fields of very many messages takes them with one `struct` call or one slice. Both are made here,
so that each offset is written only once, in its layout.
"""

import struct

from app.wire import Layout
from app.wire.cells import Cell
from app.wire.kinds import Order

Rows = str | tuple[str, str]
"""A field; or the first and the last of several fields that are read together as bytes."""


def place(layout: type[Layout], first: str, last: str | None = None) -> slice:
    """Return the position of a field of a layout, or of the fields from `first` to `last`."""
    cells = _cells(layout)
    begins, ends = cells[first], cells[last or first]
    return slice(begins.at, ends.at + ends.size)


def rows(layout: type[Layout], order: Order, *wanted: Rows, within: slice | None = None) -> struct.Struct:
    """Return a Struct that unpacks these fields of a layout, in their order: numbers as integers, all others as bytes.

    It unpacks the whole structure, or the bytes `within` a position of it.
    """
    cells = _cells(layout)
    begin, end = (within.start, within.stop) if within else (0, layout.SIZE)
    code, at = [str(order)], begin
    for each in wanted:
        names = (each, each) if isinstance(each, str) else each
        taken = place(layout, *names)
        is_number = isinstance(each, str) and isinstance(cells[each].value, int)
        code += [f"{taken.start - at}x", "i" if is_number else f"{taken.stop - taken.start}s"]
        at = taken.stop
    return struct.Struct(" ".join([*code, f"{end - at}x"]))


def _cells(layout: type[Layout]) -> dict[str, Cell]:
    return {cell.name.rpartition(".")[2]: cell for cell in layout.cells(bytes(layout.SIZE))}
