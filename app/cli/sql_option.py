"""SQL over tables, for the command line."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.cli.terminal import Failure
from app.ports import TableStore
from app.service.tables import sql_queries


@contextmanager
def answered(store: TableStore, sql: str, memory: str) -> Iterator[sql_queries.QueryResult]:
    """Run a query, as `app.service.tables.sql_queries.answered`. Raises Failure, also during the iteration."""
    try:
        with sql_queries.answered(store, sql, memory) as answer:
            yield answer
    except sql_queries.QueryFailed as error:
        raise Failure(str(error), error.hint) from error
