"""The log of receipts: statements, the hashes of their Merkle tree in tiles, and signed tree heads."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from app.model.receipt_records import (
    NO_RETRIES,
    KeptHead,
    KeptStatement,
    NewReceipt,
    ReceiptCause,
    ReceiptLog,
    ReceiptRetry,
)
from app.model.records import NewEvent


class ReceiptCatalog(Protocol):
    """A log that only grows: nothing of it is ever changed or removed, but its last tiles, which fill up."""

    def receipt_log(self) -> ReceiptLog | None:
        """Return the log; None if none was begun."""

    def begin_receipt_log(self, name: str) -> ReceiptLog:
        """Begin the log before the oldest event, unless there is one; return the one that is there."""

    def receipt_causes(self, after: int, limit: int) -> tuple[list[ReceiptCause], int]:
        """Return the events after a number about which statements are made, in order and at most `limit`, and the
        number of the event up to which these are all."""

    def save_receipt_tables(self, finished_at: int, versions: Mapping[str, int]) -> None:
        """Save the tables that a batch has changed, each with the version that has its rows, before the attachments
        that it finishes at that time (µs). They are forgotten when all events of that time are pruned."""

    def append_receipts(
        self,
        log: ReceiptLog,
        receipts: Sequence[NewReceipt],
        tiles: Mapping[tuple[int, int], bytes],
        event: int,
        head: KeptHead | None,
        events: Sequence[NewEvent] = (),
        tables: int = 0,
    ) -> ReceiptLog:
        """Append statements to the log, replace or add tiles, and add a head and events, all or nothing and durable;
        return the log as it is then. It includes the events up to `event`. The tables of batches with a number below
        `tables` are forgotten.

        Raises CatalogError if the log is not as it was when it was read: another process has appended to it.
        """

    def receipt_statement(self, subject: str) -> tuple[int, bytes] | None:
        """Return the newest statement about a subject, with its place in the log; None if there is none."""

    def receipt_statements(self, place: int, limit: int) -> list[KeptStatement]:
        """Return the statements from a place of the log on, in order."""

    def receipts_sent_back(self) -> int | None:
        """Return the place of the log before which receipts were sent back; None if none ever were."""

    def save_receipts_sent_back(self, place: int) -> None:
        """Save the place of the log before which receipts were sent back."""

    def receipts_replied(self, source: str) -> int | None:
        """Return the place of the log before which the receipts of a source were sent as replies; None if none ever
        were."""

    def save_receipts_replied(
        self, source: str, place: int, retries: Mapping[int, ReceiptRetry | None] = NO_RETRIES
    ) -> None:
        """Save the place of the log before which the receipts of a source were sent as replies, and of single places
        before it, which are sent again later; None for those that are not sent again any more. All or nothing, and
        durable on return."""

    def receipts_to_retry(
        self, source: str, now: int, limit: int, latest: int | None = None
    ) -> list[tuple[KeptStatement, int]]:
        """Return the statements whose receipts are due to be sent again (µs since 1970), those first that waited
        longest, each with the number of its refusals. One planned for later than `latest` is due too: a clock that was
        ahead has put it off."""

    def receipt_tile(self, level: int, number: int) -> bytes:
        """Return the hashes of a tile; none if there is no such tile."""

    def receipt_head(self) -> KeptHead | None:
        """Return the newest tree head."""
