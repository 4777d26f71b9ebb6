"""The event log, which `GET /v1/events` reads."""

from typing import Protocol

from app.model.event_logs import EventLogs
from app.model.records import EventRecord


class EventCatalog(Protocol):
    """Events by increasing number. Each was logged in one transaction with the change that it reports."""

    def events_after(self, number: int, limit: int) -> list[EventRecord]:
        """Return the events with higher numbers, in order."""

    def events_about(self, subject: str, since: int) -> list[EventRecord]:
        """Return the events about this identifier that were logged at a time (µs) or later, in order."""

    def event_logs(self) -> EventLogs:
        """Return the logs of this catalog. Each `CatalogBinding.bind` has begun one."""

    def last_event(self) -> int:
        """Return the number of the newest event, 0 if there is none."""
