"""SQL over tables, for the command line."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.cli.console import Failure
from app.ports import TableStore
from app.service import querying


@contextmanager
def answered(store: TableStore, sql: str, memory: str) -> Iterator[querying.Answer]:
    """Run a query, as `app.service.querying.answered`. Raises Failure, also during the iteration."""
    try:
        with querying.answered(store, sql, memory) as answer:
            yield answer
    except querying.QueryFailed as error:
        raise Failure(str(error), error.hint) from error
