"""The event log, which `GET /v1/events` reads."""

from collections.abc import Sequence
from typing import Protocol

from app.model.records import EventRecord, NewEvent


class EventCatalog(Protocol):
    """Events by increasing number."""

    def events_after(self, number: int, limit: int) -> list[EventRecord]:
        """Return the events with higher numbers, in order."""

    def events_about(self, subject: str, since: int) -> list[EventRecord]:
        """Return the events about this identifier that were logged at a time (µs) or later, in order."""

    def last_event(self) -> int:
        """Return the number of the newest event, 0 if there is none."""

    def add_events(self, events: Sequence[NewEvent]) -> None:
        """Append events to the log."""
