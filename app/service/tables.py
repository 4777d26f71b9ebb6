"""Tables as they are read: found by name, one version at a time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from app.dataset.contents import Contents, contents
from app.model.message import Position
from app.ports import TableStore, TableVersion
from app.tables.quality import QUALITY, summed
from app.tables.remarks import remarks

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

APPLICATION = "attachment-gateway"
"""By which tables know the transactions of the pipeline, whose numbers are packed journal positions."""


@dataclass(frozen=True, slots=True)
class OpenTable:
    """One version of a table: its columns with their metadata, and its rows."""

    version: TableVersion
    schema: pa.Schema
    dataset: "Dataset"


def outline(store: TableStore, name: str) -> tuple[TableVersion, pa.Schema]:
    """What a table of just this name is like, and its columns. Raises KeyError when there is none."""
    if name == QUALITY:
        opened = open_table(store, name)
        return opened.version, opened.schema
    return store.describe(name), store.schema(name)


def described(table: OpenTable) -> Contents:
    """What is known of a table's columns, as of a data set's variables; notes tell how they came to be, too."""
    found = contents(table.schema, table.version.rows)
    variables = [
        variable._replace(notes=(*variable.notes, *remarks(table.schema.field(variable.column))))
        for variable in found.variables
    ]
    return found._replace(variables=tuple(variables))


def reached(store: TableStore, name: str) -> Position | None:
    """How far in the journal the pipeline was when it last committed to a table; None where it is not its own."""
    transaction = store.reached(name, APPLICATION)
    return None if transaction is None else Position.unpack(transaction)


def find_name(store: TableStore, name: str) -> str:
    """The table's name as it is written, however it was asked for: names of SAS are alike in any case.

    Raises KeyError when there is none of this name, or several and none of them exactly.
    """
    names = store.names()
    if name in names:
        return name
    alike = [known for known in names if known.casefold() == name.casefold()]
    if len(alike) != 1:
        raise KeyError(name)
    return alike[0]


def open_table(store: TableStore, name: str) -> OpenTable:
    """The newest version of a table, by its name in any case. Raises KeyError when there is none."""
    exact = find_name(store, name)
    opened = _open(store, exact)
    while store.describe(exact).version != opened.version.version:  # committed to meanwhile
        opened = _open(store, exact)
    return opened


def _open(store: TableStore, name: str) -> OpenTable:
    opened = OpenTable(store.describe(name), store.schema(name), store.dataset(name))
    return _summed(opened) if name == QUALITY else opened


def _summed(table: OpenTable) -> OpenTable:
    """Quality, which is kept as increments, as the sums of them."""
    from pyarrow.dataset import InMemoryDataset  # noqa: PLC0415 - takes a quarter of a second to load

    rows = summed(table.dataset.to_batches())
    return OpenTable(table.version._replace(rows=rows.num_rows), rows.schema, InMemoryDataset(rows))
