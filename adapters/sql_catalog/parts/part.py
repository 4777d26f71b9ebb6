"""The base class of the catalog's parts, and what their statements share."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    Connection,
    CursorResult,
    Row,
    Select,
    UpdateBase,
    and_,
    bindparam,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import TypeEngine

from adapters.sql_catalog.bulk_rows import BulkStatement
from adapters.sql_catalog.database_connections import FROM_HEX, Database
from adapters.sql_catalog.schema.bounded_types import AnyText, Octets, all_storable
from adapters.sql_catalog.schema.catalog_tables import events, progress
from adapters.sql_catalog.schema.record_rows import columns_of
from app.model.records import NewEvent

T = TypeVar("T")

# Well under the limits of SQLite (32,766) and PostgreSQL (65,535) for the parameters of one statement.
_PARAMETERS = 1000

_NOW = {
    # The time of the statement: a transaction may have waited for others since it began.
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
    "sqlite": "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000",
}
"""The clock of the database, by which leases and claims end: the clocks of machines are not compared."""

_INSERT_EVENTS = BulkStatement(insert(events), NewEvent._fields)


class CatalogPart:
    """One concern of the catalog, over its database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _one(self, statement: Select[Any], record: Callable[[Row[Any]], T], **parameters: Any) -> T | None:
        with self._database.read() as connection:
            row = connection.execute(statement, parameters).first()
        return None if row is None else record(row)

    def _all(self, statement: Select[Any], record: Callable[[Row[Any]], T]) -> list[T]:
        with self._database.read() as connection:
            return [record(row) for row in connection.execute(statement).all()]

    def _execute(self, statement: UpdateBase, *, durable: bool = False) -> int:
        """Run one statement in a transaction of its own. Return how many rows it changed."""
        with self._database.write(durable=durable) as connection:
            return connection.execute(statement).rowcount


def is_past(at: ColumnElement[int], now: int, latest: int | None) -> ColumnElement[bool]:
    """Return the condition that a time is not after `now`, or is after `latest`: a clock that was ahead told it."""
    return at <= now if latest is None else or_(at <= now, at > latest)


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Return pieces that fit the parameters of one statement."""
    return (items[start : start + _PARAMETERS] for start in range(0, len(items), _PARAMETERS))


def among(connection: Connection, column: ColumnElement[T], values: Sequence[T]) -> ColumnElement[bool]:
    """Return the condition that a column has one of these values.

    PostgreSQL joins with an array of them. Without statistics of a table it may compare a list with every row, which
    takes minutes in a catalog that grows fast. SQLite takes texts and bytes as one list in JSON: SQLAlchemy would
    prepare each parameter of a list by itself, which takes longer than looking it up.
    """
    dialect = connection.dialect.name
    if dialect == "sqlite" and not isinstance(column.type, AnyText | Octets):
        return column.in_(values)
    return _is_one_of(dialect, column, literal(_listed(dialect, column, values), _list_type(dialect, column)))


class Lookup:
    """A query for the rows in which a column has one of many texts or bytes.

    `rows` makes it of this condition. It is made once for each database: for few values SQLAlchemy takes longer to put
    a query together than the database to answer it. With `behind`, the column begins with one of the values, and has so
    many bytes behind it.
    """

    def __init__(
        self, column: ColumnElement[Any], rows: Callable[[ColumnElement[bool]], Select[Any]], *, behind: int = 0
    ) -> None:
        self._column, self._rows, self._behind = column, rows, behind
        self._queries: dict[str, Select[Any]] = {}

    def run(self, connection: Connection, values: Sequence[Any], **others: Any) -> CursorResult[Any]:
        """Return the rows for these values. `others` are the query's own parameters."""
        dialect, column = connection.dialect.name, self._column
        query = self._queries.get(dialect)
        if query is None:
            wanted = bindparam("wanted", type_=_list_type(dialect, column))
            matches = partial(_begins, behind=self._behind) if self._behind else _is_one_of
            query = self._queries[dialect] = self._rows(matches(dialect, column, wanted))
        return connection.execute(query, {"wanted": _listed(dialect, column, values), **others})


def _is_one_of(dialect: str, column: ColumnElement[Any], wanted: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a column has a value of a list, which is one parameter."""
    if dialect == "postgresql":
        return column.in_(select(func.unnest(wanted)))
    value = func.json_each(wanted).table_valued("value").c.value
    return column.in_(select(getattr(func, FROM_HEX)(value) if isinstance(column.type, Octets) else value))


def _begins(dialect: str, column: ColumnElement[Any], wanted: ColumnElement[Any], behind: int) -> ColumnElement[bool]:
    """Return the condition that a column begins with a value of a list, as a range for each value: an index on the
    column answers it."""
    value: ColumnElement[Any]
    if dialect == "postgresql":
        value = func.unnest(wanted, type_=Octets()).column_valued()
        return and_(column >= value, column <= value.op("||")(literal(b"\xff" * behind, Octets())))
    value = func.json_each(wanted).table_valued("value").c.value
    from_hex = getattr(func, FROM_HEX)
    return and_(column >= from_hex(value), column <= from_hex(value.op("||")("ff" * behind)))


def _listed(dialect: str, column: ColumnElement[Any], values: Sequence[Any]) -> Sequence[Any]:
    """Return the values as the database takes their list."""
    if dialect == "postgresql":
        return list(values)
    return [each.hex() for each in values] if isinstance(column.type, Octets) else [*all_storable(values)]


def _list_type(dialect: str, column: ColumnElement[Any]) -> TypeEngine[Any]:
    return ARRAY(column.type) if dialect == "postgresql" else JSON()


def limited(
    column: ColumnElement[str], wanted: str | None, within: Collection[str] | None
) -> list[ColumnElement[bool]]:
    """Return the conditions that a column has the wanted value, and one of `within`; None: any.

    A search for several values goes through a listing in its order, not by an index on the column, after which all rows
    with these values would be sorted for each page.
    """
    conditions = [] if wanted is None else [column == wanted]
    if within is None:
        return conditions
    if len(within) == 1:
        return [*conditions, column == next(iter(within))]
    return [*conditions, func.coalesce(column, column).in_([literal(each, column.type) for each in sorted(within)])]


def log_events(connection: Connection, new: Sequence[NewEvent]) -> None:
    """Add events in the caller's transaction: they are saved together with the changes that they report, or not at
    all."""
    _INSERT_EVENTS.run(connection, columns_of(NewEvent, new))


def rewrite_progress(connection: Connection) -> None:
    """Write a row without changing it: a durable write takes all quick writes before it to disk."""
    connection.execute(update(progress).values(position=progress.c.position))


def now_of(connection: Connection) -> ColumnElement[int]:
    """Return the present time of a connection's database, in microseconds since 1970-01-01 UTC, as an expression.

    SQLite tells it to the millisecond.
    """
    return literal_column(_NOW[connection.dialect.name], BigInteger)


def ends_in(connection: Connection, seconds: float) -> ColumnElement[int]:
    """Return the time so many seconds from now by that clock, as an expression."""
    return now_of(connection) + int(seconds * 1e6)
