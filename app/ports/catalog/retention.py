"""Retention: what is old enough, or too much, to be kept."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord, Kept, NewEvent, QuarantineRecord


class RetentionCatalog(Protocol):
    """How much there is of everything, its oldest rows, and their removal."""

    def kept(self) -> dict[str, Kept]:
        """Return how much there is of "content", "attachments" (ended ones), "messages", "deliveries", "quarantine"
        and "events"."""

    def oldest_content(self, finished_before: int, limit: int) -> list[AttachmentRecord]:
        """Return finished attachments whose content is in the store, oldest first."""

    def content_to_remove(self, limit: int) -> list[AttachmentRecord]:
        """Return deleted attachments whose objects may still be in the store. Their rows are not removed."""

    def content_removed(self, attachment_ids: Sequence[str]) -> None:
        """Note that the objects of these deleted attachments are gone."""

    def refused_attachments(self, last_received_before: int, limit: int) -> list[AttachmentRecord]:
        """Return quarantined attachments that got nothing since a time and still hold parts, oldest first."""

    def drop_attachments(
        self,
        states: Collection[AttachmentState],
        last_received_before: int,
        limit: int,
        event: Callable[[AttachmentRecord], NewEvent],
    ) -> tuple[int, int]:
        """Remove attachments in these ended states that got nothing since a time and hold no parts, oldest first.

        The `event` of each is logged that was not deleted before. Messages without any attachment left are removed too.
        Returns how many attachments and how many messages.
        """

    def drop_messages(self, received_before: int, limit: int) -> int:
        """Remove messages that never had attachments, oldest first; return how many."""

    def drop_message(self, message_id: str, events: Sequence[NewEvent]) -> bool:
        """Remove a message and log the events. Returns False, and logs nothing, if it is unknown."""

    def drop_deliveries(self, delivery_ids: Sequence[str], events: Sequence[NewEvent] = ()) -> set[str]:
        """Remove the ended ones of these deliveries, and log their events. Returns which were removed."""

    def quarantine_by_source(self) -> dict[str, Kept]:
        """Return how much each source has in quarantine."""

    def oldest_quarantine(self, source: str, received_before: int, limit: int) -> list[QuarantineRecord]:
        """Return quarantine entries of a source in any state, oldest first."""

    def drop_quarantine(self, quarantine_ids: Sequence[str], objects: Sequence[str] = ()) -> set[str]:
        """Remove quarantine entries, except those with an object that is not one of these. Returns which were
        removed."""

    def prune_events(
        self, before: int, keep: int | None = None, limit: int | None = None, up_to: int | None = None
    ) -> int:
        """Remove events logged before a time, and all but the newest `keep`; at most `limit`, oldest first, and none
        with a number above `up_to`. Returns how many."""
