"""The storage interface of tables."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from obstore.exceptions import BaseError

from adapters.disk import NO_SPACE
from app.model.errors import GatewayError, StoreFull

LOG = "_delta_log"


class TableStorage(Protocol):
    """Files by path, below the folder of all tables."""

    def folders(self) -> Iterator[str]:
        """Yield the folders that hold a table."""

    def location(self, folder: str) -> str: ...

    def create(self, path: str) -> AbstractContextManager[Any]:
        """Open a file for writing. It is durable when the block ends, and deleted when the block raises an error."""

    def size(self, path: str) -> int: ...

    def has(self, path: str) -> bool: ...

    def may_have_log(self, folder: str) -> bool:
        """Tell whether a folder may have a log. False only if that costs no request."""

    def put_new(self, path: str, data: bytes) -> bool:
        """Create a complete and durable file in one step. Return False, and change nothing, if the name exists."""

    def open(self, path: str) -> AbstractContextManager[Any]:
        """Open a file for reading at any offset."""

    def flush(self, paths: Iterable[str]) -> None:
        """Make files of other processes durable, if they still exist."""

    def files(self, folder: str) -> list[str]:
        """Return the files of a table, without its log."""

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""

    def sweep(self, folder: str, older_than: float) -> None:
        """Delete partial files older than this number of seconds, which killed processes have left in a table's log."""


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors of the storage into GatewayError and StoreFull."""
    try:
        yield
    except (BaseError, OSError) as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise StoreFull(f"no space left for tables: {error}") from error
        raise GatewayError(f"the tables cannot be read or written: {error}") from error
