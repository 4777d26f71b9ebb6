"""The beginnings of event logs: a new one begins where the database may have forgotten what it had answered.

A server that was started, that has recovered from a crash, or that got another copy of the tables may lack what was
written last. What was read from it before, such as the number of an event, then says nothing: the same number may be
given to another event. No table can tell this, as it comes from the copy. So the name of a log begins with a digest of
what no copy brings with it:

- when the server was started (an older copy of its files needs a start; so does another machine that takes its place);
- when its statistics begin, which a recovery from a crash discards, even if the server itself was not started;
- the numbers that the database and a table have in it, which another one has that a dump was loaded into.

The first write that finds another digest begins a log, in its own transaction: no event is logged before. So the name
of the newest log stands for all that was read. Who remembers any of that compares the name, and begins anew if it is
another one.

A file of SQLite is of one process, which begins a log when it opens it.
"""

from hashlib import sha256
from secrets import token_hex
from typing import Final, NamedTuple

from sqlalchemy import Connection, delete, func, insert, select

from adapters.sql_catalog.schema.catalog_tables import event_logs, events

NEWEST_NAME: Final = "SELECT name FROM event_logs ORDER BY begins_after DESC LIMIT 1"
_LIFE: Final = """concat_ws(' ',
    extract(epoch FROM pg_postmaster_start_time()), extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time()),
    (SELECT oid FROM pg_database WHERE datname = current_database()), pg_relation_filenode('events'))"""
_ASKED: Final = {
    "sqlite": f"SELECT NULL, ({NEWEST_NAME})",
    "postgresql": f"SELECT {_LIFE}, ({NEWEST_NAME})",
}
_DIGITS: Final = 8
"""The digits of the digest, which are followed by as many at random."""


class NewestLog(NamedTuple):
    """The name of the newest log, empty if there is none, and how the name of one begins that begins now."""

    name: str
    begins: str

    @property
    def goes_on(self) -> bool:
        """Whether no other log has to begin before the next event."""
        return self.name.startswith(self.begins)


def newest_log(connection: Connection) -> NewestLog:
    """Return the newest log of a connection's database. This runs with every write."""
    life, name = connection.exec_driver_sql(_ASKED[connection.dialect.name]).one()
    return NewestLog(name or "", "" if life is None else sha256(life.encode()).hexdigest()[:_DIGITS])


def begin_event_log(connection: Connection) -> None:
    """Begin a log after the last event, in place of one without events. Its first event has the next number: after a
    crash, the sequence of PostgreSQL would leave some out. Where all events were removed, it alone knows the last."""
    last = last_event(connection)
    if last and connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT setval(pg_get_serial_sequence('events', 'number'), {last + 1}, false)")
    connection.execute(delete(event_logs).where(event_logs.c.begins_after >= last))
    name = newest_log(connection).begins + token_hex(_DIGITS // 2)
    connection.execute(insert(event_logs).values(name=name, begins_after=last))


def begin_log_if_due(connection: Connection) -> None:
    """Begin a log if the newest one does not go on."""
    if not newest_log(connection).goes_on:
        begin_event_log(connection)


def last_event(connection: Connection) -> int:
    """Return the number of the newest event, 0 if there is none."""
    return connection.scalar(select(func.max(events.c.number))) or 0
