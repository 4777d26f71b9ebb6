"""Tables as they are read: found by name, one version at a time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from app.ports import TableStore, TableVersion

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset


@dataclass(frozen=True, slots=True)
class OpenTable:
    """One version of a table: its columns with their metadata, and its rows."""

    version: TableVersion
    schema: pa.Schema
    dataset: "Dataset"


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
    return OpenTable(store.describe(name), store.schema(name), store.dataset(name))
