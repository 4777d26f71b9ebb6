"""Missing parts: what was asked of the senders of unfinished attachments, and what of deliveries may be asked for."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from app.model.records import AttachmentRecord, DeliveryRecord, NewEvent


class MissingRequest(NamedTuple):
    """What the sender of an attachment was asked for last.

    `requests` is how often it was asked, `asked_at` when last, and `next_at` when it may be asked again (None: not any
    more). `address` is the topic or queue; None if only an event tells of it. `document` is the request as it was sent
    (`app.codecs.missing_parts`). `parts_received` is how many parts there were when this was last looked at. `ended` is
    why its sender sends nothing more, as it says itself. Times are µs.
    """

    attachment_id: str
    source: str
    requests: int
    asked_at: int
    next_at: int | None
    address: str | None
    document: bytes
    parts_received: int
    ended: str | None = None


class ReceivedAfterRequest(NamedTuple):
    """The parts of a source's attachments that have come since they were asked for."""

    source: str
    parts: int


class MissingPartsCatalog(Protocol):
    """Requests for missing parts. The journal does not have them: a catalog that is rebuilt knows none."""

    def attachments_to_ask(
        self, source: str, last_position: int, now: int, limit: int, latest: int | None = None
    ) -> list[tuple[AttachmentRecord, int]]:
        """Return attachments being received of a source that got nothing after a packed position, each with the number
        of earlier requests: those with the fewest first, and of these the stalest. Leave out those that are not to be
        asked for now. One planned for later than `latest` is not left out: a clock that was ahead has put it off."""

    def requests_between(self, source: str, first: int, last: int) -> int:
        """Return how many attachments of a source were asked for from one time to another, both included."""

    def record_requests(self, requests: Sequence[MissingRequest], events: Sequence[NewEvent]) -> None:
        """Record requests that are about to be sent, with their events. It is durable on return."""

    def missing_request(self, attachment_id: str) -> MissingRequest | None:
        """Return what was asked last of the sender of an attachment; None if nothing was."""

    def count_received_after_requests(self) -> list[ReceivedAfterRequest]:
        """Return how many parts have come after requests since the last call. An attachment that is no longer being
        received is then not looked at again."""

    def end_requests(self, source: str, correl_ids: Sequence[tuple[bytes, str]]) -> None:
        """Ask no more for these attachments of a source, for the reason that their sender gives."""

    def delivery_of(self, attachment: bytes, destination: str) -> DeliveryRecord | None:
        """Return the delivery to a destination that has the attachment, or the application message, with this key of
        16 bytes."""
