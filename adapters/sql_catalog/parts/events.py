"""The event log, the source of server-sent events."""

from secrets import token_hex

from sqlalchemy import Connection, delete, func, insert, select

from adapters.sql_catalog.parts.part import CatalogPart
from adapters.sql_catalog.schema.catalog_tables import event_logs, events
from adapters.sql_catalog.schema.record_rows import event_record
from app.model.event_logs import EventLogs
from app.model.records import EventRecord


class Events(CatalogPart):
    """`app.ports.EventCatalog` over SQL."""

    def events_after(self, number: int, limit: int) -> list[EventRecord]:
        later = select(events).where(events.c.number > number).order_by(events.c.number).limit(limit)
        return self._all(later, event_record)

    def events_about(self, subject: str, since: int) -> list[EventRecord]:
        """Return the events about a subject. They are found by their time: an index on the subject would cost each
        event more than the few questions for it save."""
        about = select(events).where(events.c.time >= since, events.c.subject == subject)
        return self._all(about.order_by(events.c.number), event_record)

    def last_event(self) -> int:
        with self._database.read() as connection:
            return _last(connection)

    def event_logs(self) -> EventLogs:
        with self._database.read() as connection:
            found = connection.execute(select(event_logs).order_by(event_logs.c.begins_after)).all()
        return EventLogs(tuple(row.begins_after for row in found), tuple(row.name for row in found))


def begin_event_log(connection: Connection) -> None:
    """Begin a log after the last event, in place of one without events."""
    last = _last(connection)
    connection.execute(delete(event_logs).where(event_logs.c.begins_after >= last))
    connection.execute(insert(event_logs).values(name=token_hex(4), begins_after=last))


def _last(connection: Connection) -> int:
    return connection.scalar(select(func.max(events.c.number))) or 0
