"""The lock that allows only one gateway for each catalog.

The Spark job and commands that only read do not take it. For SQLite it is a file in the catalog's folder that is locked
by `flock`, which ends with the process. In PostgreSQL it is an advisory lock of a connection that does nothing else. It
ends with that connection, so `take` checks each time that the connection is still open.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Protocol

import structlog
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from adapters.sql_catalog.database_errors import explained
from app.model.errors import CatalogError, CatalogTaken

_KEY = 1734440296
_LONGEST_WAIT = 5.0
_PAUSE = 0.2
"""The wait for the lock in seconds: the server needs a moment to notice that a killed gateway's connection is gone."""

_log = structlog.get_logger(__name__)


class GatewayLock(Protocol):
    """A lock that one process at a time can hold, or several that share it."""

    def take(self, *, shared: bool = False) -> None:
        """Take the lock, or verify that it is still held. Raises CatalogTaken when another process has it, and does not
        share it as well."""

    def release(self) -> None: ...


def taken(place: str, by: str = "") -> CatalogTaken:
    """Return the error of a process that may not use the catalog in a place, as another one does."""
    return CatalogTaken(
        f"another gateway{by} is running with the catalog {place}: "
        "stop it first, or configure another catalog for this one"
    )


class FileLock:
    """A lock file in the folder of a SQLite catalog."""

    def __init__(self, catalog: Path) -> None:
        self._place = str(catalog)
        self._path = catalog.with_name(catalog.name + ".lock")
        self._descriptor = -1

    def take(self, *, shared: bool = False) -> None:
        if self._descriptor >= 0 and self._is_named():
            return
        self.release()
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise CatalogError(f"{self._path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise taken(self._place, f" (process {holder})" if holder else "") from None
        except OSError as error:
            os.close(descriptor)
            raise CatalogError(f"{self._path} cannot be locked: {error.strerror}") from error
        self._descriptor = descriptor
        with suppress(OSError):  # the process number is only information for users
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _is_named(self) -> bool:
        """Tell whether the locked file still has its name: it may have been deleted."""
        with suppress(OSError):
            return os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        return False


class AdvisoryLock:
    """An advisory lock of a PostgreSQL database, one for each schema."""

    def __init__(self, engine: Engine, place: str) -> None:
        self._engine, self._place = engine, place
        self._connection: Connection | None = None

    def take(self, *, shared: bool = False) -> None:
        is_again = self._connection is not None
        if self._connection is not None:
            with suppress(DBAPIError):
                self._connection.execute(text("SELECT 1"))
                return
        self.release()
        with explained(self._place):
            connection = self._engine.connect()
        try:
            function = "pg_try_advisory_lock_shared" if shared else "pg_try_advisory_lock"
            asked = text(f"SELECT {function}(:key, hashtext(current_schema()))")
            deadline = monotonic() + _LONGEST_WAIT
            with explained(self._place):
                while not (is_taken := bool(connection.scalar(asked, {"key": _KEY}))) and monotonic() < deadline:
                    sleep(_PAUSE)
        except BaseException:
            connection.close()
            raise
        if not is_taken:
            connection.close()
            raise taken(self._place)
        self._connection = connection
        if is_again:
            _log.warning("catalog_lock_retaken", reason="the connection that held it was lost")

    def release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()  # the end of the session releases the lock
            connection.close()
