"""A catalog's database as a whole: checking it, setting it aside, copying it out and in.

A copy is always a SQLite file, so that a backup of one kind of database can be restored into the other.
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

from sqlalchemy import Connection, delete, func, insert, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError

from adapters.disk import make_folders, sync_folder
from adapters.sql_catalog.database_connections import Database, engine_of, parsed
from adapters.sql_catalog.database_errors import explained
from adapters.sql_catalog.log_beginnings import begin_event_log
from adapters.sql_catalog.parts.keys import api_key
from adapters.sql_catalog.schema import catalog_tables
from adapters.sql_catalog.schema.catalog_tables import api_keys
from adapters.sql_catalog.schema.migrations import COPY_OF, require_known
from app.model.errors import GatewayError
from app.model.masking import masked
from app.model.principals import ApiKey
from app.model.records import QuarantineCopy

ROWS_AT_ONCE = 1000
_MOST_PROBLEMS = 10
_SUFFIXES = ("", "-wal", "-shm")
_SOUND = "ok"
_DIFFERS = re.compile(f"(row [0-9]+) missing from index {COPY_OF}(.+)")
"""SQLite's message about a row that is not like its copy."""
_UNREADABLE = (SQLAlchemyError, UnicodeDecodeError, GatewayError)
_NUMBERED = ("events", "part_runs")


class Maintenance:
    """The database at a SQLAlchemy URL, as `app.ports.CatalogDatabase`. Raises the same errors as `Database`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._address = parsed(url)
        self.place = masked(url)

    def exists(self) -> bool:
        if (path := self._path) is not None:
            return path.exists() and path.stat().st_size > 0
        with self._connected() as connection:
            return inspect(connection).has_table(catalog_tables.attachments.name)

    def require_known(self) -> None:
        if self._path is None or self.exists():
            with self._connected() as connection:
                require_known(connection, self.place)

    def problems(self) -> list[str]:
        path = self._path
        if path is None:
            return []
        try:
            with closing(_read_only(path)) as connection:
                connection.text_factory = partial(str, encoding="utf-8", errors="replace")  # damaged names
                found = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({_MOST_PROBLEMS})")]
                found += [
                    f"a row of {row[0]} has no {row[2]}" for row in connection.execute("PRAGMA foreign_key_check")
                ]
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter: a message with a damaged name
            return [str(error)]
        found = [_DIFFERS.sub(r"\1 of \2 is not as it was written", each) for each in found if each != _SOUND]
        return found[:_MOST_PROBLEMS]

    def sound_keys(self) -> list[ApiKey]:
        if self._path is None:
            return []
        with suppress(*_UNREADABLE), self._connected() as connection:
            found = connection.exec_driver_sql(f"PRAGMA integrity_check({api_keys.name})").scalars().all()
            if found == [_SOUND]:
                return [api_key(row) for row in connection.execute(select(api_keys))]
        return []

    def quarantine_copies(self, quarantine_ids: Sequence[str]) -> list[QuarantineCopy]:
        copies = catalog_tables.quarantine_copies
        wanted = select(copies).where(copies.c.id.in_(quarantine_ids))
        with suppress(*_UNREADABLE), self._connected() as connection:
            return [QuarantineCopy._make(row) for row in connection.execute(wanted)]
        return []

    def is_empty(self) -> bool:
        if not self.exists():
            return True
        with closing(Database(self._url)) as database, database.read() as connection:
            counted = (
                catalog_tables.attachments,
                catalog_tables.messages,
                catalog_tables.deliveries,
                catalog_tables.quarantine,
            )
            return not any(connection.scalar(select(func.count()).select_from(table)) for table in counted)

    def set_aside(self) -> str:
        path = self._path
        if path is None:
            with closing(Database(self._url)) as database, database.write(durable=True) as connection:
                for table in reversed(catalog_tables.metadata.sorted_tables):
                    connection.execute(delete(table))
                connection.execute(insert(catalog_tables.progress).values(id=1, position=None))
                begin_event_log(connection)
            return f"the rows of {self.place} were removed"

        names = (path.with_name(f"{path.name}.aside-{number}") for number in count(1))
        aside = next(each for each in names if not each.exists())
        for suffix in _SUFFIXES:
            file = path.with_name(path.name + suffix)
            if file.exists():
                file.rename(aside.with_name(aside.name + suffix))
        sync_folder(path.parent)
        return str(aside)

    def snapshot(self, target: Path) -> None:
        path = self._path
        if path is not None:
            with closing(_read_only(path)) as source, closing(sqlite3.connect(target)) as copy:
                try:
                    source.backup(copy)
                except sqlite3.DatabaseError as error:
                    raise GatewayError(f"the catalog {self.place} cannot be copied: {error}") from error
        else:
            with (
                closing(Database(f"sqlite:///{target}")) as database,
                database.write(durable=True) as connection,
                self._connected("REPEATABLE READ") as source_rows,  # the state that one transaction sees
            ):
                _copy(source_rows, connection)
        with closing(sqlite3.connect(target)) as whole:  # merge the write-ahead log into the file
            whole.execute("PRAGMA journal_mode = DELETE")

    def load(self, source: Path) -> None:
        if not self.is_empty():
            raise GatewayError(f"the catalog {self.place} is not empty: restore into an empty catalog")
        path = self._path
        if path is not None:
            make_folders(path.absolute().parent)
            with closing(_read_only(source)) as copied, closing(sqlite3.connect(path)) as target:
                copied.backup(target)
            sync_folder(path.absolute().parent)
            return
        with (
            closing(Database(f"sqlite:///{source}")) as copied_database,
            closing(Database(self._url)) as database,
            copied_database.read() as rows,
            database.write(durable=True) as connection,
        ):
            _copy(rows, connection)
            for name in _NUMBERED:
                connection.execute(
                    text(
                        f"SELECT setval(pg_get_serial_sequence('{name}', 'number'), "  # noqa: S608 - names of our own
                        f"(SELECT COALESCE(MAX(number), 1) FROM {name}))"
                    )
                )

    @property
    def _path(self) -> Path | None:
        """Return the file of a SQLite database; None for PostgreSQL."""
        return Path(self._address.database or "") if self._address.get_backend_name() == "sqlite" else None

    @contextmanager
    def _connected(self, isolation: str = "AUTOCOMMIT") -> Iterator[Connection]:
        path = self._path
        creator = {} if path is None else {"creator": lambda: _read_only(path)}
        engine = engine_of(self._address, isolation_level=isolation, **creator)
        try:
            with explained(self.place), engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()


def _copy(source: Connection, target: Connection) -> None:
    for table in reversed(catalog_tables.metadata.sorted_tables):
        target.execute(delete(table))
    for table in catalog_tables.metadata.sorted_tables:
        found = source.execution_options(yield_per=ROWS_AT_ONCE).execute(select(table))
        for rows in found.partitions(ROWS_AT_ONCE):
            target.execute(insert(table), [dict(row._mapping) for row in rows])


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)
