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
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from secrets import token_hex
from typing import Any

from app.model.errors import DamagedError, GatewayError
from app.model.message import Position
from app.model.records import JournalIdentity, Publication
from app.observe import Recurring, logger
from app.ports import ArchivedJournal, JournalArchive, Segment
from app.service.context import ReceiverContext
from app.service.retention.receiving_time import Reached

TURN = "journal"
"""The lease of the receiver that publishes."""
TURN_SECONDS = 10.0
TOGETHER_BYTES = 64 << 20
"""The size up to which several own segments become one."""

log = logger(__name__)


class Publisher:
    """Publishes the sealed segments of `context.journal` in the archive. `shared` is the journal of all receivers."""

    def __init__(self, context: ReceiverContext, archive: JournalArchive, shared: JournalIdentity) -> None:
        self._context, self._archive, self._shared = context, archive, shared
        self._own = context.journal.identity().id
        self._published = self._recorded()
        self._ends: deque[Publication] = deque()
        """What this process has published, as long as `place` may be asked for it."""
        self._fault = Recurring(log, "publishing", consequence="sealed segments stay in the receiver's own journal")
        context.metrics.archive_waiting_segments.set_function(lambda: len(self._waiting()))

    def publish(self) -> None:
        """Publish all sealed segments, if it is this receiver's turn."""
        if not self._waiting():
            return
        try:
            catalog = self._context.catalog
            lease = catalog.take_lease(TURN, self._context.instance, TURN_SECONDS)
            if lease is None:
                return
            try:
                self._publish()
            finally:
                catalog.release_lease(lease)
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
        else:
            self._fault.worked()

    def place(self, position: int) -> Reached | None:
        """Return what a packed position of the own journal means for the shared one; None while the shared one does not
        have all up to there. Nothing is at -1."""
        present = self._context.catalog.published()  # before the own end is read
        segment = 0 if position < 0 else Position.unpack(position).segment
        while self._ends and self._ends[0].segment < segment:
            self._ends.popleft()
        if segment > self._published:
            return None
        end = self._context.journal.end()
        has_more = position >= 0 and end is not None and end.pack() > position
        if not has_more or not self._ends:
            return Reached(present, present)
        # What came later may be in the same segment.
        return Reached(present, Position.unpack(self._ends[0].end)._replace(batch=0, row=0).pack() - 1)

    def last_published(self) -> int:
        """Return the last own segment that the shared journal is known to have; 0 before the first."""
        return self._published

    def is_published(self, segment: Segment) -> bool:
        """Tell whether the shared journal has a segment."""
        return segment.number <= self._published

    def check(self) -> dict[str, Any]:
        """Return the state of publishing for the health report."""
        return {"ok": self._fault.error is None, "waiting": len(self._waiting()), "error": self._fault.error}

    def _publish(self) -> None:
        while True:
            number = Position.unpack(self._context.catalog.published()).segment + 1
            self._published = self._recorded()
            segments = _together(self._waiting())
            if not segments:
                return
            origin, pieces = self._context.journal.published(segments, number, self._shared)
            if not self._archive.add(number, pieces):
                origin = self._origin(number)
            self._context.catalog.record_published(origin)
            if origin.journal == self._own:
                self._ends.append(origin)
                self._published = max(self._published, origin.segment)
                log.info("segment_published", segment=number, own_segments=segments)
            else:
                log.info("publication_recorded", segment=number, journal=origin.journal)

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

    def _recorded(self) -> int:
        """Return the last own segment that is published. Raises GatewayError if the own journal is no longer that of
        this process."""
        journals = {each.id: each for each in self._context.catalog.receiving_journals()}
        if (own := journals.get(self._own)) is None:
            raise GatewayError(
                f"the journal {self._own} of this receiver was removed from the catalog: restart the receiver to have "
                "its messages published"
            )
        if own.receiver != self._context.instance:
            raise GatewayError(
                f"{own.receiver} has opened the journal {self._own} of this receiver, in this folder or in a copy of "
                "it: give each receiver a data folder of its own"
            )
        return own.published

    def _waiting(self) -> list[Segment]:
        return [
            segment
            for segment in self._context.journal.segments()
            if segment.sealed_at is not None and segment.number > self._published
        ]


def archived_journal(archive: JournalArchive) -> ArchivedJournal:
    """Return what an archive has. Raises GatewayError if it has segments of several journals, or one whose header
    cannot be read."""
    numbers = [segment.number for segment in archive.segments()]
    journal = archive.identity() or JournalIdentity(token_hex(16), 1)
    published = bisect_left(numbers, True, key=lambda number: archive.origin(number) is not None)
    if published:
        alone = _last_position(archive, numbers[published - 1]).pack()
    else:  # nothing, or what is before the first one is gone
        alone = Position(numbers[0], 0, 0).pack() - 1 if numbers and numbers[0] > 1 else 0
    return ArchivedJournal(journal, alone, max(numbers, default=0))


def _last_position(archive: JournalArchive, segment: int) -> Position:
    batch = len(archive.batch_sizes(segment)) - 1
    try:
        rows = archive.descriptors(segment, batch).num_rows
    except DamagedError:
        rows = 1
    return Position(segment, batch, rows - 1)


def _together(segments: Sequence[Segment]) -> list[int]:
    """Return the first segments that are published as one."""
    taken: list[int] = []
    size = 0
    for segment in segments:
        size += segment.size
        if taken and size > TOGETHER_BYTES:
            break
        taken.append(segment.number)
    return taken
