"""The adapters of data set tables, loaded when they are first asked for: reading tables needs libraries of its own."""

from threading import Lock

from app import plugins
from app.ports import IcebergTables, TableStore
from app.settings import Settings


class TableAdapters:
    """The tables at `tables_url`. The lock guards `_delta` and `_iceberg`."""

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
