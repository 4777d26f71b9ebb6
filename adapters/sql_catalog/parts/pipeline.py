"""What a pipeline writes: rows that its processes have prepared, which the database takes as a whole, and its runs.

To bind values to the parameters of a statement costs several times as much as to store them. So the processes that make
records also make their rows, in a form that the database reads by itself: for SQLite the image of a small database, for
PostgreSQL the text of COPY. The rows are staged in tables of their own, and one statement for each table takes them.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    MetaData,
    Row,
    Select,
    Table,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal_column,
    null,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.schema import CreateTable

from adapters.sql_catalog.bulk_rows import PreparedStatement
from adapters.sql_catalog.database_connections import SqliteImages, to_json
from adapters.sql_catalog.listing_pages import Listing, fetch_page
from adapters.sql_catalog.parts.assembly import AssemblyPart
from adapters.sql_catalog.parts.closing import FOUND, as_finished
from adapters.sql_catalog.parts.part import among
from adapters.sql_catalog.schema import catalog_tables
from adapters.sql_catalog.schema.catalog_tables import pipeline_runs
from adapters.sql_catalog.schema.record_rows import (
    Columns,
    attachment_columns,
    attachment_record,
    columns_of,
    message_columns,
    message_record,
    pack_triplets,
    reads,
    unpack_extents,
)
from app.model.attachment import AttachmentState
from app.model.pipeline_run import PipelineRun, RunState
from app.model.records import NOTHING_CAME, Checkpoint, Finished, NewEvent, changed
from app.ports import Packed, Page

_UNFINISHED = {"state": AttachmentState.COMPLETE, **{name: NOTHING_CAME[name] for name in FOUND}}
_EVENT = ("type", "subject", "data", "trace_parent")


def _staged(table: Table, names: Sequence[str]) -> Table:
    return Table(f"staged_{table.name}", _metadata, *(Column(name, table.c[name].type) for name in names))


_metadata = MetaData()
_attachments = _staged(catalog_tables.attachments, catalog_tables.attachments.columns.keys())
_extents = _staged(catalog_tables.extents, catalog_tables.extents.columns.keys())
_messages = _staged(catalog_tables.messages, catalog_tables.messages.columns.keys())
_events = _staged(catalog_tables.events, _EVENT)
_TABLES = {
    _attachments: catalog_tables.attachments,
    _extents: catalog_tables.extents,
    _messages: catalog_tables.messages,
    _events: catalog_tables.events,
}
"""The tables of staged rows, and where their rows go."""

# Both databases take the values that SQLite's driver takes: texts, integers, bytes and nothing else.
_DIALECT = SQLiteDialect_pysqlite(json_serializer=to_json)

_now = bindparam("now", type_=BigInteger)
_NEW_ATTACHMENTS = select(*(_now if column.name == "finished_at" else column for column in _attachments.columns))
_NEW_EVENTS = select(*_events.columns, _now)
_EVENT_COLUMNS = (*_EVENT, "time")
_ADDED: tuple[tuple[Table, Sequence[str], Select[Any], Column[str]], ...] = (
    (catalog_tables.attachments, _attachments.columns.keys(), _NEW_ATTACHMENTS, _attachments.c.id),
    (catalog_tables.extents, _extents.columns.keys(), select(_extents), _extents.c.attachment_id),
    (catalog_tables.events, _EVENT_COLUMNS, _NEW_EVENTS, _events.c.subject),
)
"""The tables that get the rows of finished attachments: the names of their columns, the staged rows, and the column of
these that has the attachment."""

_ARRAYS = {
    "sqlite": "json_each(new.attachments) AS each",
    "postgresql": "json_array_elements_text(new.attachments) AS each(value)",
}
_NOT_COMPLETED = {
    dialect: text(
        f"SELECT new.id FROM {_messages.name} AS new "  # noqa: S608 - names of this module
        f"WHERE EXISTS (SELECT 1 FROM {each} WHERE NOT EXISTS (SELECT 1 FROM attachments "
        f"WHERE attachments.id = each.value AND attachments.state = '{AttachmentState.FINISHED.value}')) "
        "OR EXISTS (SELECT 1 FROM messages WHERE messages.id = new.id AND messages.complete_at IS NOT NULL)"
    )
    for dialect, each in _ARRAYS.items()
}
"""The staged messages that are not completed now: an attachment is not finished, or they are complete already."""

_NEW = select(func.count()).select_from(_events)
"""The number of staged attachments, or of staged messages: each has an event, and few attachments have two."""
_LAST_ROW: ColumnElement[int] = func.coalesce(func.max(literal_column("rowid")), 0)
"""The number of the last row of a table of SQLite, which has at most this number of rows."""
_INDEXES = text(
    "SELECT name, sql FROM main.sqlite_master WHERE type = 'index' AND tbl_name = :name AND sql NOT LIKE '% WHERE %'"
)
"""SQLite's indexes of a table, without indexes of constraints and indexes with a condition."""


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
    return _PACK[packing](columns)


@cache
def _prepared(table: Table, names: tuple[str, ...]) -> PreparedStatement:
    return PreparedStatement(insert(table), names, _DIALECT)


def _image(columns: Mapping[Table, Columns]) -> Packed:
    """Return the image of a database with these rows, and without any index."""
    with closing(sqlite3.connect(":memory:")) as database:
        for table, found in columns.items():
            database.execute(str(CreateTable(table).compile(dialect=_DIALECT)))
            # A third of the columns have no value in any row, and each value takes time.
            names = tuple(name for name in table.columns.keys() if any(each is not None for each in found[name]))  # noqa: SIM118 - columns, not a dict
            if names:
                prepared = _prepared(table, names)
                database.executemany(prepared.sql, prepared.rows(found))
        database.commit()
        return (database.serialize(),)


def _copies(columns: Mapping[Table, Columns]) -> Packed:
    """Return the text of COPY of each table's rows."""
    rows = (_prepared(table, tuple(table.columns.keys())).rows(found) for table, found in columns.items())
    lines = (("\t".join(_TEXTS[type(value)](value) for value in row) + "\n" for row in some) for some in rows)
    return tuple("".join(some).encode() for some in lines)


_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_TEXTS: Mapping[type, Callable[[Any], str]] = {
    str: lambda value: value if value.isprintable() and "\\" not in value else value.translate(_ESCAPES),
    int: str,
    bytes: lambda value: f"\\\\x{value.hex()}",
    type(None): lambda _value: "\\N",
}
_PACK: Mapping[str, Callable[[Mapping[Table, Columns]], Packed]] = {"sqlite": _image, "postgresql": _copies}


_RUNNING, _INTERRUPTED = RunState.RUNNING.value, RunState.INTERRUPTED.value
_NEWEST = (pipeline_runs.c.began_at.desc(), pipeline_runs.c.id.desc())


# --- taking them ------------------------------------------------------------------------------------------------------


class PipelinePart(AssemblyPart):
    """`app.ports.catalog.pipeline` over SQL."""

    def packing(self) -> str | None:
        """Return the database's form. SQLite may have been built without images, and only one driver of PostgreSQL has
        COPY in this way."""
        if self._database.dialect == "sqlite":
            return "sqlite" if hasattr(sqlite3.Connection, "deserialize") else None
        return "postgresql" if self._database.driver == "psycopg" else None

    def add_finished(self, packed: Sequence[Packed], now: int, without: Collection[str] = ()) -> bool:
        try:
            with (
                self._staged(packed) as connection,
                _indexed_later(connection, catalog_tables.attachments, catalog_tables.events),
            ):
                for table, names, rows, attachment in _ADDED:
                    added = rows.where(~among(connection, attachment, [*without])) if without else rows
                    connection.execute(insert(table).from_select(names, added), {"now": now})
        except IntegrityError:
            return False
        return True

    def unpacked(self, packed: Packed) -> Checkpoint:
        with self._staged([packed]) as connection:
            attachments, extents, messages = (
                connection.execute(select(table)).all() for table in (_attachments, _extents, _messages)
            )
        pieces = {attachment_id: unpack_extents(blob) for attachment_id, blob in extents}
        found = [attachment_record(row) for row in attachments]
        return Checkpoint(
            attachments=[changed(record, **_UNFINISHED) for record in found],
            finished=[
                Finished(
                    id=record.id,
                    extents=pieces.get(record.id, ()),
                    dialects=record.dialects,
                    **{name: getattr(record, name) for name in FOUND} | {"finished_at": 0},
                )
                for record in found
            ],
            messages=[message_record(row) for row in messages],
        )

    def add_messages(self, packed: Sequence[Packed], now: int) -> None:
        with (
            self._staged(packed) as connection,
            _indexed_later(connection, catalog_tables.messages, catalog_tables.events),
        ):
            others = [*connection.scalars(_NOT_COMPLETED[connection.dialect.name])]
            at = case((among(connection, _messages.c.id, others), null()), else_=_now)
            found = select(*(at if column.name == "complete_at" else column for column in _messages.columns))
            upsert = self._message_upsert.from_select(_messages.columns.keys(), found.where(true()))
            connection.execute(upsert, {"now": now})
            without_events = among(connection, _events.c.subject, others)
            events = insert(catalog_tables.events).from_select(_EVENT_COLUMNS, _NEW_EVENTS.where(~without_events))
            connection.execute(events, {"now": now})

    @contextmanager
    def _staged(self, packed: Sequence[Packed]) -> Iterator[Connection]:
        """Open a transaction that can read the tables of staged rows."""
        if self._database.dialect == "sqlite":
            images = SqliteImages([table.name for table in _TABLES], [image for (image,) in packed])
            with self._database.write(attached=images) as connection:
                yield connection
        else:
            with self._database.write() as connection:
                try:
                    _copy(connection.connection, packed)
                except connection.dialect.loaded_dbapi.OperationalError as error:
                    raise OperationalError("COPY", None, error) from error
                yield connection

    def begin_run(self, run: PipelineRun, keep: int) -> None:
        open_ones = update(pipeline_runs).where(
            pipeline_runs.c.kind == run.kind, pipeline_runs.c.state == _RUNNING, pipeline_runs.c.id != run.id
        )
        newest = select(pipeline_runs.c.id).order_by(*_NEWEST).limit(keep)
        with self._database.write() as connection:
            connection.execute(open_ones.values(state=_INTERRUPTED))
            connection.execute(insert(pipeline_runs).values(_values(run)))
            kept = list(connection.scalars(newest))
            connection.execute(delete(pipeline_runs).where(pipeline_runs.c.id.not_in(kept)))

    def end_run(self, run: PipelineRun) -> None:
        self._execute(update(pipeline_runs).where(pipeline_runs.c.id == run.id).values(_values(run)))

    def pipeline_runs(self, cursor: str | None, limit: int) -> Page[PipelineRun]:
        with self._database.read() as connection:
            return fetch_page(connection, _LISTING, select(pipeline_runs), cursor, limit)


@contextmanager
def _indexed_later(connection: Connection, *changed_tables: Table) -> Iterator[None]:
    """Build the indexes of SQLite's tables after the block, if it may more than double the rows of a table.

    To sort all rows for an index takes SQLite half of the time of a search for the place of each new row. Indexes with
    a condition stay, since they may have few of the rows. Readers notice nothing of it. In PostgreSQL they would wait.
    """
    indexes: list[Any] = []
    if connection.dialect.name == "sqlite":
        new = connection.execute(_NEW).scalar_one()
        for table in changed_tables:
            if connection.execute(select(_LAST_ROW).select_from(table)).scalar_one() < new:
                indexes += connection.execute(_INDEXES, {"name": table.name})
    for name, _ in indexes:
        connection.exec_driver_sql(f'DROP INDEX "{name}"')
    yield
    for _, definition in indexes:
        connection.exec_driver_sql(definition)


def _copy(driver: Any, packed: Sequence[Packed]) -> None:
    """Copy rows to tables that end with the transaction."""
    with closing(driver.cursor()) as cursor:
        for (table, target), *texts in zip(_TABLES.items(), *packed, strict=True):
            names = ", ".join(f'"{name}"' for name in table.columns.keys())  # noqa: SIM118 - columns, not a dict
            like = f"SELECT {names} FROM {target.name} WITH NO DATA"  # noqa: S608 - names of this module
            cursor.execute(f"CREATE TEMPORARY TABLE {table.name} ON COMMIT DROP AS {like}")
            with cursor.copy(f"COPY {table.name} ({names}) FROM STDIN") as copy:
                for text in texts:
                    copy.write(text)


def _values(run: PipelineRun) -> dict[str, Any]:
    return asdict(run) | {"state": run.state.value}


@reads(pipeline_runs)
def _run(row: Row[Any]) -> PipelineRun:
    return PipelineRun(**dict(row._mapping) | {"state": RunState(row.state)})


_LISTING = Listing(pipeline_runs.c.began_at, pipeline_runs.c.id, _run)
