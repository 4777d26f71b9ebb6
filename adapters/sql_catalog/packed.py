"""Rows that other processes have prepared, which the database takes as a whole.

To bind values to the parameters of a statement costs several times as much as to store them. So the processes that make
records also make their rows, in a form that the database reads by itself: for SQLite the image of a small database, for
PostgreSQL the text of COPY. The rows are staged in tables of their own, and one statement for each table takes them.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    MetaData,
    Table,
    bindparam,
    case,
    insert,
    null,
    select,
    true,
)
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.schema import CreateTable

from adapters.sql_catalog import tables
from adapters.sql_catalog.assembly import Assembly
from adapters.sql_catalog.bulk import Prepared
from adapters.sql_catalog.closing import as_finished
from adapters.sql_catalog.database import to_json
from adapters.sql_catalog.part import among
from adapters.sql_catalog.rows import Columns, attachment_columns, columns_of, message_columns, pack_triplets
from app.model.records import Checkpoint, NewEvent
from app.ports.catalog.packed import Packed

_EVENT = ("type", "subject", "data", "trace_parent")


def _staged(table: Table, names: Sequence[str]) -> Table:
    return Table(f"staged_{table.name}", _metadata, *(Column(name, table.c[name].type) for name in names))


_metadata = MetaData()
_attachments = _staged(tables.attachments, tables.attachments.columns.keys())
_extents = _staged(tables.extents, tables.extents.columns.keys())
_messages = _staged(tables.messages, tables.messages.columns.keys())
_events = _staged(tables.events, _EVENT)
_TABLES = {
    _attachments: tables.attachments,
    _extents: tables.extents,
    _messages: tables.messages,
    _events: tables.events,
}
"""The tables of staged rows, and where their rows go."""

# Both databases take the values that SQLite's driver takes: texts, integers, bytes and nothing else.
_DIALECT = SQLiteDialect_pysqlite(json_serializer=to_json)
_PREPARED = {table: Prepared(insert(table), table.columns.keys(), _DIALECT) for table in _TABLES}

_now = bindparam("now", type_=BigInteger)
_ADD_ATTACHMENTS = insert(tables.attachments).from_select(
    _attachments.columns.keys(),
    select(*(_now if column.name == "finished_at" else column for column in _attachments.columns)),
)
_ADD_EXTENTS = insert(tables.extents).from_select(_extents.columns.keys(), select(_extents))
_NEW_EVENTS = select(*_events.columns, _now)
_EVENT_COLUMNS = (*_EVENT, "time")
_ADD_EVENTS = insert(tables.events).from_select(_EVENT_COLUMNS, _NEW_EVENTS)


# --- making them ------------------------------------------------------------------------------------------------------


def pack(packing: str, checkpoint: Checkpoint) -> Packed:
    """Return the rows of a checkpoint, as `app.ports.CatalogPlugin` specifies."""
    attachments = attachment_columns(checkpoint.attachments)
    packed = [pack_triplets(each.extents) for each in checkpoint.finished if each.extents]
    columns: dict[Table, Columns] = {
        _attachments: as_finished(attachments, {each.id: each for each in checkpoint.finished}),
        _extents: {
            "attachment_id": [each.id for each in checkpoint.finished if each.extents],
            "extents": packed,
        },
        _messages: message_columns(checkpoint.messages),
        _events: columns_of(NewEvent, checkpoint.events),
    }
    return _PACK[packing]({table: _PREPARED[table].rows(found) for table, found in columns.items()})


def _image(rows: Mapping[Table, Iterator[Any]]) -> Packed:
    """Return the image of a database with these rows, and without any index."""
    with closing(sqlite3.connect(":memory:")) as database:
        for table, some in rows.items():
            database.execute(str(CreateTable(table).compile(dialect=_DIALECT)))
            database.executemany(_PREPARED[table].sql, some)
        database.commit()
        return (database.serialize(),)


def _copies(rows: Mapping[Table, Iterator[Any]]) -> Packed:
    """Return the text of COPY of each table's rows."""
    return tuple("".join("\t".join(map(_text, row)) + "\n" for row in some).encode() for some in rows.values())


def _text(value: str | bytes | int | None) -> str:
    return _TEXTS[type(value)](value)


def _escaped(value: str) -> str:
    return value if value.isprintable() and "\\" not in value else value.translate(_ESCAPES)


_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_TEXTS: Mapping[type, Callable[[Any], str]] = {
    str: _escaped,
    int: str,
    bytes: lambda value: f"\\\\x{value.hex()}",
    type(None): lambda _value: "\\N",
}
_PACK: Mapping[str, Callable[[Mapping[Table, Iterator[Any]]], Packed]] = {"sqlite": _image, "postgresql": _copies}


# --- taking them ------------------------------------------------------------------------------------------------------


class PackedRows(Assembly):
    """`app.ports.PackedCatalog` over SQL."""

    def packing(self) -> str | None:
        """Return the database's form. SQLite may have been built without images, and only one driver of PostgreSQL has
        COPY in this way."""
        if self._database.dialect == "sqlite":
            return "sqlite" if hasattr(sqlite3.Connection, "deserialize") else None
        return "postgresql" if self._database.driver == "psycopg" else None

    def add_finished(self, packed: Packed, now: int) -> bool:
        try:
            with self._staged(packed) as connection:
                for statement in (_ADD_ATTACHMENTS, _ADD_EXTENTS, _ADD_EVENTS):
                    connection.execute(statement, {"now": now})
        except IntegrityError:
            return False
        return True

    def add_messages(self, packed: Packed, incomplete: Sequence[str], now: int) -> None:
        with self._staged(packed) as connection:
            lacking = among(connection, _messages.c.id, incomplete)
            at = case((lacking, null()), else_=_now)
            found = select(*(at if column.name == "complete_at" else column for column in _messages.columns))
            upsert = self._message_upsert.from_select(_messages.columns.keys(), found.where(true()))
            connection.execute(upsert, {"now": now})
            untold = among(connection, _events.c.subject, incomplete)
            told = insert(tables.events).from_select(_EVENT_COLUMNS, _NEW_EVENTS.where(~untold))
            connection.execute(told, {"now": now})

    @contextmanager
    def _staged(self, packed: Packed) -> Iterator[Connection]:
        """Open a transaction that can read the tables of staged rows."""
        if self._database.dialect == "sqlite":
            (image,) = packed
            with self._database.write(attached=image) as connection:
                yield connection
        else:
            with self._database.write() as connection:
                _copy(connection.connection, packed)
                yield connection


def _copy(driver: Any, packed: Packed) -> None:
    """Copy rows to tables that end with the transaction."""
    with closing(driver.cursor()) as cursor:
        for (table, target), text in zip(_TABLES.items(), packed, strict=True):
            names = ", ".join(f'"{name}"' for name in table.columns.keys())  # noqa: SIM118 - columns, not a dict
            like = f"SELECT {names} FROM {target.name} WITH NO DATA"  # noqa: S608 - names of this module
            cursor.execute(f"CREATE TEMPORARY TABLE {table.name} ON COMMIT DROP AS {like}")
            with cursor.copy(f"COPY {table.name} ({names}) FROM STDIN") as copy:
                copy.write(text)
