"""The journal that several receivers share: which segments of their own journals it has."""

from typing import NamedTuple, Protocol

from app.model.records import JournalIdentity, Publication


class ReceivingJournal(NamedTuple):
    """The own journal of a receiver.

    `published` is the last of its segments that the shared journal has, 0 before the first. `receiver` is the name of
    the process that opened it last, and `opened_at` when that was. `seen_at` is when it saved its receiving time last,
    as it does every ten seconds. Times are µs.
    """

    id: str
    receiver: str
    published: int
    opened_at: int
    seen_at: int


class SharedJournalCatalog(Protocol):
    """The order in which receivers have published segments. Every change is durable on return.

    A segment of the shared journal is in the archive before it is recorded here, and no number is used before all lower
    ones are recorded. So who finds that the next number is taken can record it for whoever has published it.
    """

    def join(
        self, own: JournalIdentity, receiver: str, new: JournalIdentity, newest: int, alone: int, now: int
    ) -> JournalIdentity:
        """Record that a receiver has opened its own journal, and return the shared journal: the one that the catalog
        is of, or `new` for a new catalog.

        A gateway that received alone may have begun the journal. Then `newest`, the last segment in its archive, must
        not be before what the catalog has assembled: raises GatewayError otherwise, and CatalogTaken while such a
        gateway runs. If the own journal is that one, its segments behind `alone`, the last one that it has archived,
        are published as those of other receivers.
        """

    def published(self) -> int:
        """Return the packed position of the last message in the recorded segments of the shared journal; 0 before the
        first."""

    def receiving_journals(self) -> list[ReceivingJournal]:
        """Return the journals of all receivers, by id."""

    def record_published(self, origin: Publication) -> None:
        """Record the next segment of the shared journal, and that it has the messages of its origin. Nothing changes
        if it has been recorded already."""

    def leave(self, journal: str) -> bool:
        """Forget the journal of a receiver that does not come back, with its receiving time: nothing waits for it any
        more. Return False if it is unknown."""
