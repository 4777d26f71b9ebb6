"""Tables of one line a row, which fit the width of the terminal.

Files, pipes and wide terminals show everything in full. In a narrow terminal, identifiers are shortened as far as they
stay different, then texts are cut, with an ellipsis, and finally the least important columns are omitted. `--json`
always prints everything.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from app.cli.terminal import err, out
from app.model.masking import printable

_GAP = 2
_FIRST_DIGITS = 8

Shorten = Callable[[Sequence[str]], list[str]]


class ListColumn(NamedTuple):
    """A column of a list.

    `shorten` makes the cells of the whole column shorter. `least` is the width to which texts may be cut (None: they
    are shown in full). Of the columns with an `order`, the one with the highest is left out first.
    """

    title: str
    is_number: bool = False
    shorten: Shorten | None = None
    least: int | None = None
    order: int = 0


def first_digits(identifiers: Sequence[str]) -> list[str]:
    """Return the first digits of identifiers: at least eight, and enough to keep different identifiers different."""
    count, different = _FIRST_DIGITS, len(set(identifiers))
    while len({each[:count] for each in identifiers}) < different:
        count += 1
    return [each[:count] for each in identifiers]


def without_zeros(identifiers: Sequence[str]) -> list[str]:
    """Return the identifiers of quarantine entries without their leading zeros."""
    return [each.lstrip("0") or "0" for each in identifiers]


IDENTIFIER = ListColumn("ID", shorten=first_digits)
STATE = ListColumn("State")


@dataclass
class ListTable:
    """A table that is fitted when it is printed. Cells are texts with rich's markup."""

    columns: Sequence[ListColumn]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add_row(self, *cells: str) -> None:
        """Add a row, with a cell for each column. A line break in a cell becomes a blank."""
        self.rows.append(tuple(printable(" ".join(cell.splitlines())) for cell in cells))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = _fitted(self.columns, [list(row) for row in zip(*self.rows, strict=True)], options.max_width)
        grid = Table(box=None, pad_edge=False, header_style="bold")
        for column, _, width in shown:
            justify = "right" if column.is_number else "left"
            grid.add_column(column.title, justify=justify, width=width, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
        for row in zip(*(each.cells for each in shown), strict=True):
            grid.add_row(*row)
        yield grid


class _Fitted(NamedTuple):
    column: ListColumn
    cells: list[str]
    width: int


def _fitted(columns: Sequence[ListColumn], cells: list[list[str]], room: int) -> list[_Fitted]:
    """Return the columns and cells that are shown in this many characters, with the width of each column."""
    shown = [_Fitted(column, some, _width(column, some)) for column, some in zip(columns, cells, strict=True)]
    if _total(shown) <= room:
        return shown
    shorter = [column.shorten(some) if column.shorten else some for column, some, _ in shown]
    shown = [_Fitted(column, some, _width(column, some)) for column, some in zip(columns, shorter, strict=True)]
    while True:
        cut = _cut(shown, room)
        if _total(cut) <= room or not any(each.column.order for each in shown):
            return cut
        shown.remove(max(shown, key=lambda each: each.column.order))


def _cut(shown: Sequence[_Fitted], room: int) -> list[_Fitted]:
    """Return the columns. Of those that may be cut, the widest are made narrower as far as necessary and possible."""
    widths = {each.column: each.width for each in shown}
    least = {each.column: min(each.column.least, each.width) for each in shown if each.column.least is not None}
    over = _total(shown) - room
    while over > 0 and (able := [column for column in least if widths[column] > least[column]]):
        widths[max(able, key=lambda column: widths[column])] -= 1
        over -= 1
    return [each._replace(width=widths[each.column]) for each in shown]


def _width(column: ListColumn, cells: Sequence[str]) -> int:
    return max([cell_len(column.title), *(cell_len(Text.from_markup(cell).plain) for cell in cells)])


def _total(shown: Sequence[_Fitted]) -> int:
    return sum(each.width for each in shown) + _GAP * (len(shown) - 1)


def numbers(*titles: str) -> Iterator[ListColumn]:
    """Return columns of numbers, which are always shown in full."""
    return (ListColumn(title, is_number=True) for title in titles)


def print_list(grid: ListTable, nothing: str) -> None:
    """Print a list, or a sentence if it is empty."""
    if grid.rows:
        out.print(grid)
    else:
        err.print(nothing, style="dim")
