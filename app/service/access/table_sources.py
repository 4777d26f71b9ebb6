"""The sources of a table's rows: a table has the data sets of all sources together."""

from functools import lru_cache

import pyarrow.compute as pc

from app.ports import TableStore

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
