"""The base class of the catalog's parts."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar, cast

from sqlalchemy import JSON, ColumnElement, Connection, Row, Select, func, insert, literal, select
from sqlalchemy.dialects.postgresql import ARRAY

from adapters.sql_catalog.bulk import Bulk
from adapters.sql_catalog.column_types import AnyText, Octets, all_storable
from adapters.sql_catalog.database import FROM_HEX, Database
from adapters.sql_catalog.rows import columns_of
from adapters.sql_catalog.tables import events
from app.model.records import NewEvent

T = TypeVar("T")

# Well under the limits of SQLite (32,766) and PostgreSQL (65,535) for the parameters of one statement.
_PARAMETERS = 1000

_INSERT_EVENTS = Bulk(insert(events), NewEvent._fields)


class CatalogPart:
    """One concern of the catalog, over its database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _one(self, statement: Select[Any], record: Callable[[Row[Any]], T]) -> T | None:
        with self._database.read() as connection:
            row = connection.execute(statement).first()
        return None if row is None else record(row)

    def _all(self, statement: Select[Any], record: Callable[[Row[Any]], T]) -> list[T]:
        with self._database.read() as connection:
            return [record(row) for row in connection.execute(statement)]


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Return pieces that fit the parameters of one statement."""
    return (items[start : start + _PARAMETERS] for start in range(0, len(items), _PARAMETERS))


def among(connection: Connection, column: ColumnElement[T], values: Sequence[T]) -> ColumnElement[bool]:
    """Return the condition that a column has one of these values.

    PostgreSQL joins with an array of them. Without statistics of a table it may compare a list with every row, which
    takes minutes in a catalog that grows fast. SQLite takes texts and bytes as one list in JSON: SQLAlchemy would
    prepare each parameter of a list by itself, which takes longer than looking it up.
    """
    if connection.dialect.name == "postgresql":
        return column.in_(select(func.unnest(literal(list(values), ARRAY(column.type)))))
    if isinstance(column.type, AnyText):
        return column.in_(select(_listed(all_storable(cast("Sequence[str]", values)))))
    if isinstance(column.type, Octets):
        listed = _listed([each.hex() for each in cast("Sequence[bytes]", values)])
        return column.in_(select(getattr(func, FROM_HEX)(listed)))
    return column.in_(values)


def _listed(texts: Sequence[str | None]) -> ColumnElement[str]:
    """Return the column of a table that has these texts."""
    return func.json_each(literal([*texts], JSON)).table_valued("value").c.value


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
