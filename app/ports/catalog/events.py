"""The event log, which `GET /v1/events` reads and which webhooks send."""

from collections.abc import Collection, Sequence
from typing import Protocol

from app.model.event_logs import EventLogs
from app.model.records import EventRecord
from app.model.webhook_state import DeadLetter, WebhookRecord, WebhookState


class EventCatalog(Protocol):
    """Events by increasing number, and the state of webhooks.

    An event was logged in one transaction with the change that it reports.
    """

    def events_after(self, number: int, limit: int) -> list[EventRecord]:
        """Return the events with higher numbers, in order."""

    def events_about(self, subject: str, since: int) -> list[EventRecord]:
        """Return the events about this identifier that were logged at a time (µs) or later, in order."""

    def event_logs(self) -> EventLogs:
        """Return the logs of this catalog. Each `CatalogBinding.bind` has begun one, and each start of the database."""

    def newest_log(self) -> str:
        """Return the name of the newest log, empty if there is none; a new log begins here if one is due.

        One is due when the database was started, has recovered from a crash, or was put back from a copy: it may lack
        what it had before. So who remembers something of this catalog compares the name with the one that it had then.
        """

    def last_event(self) -> int:
        """Return the number of the newest event, 0 if there is none."""

    def webhooks(self) -> dict[str, WebhookRecord]:
        """Return the records of all webhooks that ever were configured, by name."""

    def save_webhook(self, record: WebhookRecord, dead: Sequence[DeadLetter] = ()) -> bool:
        """Add or replace a webhook's record and add dead letters, all or nothing. A dead letter that exists already
        takes the new time and reason, and is no longer queued.

        Return False, and save nothing, if a client has changed the record since it was read (`changes`).
        """

    def change_webhook(
        self, name: str, now: int, *, state: WebhookState | None = None, position: int | None = None
    ) -> None:
        """Change a webhook's record for a client, and forget its failures; None leaves a value as it is."""

    def dead_letters(self, webhook: str, after: int, limit: int, *, queued: bool = False) -> list[DeadLetter]:
        """Return the dead letters of a webhook with higher event numbers, in order; if `queued`, only those that are to
        be sent again."""

    def queue_dead_letters(self, webhook: str, events: Collection[int] | None, now: int) -> int:
        """Mark dead letters (None: all) of a webhook to be sent again, and count that in its record; return how many
        there were."""

    def drop_dead_letters(self, webhook: str, events: Collection[int] | None) -> int:
        """Remove dead letters (None: all) of a webhook; return how many there were."""

    def dead_letter_counts(self) -> dict[str, int]:
        """Return the number of dead letters of each webhook that has any."""

    def prune_dead_letters(self, failed_before: int, limit: int) -> int:
        """Remove dead letters that were given up before a time and are not queued; return how many."""
