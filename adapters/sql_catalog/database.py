"""Connections: who reads, who writes, and what a write's return promises.

There is one writer at a time: in the process by `_write_lock`, so that threads never meet SQLITE_BUSY, and among
processes (the gateway, and the job that assembles for it) by a lock of the database, which a transaction takes as it
begins; so nobody deadlocks, and what a transaction has read stays true while it writes. Readers have connections of
their own and wait for nobody: SQLite's write-ahead log and PostgreSQL both show them the last committed state.

Two kinds of write differ in when they reach the disk:

- *Quick* ones follow from the journal (checkpoints, finishing, events). A power cut may take the last of them, but a
  transaction's `progress` goes with its rows, so that the journal's replay does them again. SQLite: synchronous NORMAL;
  PostgreSQL: synchronous_commit off.
- *Durable* ones do not: a client was told that a delivery is accepted, that an attachment is deleted, that a
  quarantine entry is dismissed, and no journal could tell us so again. They are on disk on return. SQLite:
  synchronous FULL; PostgreSQL: synchronous_commit on.

Both write to one log, in order: a durable write takes all quick writes before it to disk as well. Neither kind is
lost by a killed process.

A gateway that has bound its journal's identity to the catalog asks, with every write, whether it still is the one that
did so last (`admit`): one that was cut off from the database and replaced changes nothing when it comes back.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.pool import NullPool

from adapters.sql_catalog.explaining import explained
from adapters.sql_catalog.locks import AdvisoryLock, FileLock, GatewayLock
from adapters.sql_catalog.migrations import upgrade
from app.model.errors import OurError

Insert = sqlite.Insert | postgresql.Insert

_BUSY_TIMEOUT = "PRAGMA busy_timeout = 30000"
_SQLITE_WRITER = (
    _BUSY_TIMEOUT,
    "PRAGMA journal_mode = WAL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA cache_size = -16384",
    "PRAGMA wal_autocheckpoint = 4096",
    "PRAGMA journal_size_limit = 67108864",
)
_ON_CONNECT: dict[tuple[str, str], tuple[str, ...]] = {
    ("sqlite", "reader"): (_BUSY_TIMEOUT, "PRAGMA query_only = ON"),
    ("sqlite", "quick"): (*_SQLITE_WRITER, "PRAGMA synchronous = NORMAL"),
    ("sqlite", "durable"): (*_SQLITE_WRITER, "PRAGMA synchronous = FULL"),
    ("postgresql", "reader"): (),
    ("postgresql", "quick"): ("SET synchronous_commit TO off",),
    ("postgresql", "durable"): ("SET synchronous_commit TO on",),
}
_BEGIN_WRITING = {
    # An ordinary BEGIN takes the lock with the first write, and fails when another wrote since the first read.
    "sqlite": "BEGIN IMMEDIATE",
    "postgresql": "SELECT pg_advisory_xact_lock(7017280452245743460)",
}
_READERS = {"pool_size": 8, "max_overflow": 8, "isolation_level": "AUTOCOMMIT"}
_WRITER = {"pool_size": 1, "max_overflow": 0}


class Database:
    """The database at a URL, its schema brought up to date.

    Raises ValueError for a URL that is neither a SQLite file nor PostgreSQL, OurError when the driver is missing or
    the schema is a newer program's.
    """

    def __init__(self, url: str) -> None:
        address = make_url(url)
        self.dialect = address.get_backend_name()
        if self.dialect not in ("sqlite", "postgresql"):
            raise ValueError(f"a catalog lives in sqlite or postgresql, not in {self.dialect}")
        if self.dialect == "sqlite":
            _make_folder(address)
        self.place = str(address.database) if self.dialect == "sqlite" else address.render_as_string()
        self.admit: Callable[[Connection], None] = lambda _connection: None
        """Raise CatalogTaken when the caller may not write any more; asked at the start of every write."""
        self._write_lock = Lock()
        self._durable = _engine(address, "durable", **_WRITER)
        self._quick = _engine(address, "quick", **_WRITER)
        self._readers = _engine(address, "reader", **_READERS)
        self.lock: GatewayLock = _lock(address, self.place)
        try:
            with self.write(durable=True) as connection:
                upgrade(connection)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection on which every statement sees the last committed state."""
        with explained(self.place), self._readers.connect() as connection:
            yield connection

    @contextmanager
    def write(self, *, durable: bool = False) -> Iterator[Connection]:
        """A transaction, alone on this database; it is undone when the block raises."""
        engine = self._durable if durable else self._quick
        with explained(self.place), self._write_lock, engine.begin() as connection:
            self.admit(connection)
            yield connection

    def insert(self, table: Table) -> Insert:
        """INSERT in the dialect that knows ON CONFLICT."""
        return sqlite.insert(table) if self.dialect == "sqlite" else postgresql.insert(table)

    def close(self) -> None:
        self.lock.release()
        with self._write_lock:
            for engine in (self._readers, self._quick, self._durable):
                engine.dispose()


def _lock(address: URL, place: str) -> GatewayLock:
    if address.get_backend_name() == "sqlite":
        return FileLock(Path(address.database or ""))
    return AdvisoryLock(_engine(address, "reader", poolclass=NullPool, isolation_level="AUTOCOMMIT"), place)


def _make_folder(address: URL) -> None:
    if not address.database or address.database == ":memory:":
        raise ValueError("a SQLite catalog needs a file: its readers and writers have connections of their own")
    Path(address.database).parent.mkdir(parents=True, exist_ok=True)


def _engine(address: URL, role: str, **options: Any) -> Engine:
    dialect = address.get_backend_name()
    try:
        # Parameters are other people's data: they stay out of exceptions, and so out of logs.
        engine = create_engine(address, hide_parameters=True, pool_pre_ping=dialect == "postgresql", **options)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise OurError(
            f"no driver for {address.drivername} ({error}): install attachment-gateway[postgresql]"
        ) from error
    statements = _ON_CONNECT[dialect, role]

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        if dialect == "sqlite":
            # The driver must not begin transactions by itself: it would begin them as readers.
            connection.isolation_level = None
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        cursor.close()
        if dialect == "postgresql":
            connection.commit()

    if role != "reader":

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            connection.exec_driver_sql(_BEGIN_WRITING[dialect])

    return engine
