"""Connections: readers, the writer, and the durability of writes.

There is one writer at a time. Within the process, `_write_lock` ensures that, so that threads never get SQLITE_BUSY.
Among processes (the gateway, and the job that assembles for it) a lock of the database does, which a transaction takes
when it begins. So there are no deadlocks, and the rows that a transaction has read do not change while it writes.
Readers have connections of their own and never wait: SQLite's write-ahead log and PostgreSQL both show them the last
committed state.

There are two kinds of write, which differ in when they reach the disk.

*Quick* writes follow from the journal (checkpoints, finishing, events). A power failure may lose the last of them. But
a transaction's `progress` is lost with its rows, so that the journal's replay repeats them. SQLite: synchronous NORMAL;
PostgreSQL: synchronous_commit off.

*Durable* writes do not follow from the journal: an accepted delivery, a deleted attachment or a dismissed quarantine
entry, which a client has been informed of. They are on disk on return. SQLite: synchronous FULL; PostgreSQL:
synchronous_commit on.

Both write to one log, in order: a durable write takes all quick writes before it to disk as well. A killed process
loses neither kind.

A gateway that has bound its journal to the catalog checks with every write that no other gateway has bound it since
(`admit`). So a gateway that was cut off from the database and replaced changes nothing when it comes back. And each
write to PostgreSQL looks whether the database may have forgotten something since the last one (`log_beginnings`).

A single statement that depends on no other row may do without a turn (`statement`): leases are renewed so, in time also
while somebody writes for long.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Dialect, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from adapters.connections import LogIn
from adapters.sql_catalog.database_errors import explained
from adapters.sql_catalog.locks import AdvisoryLock, FileLock, GatewayLock
from adapters.sql_catalog.log_beginnings import begin_log_if_due
from adapters.sql_catalog.schema.bounded_types import UNREADABLE, damaged
from adapters.sql_catalog.schema.migrations import upgrade
from adapters.sql_catalog.writer_turn import LONGEST_WAIT, take_turn
from app.model.errors import CatalogError, GatewayError
from app.model.masking import masked
from app.plugins import how_to_install
from app.secret import Changing

_SECRETS = ("password", "sslpassword")
"""Parameters of a URL that libpq takes instead of a password in front of the host."""
_REFUSALS = ("authentication failed", "no password supplied", "not permitted to log in", "no pg_hba.conf entry")
"""Words of the server's refusals. libpq does not tell the SQLSTATE of a connection that was not made."""


Insert = sqlite.Insert | postgresql.Insert
FROM_HEX = "octets_from_hex"
"""The function that every connection to SQLite has for lists of bytes: its own `unhex` came in version 3.41."""
_BUSY_TIMEOUT = "PRAGMA busy_timeout = 30000"
_SQLITE_WRITER = (
    _BUSY_TIMEOUT,
    "PRAGMA journal_mode = WAL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA cache_size = -16384",
    "PRAGMA wal_autocheckpoint = 4096",
    "PRAGMA journal_size_limit = 67108864",
)
_LARGE_CACHE = "PRAGMA cache_size = -32768"
"""For very many rows at once: their identifiers have no order, so that they change most pages of the indexes. A smaller
cache writes these pages several times in a transaction."""
_KEEP_ALIVE = ("SET tcp_keepalives_idle TO 10", "SET tcp_keepalives_interval TO 5", "SET tcp_keepalives_count TO 3")
"""The server notices within half a minute that the machine of a client is gone, and with it its locks."""
_IN_TIME = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""For libpq, unless the URL says otherwise: the client, too, notices that the machine of the server is gone."""
# A plan that is made for any values, which PostgreSQL prefers after some executions, does not know where in an order a
# page begins and ends, and then reads all rows. Readers read few rows: where PostgreSQL expects many, starting more
# processes or compiling the query would take longer than reading.
_ON_CONNECT: dict[tuple[str, str], tuple[str, ...]] = {
    ("sqlite", "reader"): (_BUSY_TIMEOUT, "PRAGMA query_only = ON"),
    ("sqlite", "quick"): (*_SQLITE_WRITER, "PRAGMA synchronous = NORMAL"),
    ("sqlite", "durable"): (*_SQLITE_WRITER, "PRAGMA synchronous = FULL"),
    ("postgresql", "reader"): (
        "SET plan_cache_mode TO force_custom_plan",
        "SET max_parallel_workers_per_gather TO 0",
        "SET jit TO off",
        *_KEEP_ALIVE,
    ),
    ("postgresql", "quick"): ("SET synchronous_commit TO off", *_KEEP_ALIVE),
    ("postgresql", "durable"): ("SET synchronous_commit TO on", *_KEEP_ALIVE),
    ("postgresql", "statement"): ("SET synchronous_commit TO on", *_KEEP_ALIVE),
}
_BEGIN_WRITING: dict[str, Callable[[Connection], object]] = {
    # An ordinary BEGIN takes the lock with the first write, and fails if another process wrote after the first read.
    "sqlite": lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"),
    "postgresql": take_turn,
}
_READERS: dict[str, Any] = {"pool_size": 8, "max_overflow": 8, "isolation_level": "AUTOCOMMIT"}
_WRITER: dict[str, Any] = {"pool_size": 1, "max_overflow": 0}
_STATEMENT: dict[str, Any] = {**_WRITER, "isolation_level": "AUTOCOMMIT"}


def parsed(url: str) -> URL:
    """Return a URL in its parts. Raises ValueError, which shows nothing of it: a password may be in a wrong place."""
    how = "write postgresql+psycopg://user:password@host/name, with %40 for each @ and %2F for each / in the password"
    try:
        found = make_url(str(url))
    except (ArgumentError, ValueError):
        raise ValueError(f"the URL of the catalog cannot be read: {how}") from None
    if "@" in (found.host or "") or "@" in (found.database or ""):
        raise ValueError(f"the URL of the catalog has more than one @: {how}")
    return found


def check_url(url: str) -> URL:
    """Return a URL in its parts. Raises ValueError for one that is neither a SQLite file nor PostgreSQL."""
    found = parsed(url)
    dialect = found.get_backend_name()
    if dialect not in ("sqlite", "postgresql"):
        raise ValueError(f"unsupported catalog database {dialect!r}: use sqlite or postgresql")
    if dialect == "sqlite" and (not found.database or found.database == ":memory:"):
        raise ValueError("a SQLite catalog needs a file: its readers and writers have connections of their own")
    return found


class DatabaseAddress:
    """The URL of a database. Each connection logs in with the user and password that the file of `url_file` has then.
    Nothing else of the URL changes."""

    def __init__(self, url: str) -> None:
        self._given = url
        self.url = check_url(url)
        self.log_in = LogIn(url=url if isinstance(url, Changing) else None)

    def connect(self, dialect: Dialect, parameters: dict[str, Any]) -> Any:
        """Return a connection of the driver with these parameters, but with the current user and password."""
        if isinstance(self._given, Changing) and self._given.file is not None:
            current = parsed(self._given.current)
            query = self.url.query | {name: current.query[name] for name in _SECRETS if name in current.query}
            url = self.url.set(username=current.username, password=current.password, query=query)
            _, fresh = dialect.create_connect_args(url)
            parameters |= {name: fresh[name] for name in ("user", *_SECRETS) if name in fresh}
        limits = _IN_TIME if dialect.driver.startswith("psycopg") else {}
        try:
            connection = dialect.connect(**limits | parameters)
        except dialect.loaded_dbapi.OperationalError as error:
            if any(words in str(error) for words in _REFUSALS):
                self.log_in.refused()
            raise
        self.log_in.accepted()
        return connection


class SqliteImages(NamedTuple):
    """Images of databases of SQLite that all have these tables, at most ten."""

    tables: Sequence[str]
    images: Sequence[bytes]


class Database:
    """The database at a URL, its schema migrated to the newest version if it `upgrades`.

    `_write_lock` allows one write at a time, and guards the engines `_durable` and `_quick`.

    Raises ValueError for a URL that is neither a SQLite file nor PostgreSQL. Raises GatewayError when the driver is
    missing, or when a newer program has made the schema.
    """

    def __init__(self, url: str, *, upgrades: bool = True) -> None:
        self.address = DatabaseAddress(url)
        address = self.address.url
        self.dialect, self.driver = address.get_backend_name(), address.get_driver_name()
        if self.dialect == "sqlite":
            Path(address.database or "").parent.mkdir(parents=True, exist_ok=True)
        self.place = str(address.database) if self.dialect == "sqlite" else masked(url)
        self.begins_logs = False
        """Whether writes look if a log of events has to begin: once the schema is there, and is this version's."""
        self.admit: Callable[[Connection], None] = lambda _connection: None
        """A function that runs at the start of every write. It raises CatalogTaken when this process may no longer
        write."""
        self._write_lock = Lock()
        self._durable = _engine(self.address, "durable", **_WRITER)
        self._quick = _engine(self.address, "quick", **_WRITER)
        self._readers = _engine(self.address, "reader", **_READERS)
        self._statements = None if self.dialect == "sqlite" else _engine(self.address, "statement", **_STATEMENT)
        self.lock: GatewayLock = (
            FileLock(Path(address.database or ""))
            if self.dialect == "sqlite"
            else AdvisoryLock(
                _engine(self.address, "reader", poolclass=NullPool, isolation_level="AUTOCOMMIT"), self.place
            )
        )
        try:
            if upgrades:
                self.upgrade()
        except BaseException:
            self.close()
            raise

    def upgrade(self, *, only_new: bool = False) -> None:
        """Migrate the schema to the newest version; with `only_new`, only if there is none yet."""
        with self.write(durable=True) as connection:
            upgrade(connection, self.place, only_new=only_new)
        self.begins_logs = not only_new and self.dialect == "postgresql"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection on which every statement sees the last committed state."""
        with explained(self.place), self._readers.connect() as connection:
            yield connection

    @contextmanager
    def write(self, *, durable: bool = False, attached: SqliteImages | None = None) -> Iterator[Connection]:
        """Open a transaction, the only writer of this database. It is rolled back when the block raises an error.

        It can read the tables of the `attached` images. Raises CatalogError if others write for too long.
        """
        engine = self._durable if durable else self._quick
        with (
            explained(self.place),
            self._turn(),
            engine.connect() as connection,
            _attached(connection, attached),
            connection.begin(),
        ):
            if self.begins_logs:
                begin_log_if_due(connection)
            self.admit(connection)
            yield connection

    @contextmanager
    def statement(self) -> Iterator[Connection]:
        """Open a connection for a single statement that changes rows. It is durable, and waits for no turn; only in
        SQLite all writers wait for each other."""
        if self._statements is None:
            with self.write(durable=True) as connection:
                yield connection
        else:
            with explained(self.place), self._statements.connect() as connection:
                yield connection

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the lock of this process's writers for the block. Raises CatalogError after LONGEST_WAIT."""
        if not self._write_lock.acquire(timeout=LONGEST_WAIT):
            raise CatalogError(
                f"the catalog {self.place} cannot be written at present: another thread has been writing for "
                f"{LONGEST_WAIT:.0f} s"
            )
        try:
            yield
        finally:
            self._write_lock.release()

    def also_requiring(self, require: Callable[[Connection], None]) -> "Database":
        """Return this database, with the same connections, for writes that `require` admits as well."""
        view = copy(self)

        def admit(connection: Connection) -> None:
            self.admit(connection)
            require(connection)

        view.admit = admit
        return view

    def admitting_all(self) -> "Database":
        """Return this database, with the same connections, for a write that needs no admission."""
        view = copy(self)
        view.admit = lambda _connection: None
        return view

    def insert(self, table: Table) -> Insert:
        """Return an INSERT of the dialect that supports ON CONFLICT."""
        return sqlite.insert(table) if self.dialect == "sqlite" else postgresql.insert(table)

    def upsert(self, table: Table, *changed: str) -> Insert:
        """Return an INSERT that changes these columns of a row that is there already, by its primary key."""
        new = self.insert(table)
        return new.on_conflict_do_update(
            index_elements=table.primary_key.columns, set_={name: new.excluded[name] for name in changed}
        )

    def close(self) -> None:
        self.lock.release()
        with self._write_lock:
            for engine in (self._readers, self._quick, self._durable, self._statements):
                if engine is not None:
                    engine.dispose()


@contextmanager
def _attached(connection: Connection, attached: SqliteImages | None) -> Iterator[None]:
    """Attach images, if there are some, while the connection is in no transaction.

    Views have the rows of all of them. Each image is attached anew: SQLite would read another image by the schema of
    the first.
    """
    if attached is None:
        yield
        return
    driver: Any = connection.connection.driver_connection
    driver.execute(_LARGE_CACHE)
    with ExitStack() as opened:
        names = [f"staged_{number}" for number in range(len(attached.images))]
        for name, image in zip(names, attached.images, strict=True):
            driver.execute(f"ATTACH ':memory:' AS {name}")
            opened.callback(driver.execute, f"DETACH {name}")
            driver.deserialize(image, name=name)
        for table in attached.tables:
            rows = " UNION ALL ".join(f"SELECT * FROM {name}.{table}" for name in names)  # noqa: S608 - names of modules
            driver.execute(f"CREATE TEMPORARY VIEW {table} AS {rows}")
            opened.callback(driver.execute, f"DROP VIEW temp.{table}")
        yield


def to_json(value: Any) -> str:
    """Return a value as JSON. Texts may hold lone surrogates, which only ASCII escapes can represent."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value)


def _from_json(text: str | bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:  # an escaped lone surrogate
        try:
            return json.loads(text)
        except UNREADABLE as error:
            raise damaged("a value in JSON", error) from error


def engine_of(url: URL, **options: Any) -> Engine:
    """Return an engine that shows no parameters, which are user data, in exceptions or logs.

    Raises GatewayError when the driver is missing.
    """
    try:
        return create_engine(url, hide_parameters=True, **options)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise GatewayError(f"no driver for {url.drivername} ({error}): {how_to_install('psycopg')}") from error


def _engine(address: DatabaseAddress, role: str, **options: Any) -> Engine:
    dialect = address.url.get_backend_name()
    engine = engine_of(
        address.url,
        pool_pre_ping=dialect == "postgresql",
        json_serializer=to_json,
        json_deserializer=_from_json,
        **options,
    )
    statements = _ON_CONNECT[dialect, role]

    if dialect == "postgresql":

        @event.listens_for(engine, "do_connect")
        def connect(dialect: Dialect, _record: object, _positional: object, parameters: dict[str, Any]) -> Any:
            return address.connect(dialect, parameters)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        if dialect == "sqlite":
            # The driver must not begin transactions by itself: it would begin them as readers.
            connection.isolation_level = None
            connection.create_function(FROM_HEX, 1, bytes.fromhex, deterministic=True)
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        cursor.close()
        if dialect == "postgresql":
            connection.commit()

    if role in ("quick", "durable"):

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            _BEGIN_WRITING[dialect](connection)

    return engine
