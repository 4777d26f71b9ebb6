"""Finishing: from complete attachments to content, and changes of state after that."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord, Finished, NewEvent, StoredObject


class FinishingCatalog(Protocol):
    """Attachments whose parts are all there, until their content is in the content store."""

    def complete_attachments(
        self, limit: int | None = None, after: AttachmentRecord | None = None
    ) -> list[AttachmentRecord]:
        """Return attachments that are complete and not yet finished, oldest first: the first `limit` of them, or those
        after one of them."""

    def finish(self, finished: Sequence[Finished], events: Sequence[NewEvent]) -> set[str]:
        """Change complete attachments to finished, all or none; return the identifiers of those that were complete.

        The others, which were deleted meanwhile, are left as they are, and events about them are not logged.
        """

    def settle(self, objects: Mapping[str, StoredObject], now: int) -> set[str]:
        """Record that content is in the store from `now` (µs) on, in the named object of each attachment; forget
        extents and part runs. Returns the attachments that were still there; the others were deleted meanwhile."""

    def unsettled_attachments(
        self, finished_before: int, limit: int, after: AttachmentRecord | None = None, latest: int | None = None
    ) -> list[AttachmentRecord]:
        """Return finished attachments whose content is still read from the journal, oldest first, or those after one
        of them. With `latest`, return those too that were finished later, by a clock that was ahead."""

    def mark_damaged(self, attachment_id: str, reason: str | None, events: Sequence[NewEvent] = ()) -> bool:
        """Record that the content of a finished attachment cannot be served as received (reason code
        `damaged-content`); without a reason, that it can be served again.

        Returns False and does nothing if the attachment is not finished or this was recorded before.
        """

    def left_to_complete(self) -> list[str]:
        """Return a finished attachment of each message that is not complete, and of which no attachment is still to be
        finished: a process may have ended before `complete_messages`."""

    def complete_messages(
        self, attachment_ids: Sequence[str], now: int, event: Callable[[str, str], NewEvent]
    ) -> set[str]:
        """Mark messages of these attachments complete if all their attachments are finished and their announced
        application message was received. Return their identifiers.

        `event` makes the event of a message of its identifier and its source. It is logged in the same transaction.
        """

    def set_state(
        self,
        attachment_ids: Sequence[str],
        state: AttachmentState,
        *,
        reason_code: str | None = None,
        reason: str | None = None,
        events: Sequence[NewEvent] = (),
    ) -> None:
        """Change the state of attachments, where their current state allows it.

        Other attachments are left as they are, and events about them are not logged: deleted stays deleted, only an
        attachment being received expires, and only a quarantined one is tried again.
        """

    def oldest_unfinished(self) -> int | None:
        """Return when the attachment being received that has waited longest got its last message; None if there is
        none."""
