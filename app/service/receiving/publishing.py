"""Publishing: a receiver's sealed segments become segments of the journal that several receivers share.

The archive is that journal. Its segments have one order, which the receivers make: each takes the next free number for
what it has sealed. Everything behind the archive, assembly as well as Spark, then works as with a single receiver.

1. A receiver takes the lease `journal`, so that no two of them upload for the same number in vain.
2. It adds a segment with the number after the last recorded one. The archive takes each number once, so the lease need
   not be a fence: of two that believe to hold it, one adds the segment, and the other finds that the number is taken.
3. It records in the catalog that the number is used, and which of its own segments the shared journal has now.

It reads the last recorded number before it reads which of its own segments are published. So nothing was published
between the two, if the number is still free at 2: also a second process with the same journal, or one that was paused,
publishes no segment again.

Whoever finds a number taken reads in that segment whose messages it has, and records it for that receiver, which was
killed or paused between 2 and 3. Since no number is used before all lower ones are recorded, no segment is published
twice, and none is skipped.

A receiver that is asked for it publishes all that it has at once, and says so when it is done: a backup waits for that.

A receiver without a disk (`journal.ack = "archive"`) has its own segments in the place of the archive. When it is away,
another one publishes them, and fences it: it cannot add any more.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Mapping
from itertools import accumulate
from secrets import token_hex
from time import monotonic
from typing import Any, NamedTuple

from app import plugins
from app.model.errors import DamagedError, GatewayError, JournalTaken
from app.model.message import Position
from app.model.records import JournalIdentity, Publication
from app.observe import Recurring, logger
from app.ports import ArchivedJournal, Catalog, JournalArchive, Segment, WritableJournal
from app.ports.catalog.shared_journal import NO_SESSIONS, ReceivingJournal
from app.service.context import WriterContext
from app.service.retention.receiving_time import Reached

TURN = "journal"
"""The lease of the receiver that publishes."""
TURN_SECONDS = 10.0
TOGETHER_BYTES = 64 << 20
"""The size up to which several own segments become one."""
LOOK_SECONDS = 2.0
"""The time after which a receiver shows again that it is at work, and looks for others that are away."""
REMOVED_AT_ONCE = 1000
"""How many segments that another receiver has left are removed before this one shows again that it is at work."""
TAKEN_OVER_SECONDS = 10.0
"""After this time, others publish what a receiver without a disk has left that was not seen."""

log = logger(__name__)


class _Own(NamedTuple):
    """The journal of a receiver, by its id, and the last of its segments that is recorded as published. Others publish
    the one of a receiver without a disk if it `is_left`."""

    journal: WritableJournal | JournalArchive
    id: str
    published: int = 0
    is_left: bool = False

    def waiting(self) -> list[Segment]:
        """Return the sealed segments that are not published."""
        segments = self.journal.segments()
        waiting = [each for each in segments if each.sealed_at is not None and each.number > self.published]
        if self.is_left:  # nothing behind a gap was acknowledged, and its receiver may still fill the gap
            return [each for number, each in enumerate(waiting, self.published + 1) if each.number == number]
        return waiting


class _Debt(NamedTuple):
    """What a receiver is asked to publish: its segments up to one. `request` counts how often it was asked."""

    request: int
    segment: int


class Publisher:
    """Publishes the sealed segments of `context.journal` in the archive, which is the journal of all receivers.

    It receives from `sources`, by these `sessions` at brokers. A receiver that `has_left` for good does not look for
    others any more, and publishes only what is still in its journal.
    """

    def __init__(
        self,
        context: WriterContext,
        archive: JournalArchive,
        sources: Collection[str],
        sessions: Mapping[str, str] = NO_SESSIONS,
    ) -> None:
        self._context, self._archive, self._sources, self._sessions = context, archive, sources, sessions
        self._catalog = context.catalog
        self._opened_at = 0
        self._shared = self._join()
        self._own = self._recorded(_Own(context.journal, context.journal.identity().id))
        self._ends: deque[Publication] = deque()
        """What this process has published, as long as `place` may be asked for it."""
        self._looked_at = self._seen_at = -LOOK_SECONDS
        self._debt: _Debt | None = None
        self._may_lack = False
        """Whether the catalog may lack what receivers have published, or this receiver: its database was put back."""
        self.has_left = False
        self._fault = Recurring(log, "publishing", consequence="sealed segments stay in the receiver's own journal")
        self.taken: str | None = None
        """Why this process must not receive any more: another one has opened its journal, or a copy of it."""
        self.added: set[int] = set()
        """Own segments that this process has added to the archive, until they are retired."""
        context.metrics.archive_waiting_segments.set_function(lambda: len(self._own.waiting()))

    def publish(self) -> None:
        """Publish all sealed segments, and what receivers that are away have left, if it is this receiver's turn."""
        try:
            if self._may_lack and not self.has_left:
                self._shared = self._join()
                self._may_lack, self._debt = False, None
            away = self._away() if not self.has_left and monotonic() - self._looked_at >= LOOK_SECONDS else []
            self._seal_debt()
            if away or self._own.waiting():
                lease = self._catalog.take_lease(TURN, self._context.instance, TURN_SECONDS)
                if lease is None:
                    return
                try:
                    self._own = self._publish(self._own)
                    for journal in away:
                        self._take_over(journal)
                finally:
                    self._catalog.release_lease(lease)
            if (debt := self._debt) is not None and self._own.published >= debt.segment:
                self._catalog.answer(self._own.id, debt.request)
                self._debt = None
        except JournalTaken as error:
            self.taken = str(error)
            self._fault.failed(error)
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
        else:
            self._fault.worked()

    def join_again(self) -> None:
        """Have the catalog learn again what it may lack, as its database was started or put back."""
        self._may_lack = True

    def leave(self, *, for_good: bool = False) -> None:
        """Publish all that is sealed; nothing comes after it. A receiver without a disk then leaves: its next process
        has another journal, and the same sessions. One that leaves for good has ended them. What is uncertain is
        compared before."""
        self.publish()
        known = self._catalog.receiving_journal(self._own.id)
        if self.has_left or known is None or self._own.waiting() or self.has_uncertain():
            return
        if known.in_archive or for_good:
            self._catalog.leave(self._own.id, keeps_sessions=not for_good)
        else:
            self._catalog.answer(self._own.id, None)
        if for_good:
            self.has_left = True
            log.info("receiver_left", journal=self._own.id, receiver=self._context.instance)

    def place(self, position: int) -> Reached | None:
        """Return what a packed position of the own journal means for the shared one; None while the shared one does not
        have all up to there. Nothing is at -1."""
        present = self._catalog.published()  # before the own end is read
        segment = 0 if position < 0 else Position.unpack(position).segment
        while self._ends and self._ends[0].segment < segment:
            self._ends.popleft()
        if segment > self._own.published:
            return None
        end = self._context.journal.end()
        has_more = position >= 0 and end is not None and end.pack() > position
        if not has_more or not self._ends:
            return Reached(present, present)
        # What came later may be in the same segment.
        return Reached(present, Position.unpack(self._ends[0].end)._replace(batch=0, row=0).pack() - 1)

    def last_published(self) -> int:
        """Return the last own segment that the shared journal is known to have; 0 before the first."""
        return self._own.published

    def is_published(self, segment: Segment) -> bool:
        """Tell whether the shared journal has a segment of this number. If another process has added it, that may be
        one with a copy of the journal, and with other messages."""
        return segment.number <= self._own.published

    def published_segments(self) -> list[Segment]:
        """Return the own segments that are sealed, and whose numbers are published."""
        segments = self._context.journal.segments()
        return [each for each in segments if each.sealed_at is not None and self.is_published(each)]

    def is_certain(self, segment: Segment) -> bool:
        """Tell whether the segment that was published under a number is surely this one: this process has added it, or
        nobody can have a copy of the journal. In the place of the archive, the store gives each of its numbers once."""
        return segment.number in self.added or self._context.settings.journal.ack == "archive"

    def has_uncertain(self) -> bool:
        """Tell whether published segments are still to be compared with the archive (`OwnSegments`)."""
        return not all(map(self.is_certain, self.published_segments()))

    def check(self) -> dict[str, Any]:
        """Return the state of publishing for the health report."""
        return {"ok": self._fault.error is None, "waiting": len(self._own.waiting()), "error": self._fault.error}

    def _join(self) -> JournalIdentity:
        """Make the own journal known to the catalog, and what has been published; return the journal of all
        receivers."""
        own, in_archive = self._context.journal.identity(), self._context.settings.journal.ack == "archive"
        archived = archived_journal(self._archive)
        receiver, sessions = self._context.instance, self._sessions
        shared = self._catalog.join(own, receiver, self._sources, archived, in_archive=in_archive, sessions=sessions)
        record_archived(self._catalog, self._archive)
        return shared

    def _publish(self, own: _Own) -> _Own:
        """Publish what waits in a journal; return it as it is then."""
        while True:
            self._show()
            number = Position.unpack(self._catalog.published()).segment + 1
            own = self._recorded(own)
            waiting = own.waiting()
            if not waiting:
                return own
            # The first ones are published as one.
            sizes = accumulate(segment.size for segment in waiting)
            count = max(1, sum(size <= TOGETHER_BYTES for size in sizes))
            segments = [segment.number for segment in waiting[:count]]
            try:
                origin, pieces = own.journal.published(segments, number, self._shared)
                is_added = self._archive.add(number, pieces)
            except KeyError as error:
                raise GatewayError(
                    f"segment {error} of the journal {own.id} is gone: another receiver has published it, or it is lost"
                ) from error
            if not is_added:
                origin = self._origin(number)
            elif own.journal is self._context.journal:
                self.added.update(segments)
            self._catalog.record_published(origin)
            if origin.journal == self._own.id:
                self._ends.append(origin)
            log.info("segment_published", segment=number, journal=origin.journal, last_own_segment=origin.segment)

    def _origin(self, number: int) -> Publication:
        """Return what the segment has that took this number."""
        origin = self._archive.origin(number)
        if origin is None:
            raise GatewayError(
                f"segment {number} of the archive was not published by a receiver: another gateway archives its own "
                "journal in the same place (journal.archive_url)"
            )
        if (found := self._archive.identity()) is None or found.id != self._shared.id:
            raise GatewayError(
                f"segment {number} of the archive belongs to the journal {found and found.id}, and the catalog is of "
                f"journal {self._shared.id}: give each gateway an archive of its own (journal.archive_url)"
            )
        if Position.unpack(origin.end).segment != number:
            raise GatewayError(f"segment {number} of the archive says that it ends at {Position.unpack(origin.end)}")
        return origin

    def _recorded(self, own: _Own) -> _Own:
        """Return a journal with the last segment that is published. Raises JournalTaken if the journal of this process
        is no longer its own."""
        known = self._catalog.receiving_journal(own.id)
        if known is None:
            raise GatewayError(
                f"the journal {own.id} of this receiver was removed from the catalog: restart the receiver to have its "
                "messages published"
            )
        if own.journal is self._context.journal:
            self._require_opened_last(known)
        return own._replace(published=known.published)

    def _require_opened_last(self, known: ReceivingJournal) -> None:
        """Raise JournalTaken if another process has opened the journal of this one since. In a database that was put
        back, it is one before this one, which then joins again."""
        if known.receiver == self._context.instance:
            self._opened_at = known.opened_at
        elif known.opened_at < self._opened_at:
            self._may_lack = True
            raise GatewayError(f"the catalog knows {known.receiver}, which had opened the journal {known.id} before")
        else:
            raise JournalTaken(
                f"{known.receiver} has opened the journal {known.id} of this receiver, in this folder or in a copy of "
                "it: give each receiver a data folder of its own"
            )

    def _away(self) -> list[str]:
        """Show that this receiver is at work. Return the journals of receivers without a disk that are away."""
        own = self._catalog.receiving_journal(self._own.id)
        if own is not None:
            self._require_opened_last(own)
        if own is not None and own.has_left:
            log.warning("receiver_rejoined", journal=own.id, reason="it had been made to leave")
            self._join()
        is_new = own is not None and own.owes and (self._debt is None or self._debt.request < own.asked)
        if own is not None and is_new and not self.has_uncertain():
            end = self._context.journal.end()  # all that was acknowledged when it was asked
            self._debt = _Debt(own.asked, 0 if end is None else end.segment)
        self._show()
        self._looked_at = monotonic()
        left = (each for each in self._catalog.receiving_journals() if each.in_archive and each.id != self._own.id)
        return [each.id for each in left if not each.has_left and each.silent > TAKEN_OVER_SECONDS * 1e6]

    def _seal_debt(self) -> None:
        """End the segment that is being written if it is to be published at once. It is done once, however long the
        archive cannot be reached."""
        if (debt := self._debt) is None:
            return
        if any(each.sealed_at is None and each.number <= debt.segment for each in self._context.journal.segments()):
            self._context.journal.seal()

    def _show(self) -> None:
        """Show that this receiver is at work: it is not replaced while it publishes for long what others have left."""
        if not self.has_left and monotonic() - self._seen_at >= LOOK_SECONDS:
            self._catalog.see(self._own.id)
            self._seen_at = monotonic()

    def _take_over(self, journal: str) -> None:
        """Publish what a receiver has left that is away, and let it add nothing more."""
        place = plugins.object_journal().place(self._context.settings.journal.archive_url or "", journal)
        left = plugins.archive()(place, self._context.settings.archive_cache)
        own = self._publish(_Own(left, journal, is_left=True))
        if not left.fence(own.published):
            return  # it has just added a segment: the next look finds that
        if self._recorded(own).published > own.published:
            # Others have published and removed the segment that had the number of the fence, which so stops nobody. The
            # receiver may be at work, and acknowledge what it has added behind.
            return
        segments = [segment.number for segment in left.segments()]
        for at in range(0, len(segments), REMOVED_AT_ONCE):
            self._show()
            left.remove(*segments[at : at + REMOVED_AT_ONCE])
        self._catalog.leave(journal, keeps_sessions=True)
        log.warning("receiver_replaced", journal=journal, last_own_segment=own.published)


def record_archived(catalog: Catalog, archive: JournalArchive) -> None:
    """Record the published segments that the archive has and the catalog lacks: it is an older copy, or whoever has
    published the last one was killed before it recorded that. Before any receiver has joined, nothing is recorded."""
    while catalog.journal_identity() is not None:
        number = Position.unpack(catalog.published()).segment + 1
        try:
            origin = archive.origin(number)
        except KeyError:
            return
        if origin is None or Position.unpack(origin.end).segment != number:
            return
        catalog.record_published(origin)
        log.info("segment_recorded", segment=number, journal=origin.journal, last_own_segment=origin.segment)


def archived_journal(archive: JournalArchive) -> ArchivedJournal:
    """Return what an archive has. Raises GatewayError if it has segments of several journals, or one whose header
    cannot be read."""
    numbers = [segment.number for segment in archive.segments()]
    journal = archive.identity() or JournalIdentity(token_hex(16), 1)
    published = bisect_left(numbers, True, key=lambda number: archive.origin(number) is not None)
    if published:
        last = numbers[published - 1]
        batch = len(archive.batch_sizes(last)) - 1
        try:
            rows = archive.descriptors(last, batch).num_rows
        except DamagedError:
            rows = 1
        alone = Position(last, batch, rows - 1).pack()
    else:  # nothing, or what is before the first one is gone
        alone = Position(numbers[0], 0, 0).pack() - 1 if numbers and numbers[0] > 1 else 0
    return ArchivedJournal(journal, alone, max(numbers, default=0))
