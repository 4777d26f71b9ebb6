"""Sources: how long each could receive, the expiry of attachments by it, and how its senders number messages."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from app.model.attachment import AttachmentState
from app.model.records import ALONE, AttachmentRecord, NewEvent, ReceivingMark


class ReceivingCatalog(Protocol):
    """The receiving time of sources, attachments that expire by it or begin again, and the numbering on arrival."""

    def receiving_time(self) -> dict[str, dict[str, int]]:
        """Return for how many microseconds each source could receive, as last saved, by the journal of the receiver."""

    def receiving_marks(self) -> list[ReceivingMark]:
        """Return all marks, by journal, source and count."""

    def save_receiving_time(
        self,
        counted: Mapping[str, int],
        marks: Sequence[ReceivingMark],
        forget_before: Mapping[str, int],
        journal: str = ALONE,
    ) -> None:
        """Save the counts of a receiver's sources and new marks; forget its marks of sources below a count."""

    def silent_attachments(self, source: str, last_position: int, limit: int) -> list[AttachmentRecord]:
        """Return attachments being received of a source that got nothing after a packed position, stalest first."""

    def expire(
        self, records: Sequence[AttachmentRecord], counted: int, reasons: Sequence[str], events: Sequence[NewEvent]
    ) -> set[str]:
        """Change receiving to expired, at the receiving time `counted` of their source, with one reason each.

        Returns the identifiers of those that were still being received and had got nothing since. Events about the
        others are not logged.
        """

    def expired_before(self, source: str, counted: int, limit: int) -> list[AttachmentRecord]:
        """Return attachments of a source that expired up to this count and whose parts have not been released since,
        including those that were revived meanwhile."""

    def restart(self, attachment_ids: Sequence[str], state: AttachmentState, reason: str | None) -> list[str]:
        """Forget everything received for attachments in this state except the values of their headers, which
        releases their parts; an attachment that is sent again begins anew.

        Complete attachments are being received again, all others keep their state. Returns the identifiers of those
        that were in the state; for the others, a record that they expired is dropped.
        """

    def counting(self, source: str) -> dict[str, str]:
        """Return what has been learnt of how the senders of a source count, by subject."""

    def learn_counting(self, source: str, rules: Mapping[str, str]) -> None:
        """Save what has been learnt of subjects of a source. Of many subjects, those learnt last are kept: 10,000 a
        source at least."""

    def open_correl_ids(self, source: str) -> dict[bytes, int]:
        """Return the correlids of the headers of a source of which an attachment is being received, and of all
        attachments of these headers, each with the packed position of its header."""
