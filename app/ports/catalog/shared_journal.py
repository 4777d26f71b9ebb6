"""The journal that several receivers share: which segments of their own journals it has."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol

from app.model.records import JournalIdentity, Publication

AWAY_SECONDS: Final = 60.0
"""A receiver that has not been seen for so long is away."""
NO_SESSIONS: Final[Mapping[str, str]] = MappingProxyType({})

ReceiverState = Literal["receiving", "leaving", "away"]


class ReceivingJournal(NamedTuple):
    """The own journal of a receiver.

    `published` is the last of its segments that the shared journal has, 0 before the first. `receiver` is the name of
    the process that opened it last, and `opened_at` when that was. `seen_at` is when it was at work last, as it
    records every two seconds. `in_archive` says that its segments are in the place of the archive, where others can
    publish them. A receiver that `has_left` is not waited for. One that `is_leaving` is to leave for good. `sessions`
    are what brokers keep for it alone, by source. It was `asked` so often to publish all that it has, and has
    `answered` these requests up to a number; None if it has stopped and nothing is left. `silent` is the time since
    `seen_at`, by the clock of the database. Times are µs.
    """

    id: str
    receiver: str
    published: int
    opened_at: int
    seen_at: int
    in_archive: bool
    has_left: bool
    is_leaving: bool
    sessions: Mapping[str, str]
    asked: int
    answered: int | None
    silent: int

    @property
    def is_away(self) -> bool:
        """Tell whether the receiver has not been seen for a minute."""
        return self.silent > AWAY_SECONDS * 1e6

    @property
    def owes(self) -> bool:
        """Tell whether it was asked to publish all that it has, and has not said since that it did."""
        return not self.has_left and self.answered is not None and self.answered < self.asked

    @property
    def state(self) -> ReceiverState:
        """Return what the receiver does. One that is away can be leaving, too: another one does it in its place."""
        if self.is_leaving:
            return "leaving"
        return "away" if self.is_away else "receiving"


class ArchivedJournal(NamedTuple):
    """What the archive has: the journal of its segments, or a new one if there are none.

    `alone` is the packed position of the last message before the first segment that receivers have published: a gateway
    that received alone has archived all up to there. It is 0 if there is nothing. `newest` is the last segment.
    """

    journal: JournalIdentity
    alone: int
    newest: int


class SharedJournalCatalog(Protocol):
    """The order in which receivers have published segments. Every change is durable on return.

    A segment of the shared journal is in the archive before it is recorded here, and no number is used before all lower
    ones are recorded. So who finds that the next number is taken can record it for whoever has published it.
    """

    def join(
        self,
        own: JournalIdentity,
        receiver: str,
        sources: Collection[str],
        archived: ArchivedJournal,
        *,
        in_archive: bool = False,
        sessions: Mapping[str, str] = NO_SESSIONS,
    ) -> JournalIdentity:
        """Record that a receiver has opened its own journal to receive from these sources, and return the shared
        journal: the one that the catalog is of, or that of the archive for a new catalog.

        It has not left, and is not asked to leave any more. Its `sessions`, by source, are no other receiver's now.

        Expiry waits for the time that it counts of these sources. It begins where the receiver is that has counted
        least.

        A gateway that received alone may have begun the journal. Then the archive must have all that the catalog has
        assembled. Raises GatewayError otherwise, and CatalogTaken while such a gateway runs. In a catalog that is new,
        the segments that receivers have published are to be recorded again.
        """

    def published(self) -> int:
        """Return the packed position of the last message in the recorded segments of the shared journal; 0 before the
        first."""

    def receiving_journals(self) -> list[ReceivingJournal]:
        """Return the journals of all receivers that have not left, or whose sessions brokers still keep, by id."""

    def receiving_journal(self, journal: str) -> ReceivingJournal | None:
        """Return the journal of a receiver, also of one that has left; None if it is unknown."""

    def see(self, journal: str) -> None:
        """Record that a receiver is at work now, by the clock of the database."""

    def record_published(self, origin: Publication) -> None:
        """Record the next segment of the shared journal, and that it has the messages of its origin: also for a
        receiver that the catalog lacks, and that is to join again. Nothing changes if it has been recorded already."""

    def ask_to_publish(self) -> None:
        """Record that all receivers are to publish what they have now, at once."""

    def answer(self, journal: str, request: int | None) -> None:
        """Record that a receiver has published all that it had when it was asked for the time `request`; None: all that
        it has, as it stops."""

    def ask_to_leave(self, journal: str) -> None:
        """Record that a receiver is to leave for good."""

    def leave(self, journal: str, *, keeps_sessions: bool = False, if_asked: bool = False) -> bool:
        """Record that a receiver does not come back, and forget its receiving time: nothing waits for it any more. What
        is known of its journal stays, and its sessions if it `keeps_sessions`, for a process that takes its place. With
        `if_asked`, do so only if it is still asked to leave.

        Return False if it is unknown, or has left before. One that does come back joins again.
        """
