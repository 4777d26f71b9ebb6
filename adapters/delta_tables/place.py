"""Where tables lie."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from obstore.exceptions import BaseError

from adapters.disk import NO_SPACE
from app.model.errors import OurError, StoreFull

LOG = "_delta_log"


class Place(Protocol):
    """Files by path, below the folder of all tables."""

    def folders(self) -> Iterator[str]:
        """Those that hold a table."""

    def location(self, folder: str) -> str: ...

    def create(self, path: str) -> AbstractContextManager[Any]:
        """A file to write, durable when the block ends; forgotten when it raises."""

    def size(self, path: str) -> int: ...

    def put_new(self, path: str, data: bytes) -> bool:
        """Makes a file whole and durable at once; False, and nothing is done, when there is one of that name."""

    def open(self, path: str) -> AbstractContextManager[Any]:
        """A file to read, from any place."""

    def flush(self, paths: Iterable[str]) -> None:
        """Makes durable what others have written, as far as it is still there."""

    def files(self, folder: str) -> list[str]:
        """The files of a table, without its log."""

    def delete(self, path: str) -> None:
        """No error if there is none."""

    def sweep(self, folder: str, older_than: float) -> None:
        """Forgets what killed processes left in a table's log so many seconds ago."""


@contextmanager
def explained() -> Iterator[None]:
    """What goes wrong inside, said as it is meant for people."""
    try:
        yield
    except (BaseError, OSError) as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise StoreFull(f"no space left for tables: {error}") from error
        raise OurError(f"the tables cannot be read or written: {error}") from error
