"""Statements for very many rows at once.

SQLAlchemy prepares each parameter of each row by itself, which takes several times as long as the database needs. Here
values are columns: each column's type is asked once how to convert values, and most types need no conversion.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from sqlalchemy import JSON, Connection, Delete, Insert, Update
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeEngine

from adapters.sql_catalog.schema.bounded_types import AnyText, BitMask, Tuples, all_storable
from adapters.sql_catalog.schema.record_rows import Columns


class BulkStatement:
    """A statement with the parameters `names` and no others: its constants are literals."""

    def __init__(self, statement: Insert | Update | Delete, names: Sequence[str]) -> None:
        self._statement, self._names = statement, tuple(names)
        self._prepared: dict[str, PreparedStatement] = {}

    def run(self, connection: Connection, columns: Columns) -> None:
        """Run the statement once for each row. `columns` may hold more columns than the statement needs."""
        if not len(columns[self._names[0]]):
            return
        dialect = connection.dialect
        prepared = self._prepared.get(dialect.name)
        if prepared is None:
            prepared = self._prepared[dialect.name] = PreparedStatement(self._statement, self._names, dialect)
        # SQLAlchemy would first make a list of all rows, which the garbage collector would scan repeatedly.
        cursor: Any = connection.connection.cursor()
        with closing(cursor):
            cursor.executemany(prepared.sql, prepared.rows(columns))


class PreparedStatement:
    """The statement in the form of a dialect's driver."""

    def __init__(self, statement: Insert | Update | Delete, names: Sequence[str], dialect: Dialect) -> None:
        columns = list(names) if isinstance(statement, Insert) and statement.select is None else None
        compiled: Any = statement.compile(dialect=dialect, column_keys=columns)
        self.sql = str(compiled)
        self._positional: bool = dialect.positional
        self._order: Sequence[str] = compiled.positiontup if dialect.positional else names
        self._processors: dict[str, Callable[[Any], Any] | None] = {
            name: _processor(compiled.binds[name].type, dialect) for name in names
        }

    def rows(self, columns: Columns) -> Iterator[Any]:
        processed = {
            name: columns[name] if process is None else process(columns[name])
            for name, process in self._processors.items()
        }
        rows = zip(*(processed[name] for name in self._order), strict=True)
        return rows if self._positional else (dict(zip(self._order, row, strict=True)) for row in rows)


Process = Callable[[Any], Any]


def _processor(kind: TypeEngine[Any], dialect: Dialect) -> Callable[[Sequence[Any]], Sequence[Any]] | None:
    """Return the conversion of a column's values; None if the driver takes them as they are."""
    process: Process | None = kind.dialect_impl(dialect).bind_processor(dialect)
    if process is None:
        return None
    if isinstance(kind, AnyText):
        return all_storable
    if isinstance(kind, JSON | BitMask | Tuples):
        return partial(_each_once, process)
    return lambda values: [process(value) for value in values]


def _each_once(process: Process, values: Sequence[Any]) -> Sequence[Any]:
    """Convert lists, choices or sets of bits, which are mostly the same in all rows, such as no warnings: each is
    converted once."""
    try:
        converted = {value: process(value) for value in set(values)}
    except TypeError:  # a list or a dict
        return [process(value) for value in values]
    return [converted[value] for value in values]
