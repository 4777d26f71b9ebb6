"""The catalog as a whole: its lock, the journal it belongs to, repair, and the database that holds it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from app.model.principals import ApiKey
from app.model.records import JournalIdentity, QuarantineCopy


class CatalogBinding(Protocol):
    """Which process and which journal the catalog belongs to."""

    def lock(self) -> None:
        """Make this process the one gateway of the catalog, until `close`. Raises CatalogTaken if another gateway is.

        Later calls check the lock, and take it again if it was lost. Readers, and a job that assembles for the
        gateway, need no lock.
        """

    def take_over(self, least: int) -> int:
        """Return an epoch for this process: at least `least`, and later than the epochs of all processes before.

        From then on, the writes of those processes raise CatalogTaken. The database disconnects a process that stops
        within a write, so that no other one waits for it. Only where several processes share the catalog; they need no
        `lock`.
        """

    def journal_identity(self) -> JournalIdentity | None:
        """Return the journal that this catalog is bound to, with the epoch that bound it last; None if it is new."""

    def claim(self, journal: JournalIdentity, place: str) -> None:
        """Record that the progress of this catalog counts the messages of a journal, whose archive is in a place.

        For a job that assembles an archive: from then on, each write of this process raises GatewayError if the catalog
        is of another journal. Raises it at once if the catalog is of another one now.
        """

    def bind(self, journal: JournalIdentity) -> None:
        """Bind the catalog to a journal, and begin a log of events.

        From then on, each write of this process raises CatalogTaken if a later epoch has bound the catalog since.
        Raises GatewayError for an older epoch of the same journal.
        """


class CatalogRepair(Protocol):
    """Access for check and repair."""

    def flush(self) -> None:
        """Write everything written before to disk."""

    def set_progress(self, position: int | None) -> None:
        """Set the position after which the journal is replayed. It may be earlier than before: later changes were
        lost."""


class CatalogDatabase(Protocol):
    """The database of a catalog. No other process may have it open, except where a method says so."""

    place: str
    """Where it is, for people; without a password."""

    def exists(self) -> bool:
        """Return whether there is such a database."""

    def is_empty(self) -> bool:
        """Return whether it holds no attachment, message, delivery or quarantine entry."""

    def require_known(self) -> None:
        """Raise NewerFormat if a newer version has made the schema. May be called while a gateway runs; changes
        nothing."""

    def problems(self) -> list[str]:
        """Return the damage that the database itself finds. May be called while a gateway runs."""

    def sound_keys(self) -> list[ApiKey]:
        """Return the keys of clients, also of a damaged database, if their table is not damaged; otherwise none."""

    def quarantine_copies(self, quarantine_ids: Sequence[str]) -> list[QuarantineCopy]:
        """Return the copies of these entries' messages, as far as they can be read, also of a damaged database. Callers
        compare their checksums."""

    def set_aside(self) -> str:
        """Make room for a new catalog; return where the old one is now, or what became of it."""

    def snapshot(self, target: Path) -> None:
        """Write its content at one moment into a new file. May be called while a gateway runs."""

    def load(self, source: Path) -> None:
        """Fill an empty database from the file of a snapshot. Raises GatewayError if it is not empty."""
