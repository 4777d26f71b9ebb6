"""Webhooks: their positions in the event log, and the events that were given up."""

from collections.abc import Collection, Sequence
from typing import Protocol

from app.model.webhook_state import DeadLetter, WebhookRecord


class WebhookCatalog(Protocol):
    """The state of webhooks, which survives a restart."""

    def webhooks(self) -> dict[str, WebhookRecord]:
        """Return the records of all webhooks that ever were configured, by name."""

    def save_webhook(self, record: WebhookRecord, dead: Sequence[DeadLetter] = ()) -> None:
        """Add or replace a webhook's record and add dead letters, all or nothing. A dead letter that exists already
        takes the new time and reason, and is no longer queued."""

    def dead_letters(self, webhook: str, after: int, limit: int, *, queued: bool = False) -> list[DeadLetter]:
        """Return the dead letters of a webhook with higher event numbers, in order; if `queued`, only those that are to
        be sent again."""

    def queue_dead_letters(self, webhook: str, events: Collection[int] | None, now: int) -> int:
        """Mark dead letters (None: all) of a webhook to be sent again; return how many there were."""

    def drop_dead_letters(self, webhook: str, events: Collection[int] | None) -> int:
        """Remove dead letters (None: all) of a webhook; return how many there were."""

    def dead_letter_counts(self) -> dict[str, int]:
        """Return the number of dead letters of each webhook that has any."""

    def prune_dead_letters(self, failed_before: int, limit: int) -> int:
        """Remove dead letters that were given up before a time and are not queued; return how many."""
