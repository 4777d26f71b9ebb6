"""Places of rows in the headers of fixed size, taken from their layouts.

What reads a few rows of very many messages takes them with one `struct` call or one slice. Both come from here, so that
no offset is written a second time.
"""

import struct

from app.wire import Layout
from app.wire.cells import Cell
from app.wire.kinds import Order

Rows = str | tuple[str, str]
"""A row; or the first and the last of several that are taken together as bytes."""


def place(layout: type[Layout], first: str, last: str | None = None) -> slice:
    """Return the bytes of a row of a layout, or those of several rows from `first` to `last`."""
    cells = _cells(layout)
    begins, ends = cells[first], cells[last or first]
    return slice(begins.at, ends.at + ends.size)


def rows(layout: type[Layout], order: Order, *wanted: Rows, within: slice | None = None) -> struct.Struct:
    """Return what unpacks these rows of a layout, in their order: numbers as integers, all others as bytes.

    The bytes to unpack are the whole structure, or those `within` a place of it.
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
