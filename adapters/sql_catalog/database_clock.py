"""The clock of the database, by which leases and claims end: the clocks of machines are not compared."""

from sqlalchemy import BigInteger, ColumnElement, Connection, literal_column

_NOW = {
    # The time of the statement: a transaction may have waited for others since it began.
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
    "sqlite": "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000",
}


def now_of(connection: Connection) -> ColumnElement[int]:
    """Return the present time of a connection's database, in microseconds since 1970-01-01 UTC, as an expression.

    SQLite tells it to the millisecond.
    """
    return literal_column(_NOW[connection.dialect.name], BigInteger)


def ends_in(connection: Connection, seconds: float) -> ColumnElement[int]:
    """Return the time so many seconds from now by that clock, as an expression."""
    return now_of(connection) + int(seconds * 1e6)
