"""Quarantine: messages and attachments that could not be understood."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from app.model.records import QuarantineCopy, QuarantineRecord, QuarantineState
from app.ports.catalog.listing import Page


class QuarantineGroup(NamedTuple):
    """Entries of one source with the same code and the same kind of reason. `why` is their reason, or what their
    reasons have in common."""

    source: str
    code: str
    why: str
    entries: int
    first_received_at: int
    last_received_at: int


class QuarantineGroups(NamedTuple):
    """The largest groups, and how many groups and entries there are. If `is_all` is false, these are those among the
    newest entries, and there may be more."""

    items: list[QuarantineGroup]
    groups: int
    entries: int
    is_all: bool


class QuarantineCatalog(Protocol):
    """Entries of the quarantine, and copies of their bytes outside of the journal."""

    def quarantined(
        self,
        source: str | None,
        state: QuarantineState | None,
        cursor: str | None,
        limit: int,
        within: Collection[str] | None = None,
        code: str | None = None,
        why: str | None = None,
    ) -> Page[QuarantineRecord]:
        """Return a page of entries, of one source or of all (`within`: of these), with a code, and whose reasons differ
        from `why` in numbers and identifiers only (`app.model.errors.kind_of_reason`). Raises BadCursor."""

    def quarantine_groups(
        self,
        source: str | None,
        state: QuarantineState | None,
        limit: int,
        within: Collection[str] | None = None,
        code: str | None = None,
        why: str | None = None,
    ) -> QuarantineGroups:
        """Return the largest groups of such entries, at most `limit`, and their numbers."""

    def quarantine_between(self, source: str, first: int, last: int, limit: int) -> list[QuarantineRecord]:
        """Return the first `limit` entries of messages that a source received from one time up to another (µs, both
        included), oldest first."""

    def quarantine_entry(self, quarantine_id: str) -> QuarantineRecord | None:
        """Return an entry, or None if it is unknown."""

    def set_quarantine_state(self, quarantine_id: str, state: QuarantineState) -> bool:
        """Change the state of an entry; return False if it is unknown."""

    def request_replay(self, quarantine_id: str) -> None:
        """Have the process that receives process an entry again; requesting it twice changes nothing."""

    def replay_requests(self, limit: int) -> list[str]:
        """Return entries whose replay was requested."""

    def drop_replay_request(self, quarantine_id: str) -> None:
        """Forget a request that was carried out."""

    def quarantine_copy(self, quarantine_id: str) -> QuarantineCopy | None:
        """Return the copy of an entry's message, or None if there is none."""

    def uncopied_quarantine(self, position_below: int, largest: int, limit: int) -> list[QuarantineRecord]:
        """Return entries whose bytes are only in the journal, below a packed position, in the journal's order.
        Dismissed entries and entries of more than `largest` bytes are left out."""

    def copied_quarantine(
        self, copies: Sequence[QuarantineCopy], objects: Mapping[str, str], gone: Sequence[str]
    ) -> set[str]:
        """Record copies of entries, with the names of the `objects` that hold bodies. The journal no longer has the
        bytes of the entries that are `gone`. Returns the entries whose copies were recorded: others are removed."""
