"""The turn of a writer of PostgreSQL: one process at a time writes, and none waits for one that stands still.

A transaction that writes begins with an advisory lock, which ends with it. A process that is paused within one (a
stopped container, a frozen machine, a connection that was cut) would keep all others waiting. So who waits looks at the
session that has the lock. If that session has waited for its client for PAUSED_SECONDS and has got nothing from it, in
the middle of a COPY or between two statements, it is ended: PostgreSQL rolls its transaction back. The process finds
its connection closed when it goes on, and what it wrote is written again by whoever has to. A session that works is
never ended.
"""

from time import monotonic
from typing import Final, NamedTuple

import structlog
from sqlalchemy import Connection, Row
from sqlalchemy.exc import OperationalError

from app.model.errors import CatalogError

LONGEST_WAIT: Final = 30.0
"""Seconds that a writer waits for its turn; SQLite waits as long. The caller learns then that the catalog is busy."""
PAUSED_SECONDS = 5.0
LOOK_SECONDS = 1.0
"""The time between two looks at the session that has the lock, in seconds."""

_KEY = 7017280452245743460
_TRY = f"SELECT pg_try_advisory_xact_lock({_KEY})"
_HOLDER = f"""
SELECT a.pid, a.application_name, a.state, a.wait_event_type,
    concat_ws(' ', a.backend_start, a.xact_start, a.query_start, a.state_change, c.bytes_processed) AS place
FROM pg_locks l JOIN pg_stat_activity a USING (pid) LEFT JOIN pg_stat_progress_copy c USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.classid = {_KEY >> 32} AND l.objid = {_KEY & 0xFFFFFFFF}
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""  # noqa: S608 - a constant
_LOCK_NOT_AVAILABLE, _NOT_ALLOWED = "55P03", "42501"

_log = structlog.get_logger(__name__)


class _Seen(NamedTuple):
    """A session that has the lock, where it was in its work, and since when (`monotonic`) it has been there."""

    pid: int
    place: str
    since: float


def take_turn(connection: Connection) -> None:
    """Wait until no other transaction writes. Raises CatalogError after LONGEST_WAIT."""
    if connection.exec_driver_sql(_TRY).scalar():
        return
    began = told = monotonic()
    seen: _Seen | None = None
    wait = f"SET LOCAL lock_timeout TO {int(LOOK_SECONDS * 1000)}; SELECT pg_advisory_xact_lock({_KEY})"
    while not _is_done(connection, wait, _LOCK_NOT_AVAILABLE):
        now = monotonic()
        connection.exec_driver_sql("SELECT pg_stat_clear_snapshot()")  # what was seen before is kept otherwise
        holder = connection.exec_driver_sql(_HOLDER).first()
        if holder is None:
            continue
        if seen is None or (holder.pid, holder.place) != seen[:2] or holder.wait_event_type != "Client":
            seen = _Seen(holder.pid, holder.place, now)
        elif now - seen.since >= PAUSED_SECONDS:
            _end(connection, holder, now - seen.since)
            seen = None
        if now - told >= PAUSED_SECONDS:
            told = now
            _log.info("catalog_writer_waited", seconds=round(now - began, 1), session=holder.pid, state=holder.state)
        if now - began >= LONGEST_WAIT:
            raise CatalogError(
                f"the catalog cannot be written at present: another process (PostgreSQL's session {holder.pid}, "
                f"{holder.state}) has been writing for {now - began:.0f} s"
            )


def _end(connection: Connection, holder: Row, seconds: float) -> None:  # type: ignore[type-arg]
    """End a session, if this user may."""
    facts = {
        "session": holder.pid,
        "application": holder.application_name,
        "state": holder.state,
        "seconds": round(seconds, 1),
    }
    if _is_done(connection, f"SELECT pg_terminate_backend({int(holder.pid)})", _NOT_ALLOWED):
        _log.warning("paused_writer_ended", **facts)
    else:
        _log.warning("paused_writer_not_ended", **facts, reason="it belongs to another user of the database")


def _is_done(connection: Connection, statement: str, refusal: str) -> bool:
    """Execute a statement that may be refused with this SQLSTATE, and tell whether it was done. The transaction goes on
    either way, with its own settings.

    SQLAlchemy would roll a transaction back that has not quite begun, so the driver executes it.
    """
    cursor = connection.connection.cursor()
    try:
        cursor.execute(f"SAVEPOINT before; {statement}")
    except connection.dialect.loaded_dbapi.Error as error:
        if error.sqlstate != refusal:
            raise OperationalError(statement, None, error) from error
        cursor.execute("ROLLBACK TO SAVEPOINT before")
        return False
    finally:
        cursor.close()
    connection.exec_driver_sql("SET LOCAL lock_timeout TO DEFAULT")
    return True
