"""The event log, the source of server-sent events."""

from sqlalchemy import func, select

from adapters.sql_catalog.part import CatalogPart
from adapters.sql_catalog.rows import event_record
from adapters.sql_catalog.tables import events
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
            return connection.scalar(select(func.max(events.c.number))) or 0
