"""Tables for reading: opened when they are first asked for, found by name, one version at a time."""

from functools import lru_cache
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc

from app import plugins
from app.dataset.description import DataSetDescription, contents
from app.model.message import Position
from app.model.names import folded
from app.ports import IcebergTables, OpenTable, TableStore, TableVersion
from app.settings import Settings
from app.tables.column_remarks import remarks
from app.tables.quality import QUALITY, summed

APPLICATION = "attachment-gateway"
"""The beginning of the applications in the tables' transactions of the pipeline."""


class TableAdapters:
    """The adapters of the tables at `tables_url`, loaded when they are first asked for: each needs its own libraries.

    The lock guards `_delta` and `_iceberg`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = Lock()
        self._delta: TableStore | None = None
        self._iceberg: IcebergTables | None = None

    def delta(self) -> TableStore:
        """Return the store of tables. Raises PluginError when the library that reads them is missing."""
        with self._lock:
            if self._delta is None:
                self._delta = plugins.table_store()(self._settings.tables_url)
            return self._delta

    def iceberg(self) -> IcebergTables:
        """Return the tables as Iceberg tables. Raises PluginError when the library that makes them is missing."""
        with self._lock:
            if self._iceberg is None:
                self._iceberg = plugins.iceberg()(self._settings.tables_url, self._settings.data)
            return self._iceberg


def application(journal: str) -> str:
    """Return the application of a journal in the tables' transactions. Their numbers are packed positions in it."""
    return f"{APPLICATION}/{journal}"


def outline(store: TableStore, name: str) -> tuple[TableVersion, pa.Schema]:
    """Return the version and the columns of the table with exactly this name. Raises KeyError when there is none."""
    if name == QUALITY:
        opened = open_table(store, name)
        return opened.version, opened.schema
    return store.describe(name), store.schema(name)


def described(table: OpenTable) -> DataSetDescription:
    """Return the contents of a table, as of a data set; notes also tell how its columns came to be."""
    found = contents(table.schema, table.version.rows)
    variables = [
        variable._replace(notes=(*variable.notes, *remarks(table.schema.field(variable.column))))
        for variable in found.variables
    ]
    return found._replace(variables=tuple(variables))


def reached(store: TableStore, name: str) -> Position | None:
    """Return the pipeline's journal position at its last commit to a table; None for a table of another writer."""
    ours = (each for each in store.applications(name) if each.startswith(APPLICATION))
    transactions = (number for each in ours if (number := store.reached(name, each)) is not None)
    return next(map(Position.unpack, transactions), None)


def find_name(store: TableStore, name: str) -> str:
    """Return the table's exact name for a name in any case, since names in SAS ignore case.

    Raises KeyError when there is no such table, or several and none with the exact name.
    """
    names = store.names()
    if name in names:
        return name
    alike = [known for known in names if folded(known) == folded(name)]
    if len(alike) != 1:
        raise KeyError(name)
    return alike[0]


def open_table(store: TableStore, name: str) -> OpenTable:
    """Return the newest version of a table, by its name in any case. Raises KeyError when there is none."""
    opened = store.open(find_name(store, name))
    if opened.version.name != QUALITY:
        return opened

    # It is stored as increments.
    from pyarrow.dataset import InMemoryDataset  # noqa: PLC0415 - takes a quarter of a second to load

    rows = summed(opened.dataset.to_batches())
    return OpenTable(opened.version._replace(rows=rows.num_rows), rows.schema, InMemoryDataset(rows))


COLUMN = "source"
KEPT = 1000
"""The number of versions of tables whose sources stay in memory."""


def are_within(store: TableStore, name: str, sources: frozenset[str]) -> bool:
    """Tell whether every row of a table is of one of these sources. False for a table without rows' sources.

    Reads the column of all rows, once a version. Raises KeyError if there is no such table.
    """
    version = store.describe(name).version
    found = _sources(store, name, version)  # type: ignore[arg-type]  # mypy takes no Protocol for hashable
    return found is not None and found <= sources


@lru_cache(maxsize=KEPT)
def _sources(store: TableStore, name: str, version: int) -> frozenset[str] | None:  # noqa: ARG001 - the key
    if COLUMN not in store.schema(name).names:
        return None
    found: set[str] = set()
    for batch in store.rows(name, [COLUMN]):
        found.update(str(each) for each in pc.unique(batch.column(0)).to_pylist())
    return frozenset(found)
