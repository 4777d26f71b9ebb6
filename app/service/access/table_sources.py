"""The sources of a table's rows: a table has the data sets of all sources together."""

from collections import OrderedDict
from threading import Lock

import pyarrow.compute as pc

from app.ports import TableStore

COLUMN = "source"
KEPT = 1000
"""The number of tables whose sources stay in memory, at one version each."""


class TableSources:
    """The sources of tables, read once for each version of a table. The lock guards `_known`."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[int, frozenset[str] | None]] = OrderedDict()
        self._lock = Lock()

    def are_within(self, store: TableStore, name: str, sources: frozenset[str]) -> bool:
        """Tell whether every row of a table is of one of these sources. False for a table without rows' sources.

        Reads the column of all rows, once a version. Raises KeyError if there is no such table.
        """
        version = store.describe(name).version
        with self._lock:
            known = self._known.get(name)
        if known is None or known[0] != version:
            known = version, _sources(store, name)
            with self._lock:
                self._known[name] = known
                self._known.move_to_end(name)
                if len(self._known) > KEPT:
                    self._known.popitem(last=False)
        return known[1] is not None and known[1] <= sources


def _sources(store: TableStore, name: str) -> frozenset[str] | None:
    if COLUMN not in store.schema(name).names:
        return None
    found: set[str] = set()
    for batch in store.rows(name, [COLUMN]):
        found.update(str(each) for each in pc.unique(batch.column(0)).to_pylist())
    return frozenset(found)
