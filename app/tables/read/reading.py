"""What readers of file formats take and give."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import pyarrow as pa

from app.dataset.schema import MOST_VARIABLES
from app.model.errors import TheirError

VariableType = Literal["numeric", "character"]
ROWS_A_BATCH = 16_384
CELLS_A_BATCH = 4 << 20

MOST_COLUMNS = 2 * MOST_VARIABLES
"""Columns of a file: its variables, each with a side column."""

MISSING_SUFFIX = "__missing"
"""How a column is called that holds the special missing values of another."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the sender of a file says of it; None lets its content tell. Only text formats ask for most of it.

    `encoding` is a Python codec's name, `decimal` the character before a number's fraction. With `tags`, a cell `.A`
    among numbers is a special missing value. `member` chooses among the data sets of a transport file. `types` are
    those wanted for columns by name, casefolded.
    """

    encoding: str | None = None
    delimiter: str | None = None
    decimal: Literal[".", ","] = "."
    header: bool = True
    tags: bool = False
    member: str | None = None
    types: Mapping[str, VariableType] = field(default_factory=dict)

    def type_of(self, column: str) -> VariableType | None:
        return self.types.get(column.casefold())


def rows_a_batch(columns: int) -> int:
    """How many rows of so many columns are held at once."""
    return max(1, min(ROWS_A_BATCH, CELLS_A_BATCH // max(columns, 1)))


def check_columns(columns: int) -> None:
    """Raises TheirError for more columns than any data set has, before anything is read by them."""
    if columns > MOST_COLUMNS:
        raise unreadable(f"it has {columns:,} columns; {MOST_COLUMNS:,} are read at most")


class Remark(NamedTuple):
    """What a reader wants people to know of a column (None: of the whole file); `row` counts observations from 1.

    `wrong` says that it cannot be sent like this.
    """

    column: str | None
    why: str
    row: int | None = None
    wrong: bool = False


class Reading(NamedTuple):
    """A file as a table: columns of any Arrow types, `sas.*` metadata where the file has such, and its rows, as often
    as they are asked for. The file must stay open while rows are read."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    remarks: tuple[Remark, ...] = ()


def unreadable(why: str, row: int | None = None) -> TheirError:
    """A file is not what it should be; `row` counts rows from 1."""
    return TheirError("unreadable-table", "" if row is None else f"row {row}", -1, why)
