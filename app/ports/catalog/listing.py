"""Listings of attachments and messages, page by page."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from app.model.attachment import AttachmentKind, AttachmentState
from app.model.records import AttachmentRecord, MessageRecord

T = TypeVar("T")

Identified = Literal["attachments", "messages", "deliveries"]
"""Records with random identifiers of 32 hexadecimal digits. Quarantine entries have positions in the journal
instead."""


Sort = Literal["-received", "received", "-size", "size", "-name", "name"]
"""The order of attachments: by the time of their first message, their size or their name; `-` is descending."""
NEWEST_FIRST: Sort = "-received"


@dataclass(frozen=True, slots=True)
class AttachmentFilter:
    """Which attachments to list; None matches any.

    `announced` ones are known to be attachments, by a header or a group; the others wait for their header.
    Times in µs; `name` is part of a name, ignoring case. Attachments that are not finished have no size, and match no
    limit of it. `within` are the sources to which the listing is limited. `warned` asks for those with warnings, or
    for those without.
    """

    state: AttachmentState | None = None
    kind: AttachmentKind | None = None
    source: str | None = None
    name: str | None = None
    message: str | None = None
    received_after: int | None = None
    received_before: int | None = None
    within: Collection[str] | None = None
    min_size: int | None = None
    max_size: int | None = None
    announced: bool | None = None
    warned: bool | None = None


class Page(NamedTuple, Generic[T]):
    """One page of a listing, newest first. `next` is the cursor of the following page, None on the last page. A page
    before the last one may have fewer rows than asked for, or none."""

    items: list[T]
    next: str | None


class Total(NamedTuple):
    """A number of rows; if it `is_all` is false, there may be more."""

    number: int
    is_all: bool


class Tallies(NamedTuple):
    """Numbers of rows by state: of announced attachments and quarantine entries by source, of deliveries by
    destination.

    `waiting` counts the announced attachments being received of each source by the time of their last message: those
    after the first of the times that were asked for, those between it and the second one, and so on, and those before
    the last. `unannounced` counts what waits for its header, by source.
    """

    attachments: Mapping[str, Mapping[str, int]]
    deliveries: Mapping[str, Mapping[str, int]]
    quarantine: Mapping[str, Mapping[str, int]]
    waiting: Mapping[str, Sequence[int]]
    unannounced: Mapping[str, int]


class BadCursor(ValueError):
    """A page cursor that this catalog did not make."""


class ListingCatalog(Protocol):
    """Attachments and messages, by identifier and in pages."""

    def attachments(
        self, which: AttachmentFilter, cursor: str | None, limit: int, sort: Sort = NEWEST_FIRST
    ) -> Page[AttachmentRecord]:
        """Return a page of attachments. Those without a size are the smallest. Raises BadCursor, also for the cursor of
        another order."""

    def count_attachments(self, which: AttachmentFilter) -> Total:
        """Return the number of attachments on all pages. It is a part of them where counting all would take long."""

    def attachment(self, attachment_id: str) -> AttachmentRecord | None:
        """Return an attachment, or None if it is unknown."""

    def attachments_by_id(self, attachment_ids: Sequence[str]) -> list[AttachmentRecord]:
        """Return the existing ones of these attachments, in no particular order."""

    def messages(
        self,
        source: str | None,
        cursor: str | None,
        limit: int,
        within: Collection[str] | None = None,
        received_after: int | None = None,
        received_before: int | None = None,
    ) -> Page[MessageRecord]:
        """Return a page of messages received between two times, of one source or of all (`within`: of these). Raises
        BadCursor."""

    def messages_by_id(self, message_ids: Sequence[str]) -> list[MessageRecord]:
        """Return the existing ones of these messages, in no particular order."""

    def messages_that_waited(self, attachment_ids: Sequence[str]) -> list[MessageRecord]:
        """Return the messages whose application message waited for its header under one of these identifiers, by
        identifier, the oldest first."""

    def message(self, message_id: str) -> MessageRecord | None:
        """Return a message, or None if it is unknown."""

    def identifiers(self, of: Identified, prefix: str, limit: int, within: Collection[str] | None = None) -> list[str]:
        """Return the first `limit` identifiers, in order, that begin with these lower-case hexadecimal digits.

        Those of attachments include those under which application messages waited for their header.
        `within` are the sources (of deliveries: the destinations) to which this is limited.
        """

    def counts(self) -> dict[str, dict[str, int]]:
        """Count rows by state: {"attachments": {state: n}, "deliveries": {state: n}, "quarantine": {state: n}}.

        `attachments` are announced; `unannounced` has the others.
        """

    def tallies(self, times: Sequence[int]) -> Tallies:
        """Count rows by source or destination and by state; `times` (µs) descend. States without a row are left out."""
