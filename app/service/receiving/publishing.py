"""Publishing: a receiver's sealed segments become segments of the journal that several receivers share.

The archive is that journal. Its segments have one order, which the receivers make: each takes the next free number for
what it has sealed. Everything behind the archive, assembly as well as Spark, then works as with a single receiver.

1. A receiver takes the lease `journal`, so that no two of them upload for the same number in vain.
2. It adds a segment with the number after the last recorded one. The archive takes each number once, so the lease need
   not be a fence: of two that believe to hold it, one adds the segment, and the other finds that the number is taken.
3. It records in the catalog that the number is used, and which of its own segments the shared journal has now.

Whoever finds a number taken reads in that segment whose messages it has, and records it for that receiver, which was
killed or paused between 2 and 3. Since no number is used before all lower ones are recorded, no segment is published
twice, and none is skipped.
"""

from collections.abc import Sequence
from secrets import token_hex
from typing import Any

from app.model.errors import GatewayError
from app.model.message import Position
from app.model.records import JournalIdentity, Publication
from app.observe import Recurring, logger
from app.ports import JournalArchive, Segment
from app.service.context import ReceiverContext

TURN = "journal"
"""The lease of the receiver that publishes."""
TURN_SECONDS = 10.0
TOGETHER_BYTES = 64 << 20
"""The size up to which several own segments become one."""

log = logger(__name__)


class Publisher:
    """Publishes the sealed segments of `context.journal` in the archive, which is the journal of all receivers."""

    def __init__(self, context: ReceiverContext, archive: JournalArchive) -> None:
        self._context, self._archive = context, archive
        self._own = context.journal.identity().id
        self._join()
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

    def place(self, position: int) -> int | None:
        """Return the present end of the shared journal, if that has all up to a packed position of the own journal, and
        None otherwise. Nothing is at -1."""
        is_published = position < 0 or Position.unpack(position).segment <= self._published
        return self._context.catalog.published() if is_published else None

    def is_published(self, segment: Segment) -> bool:
        """Tell whether the shared journal has a segment."""
        return segment.number <= self._published

    def check(self) -> dict[str, Any]:
        """Return the state of publishing for the health report."""
        return {"ok": self._fault.error is None, "waiting": len(self._waiting()), "error": self._fault.error}

    def _join(self) -> None:
        """Make the own journal known to the catalog, and find out what the shared one has of it."""
        newest = max((segment.number for segment in self._archive.segments()), default=0)
        new = self._archive.identity() or JournalIdentity(token_hex(16), 1)
        self._shared = self._context.catalog.join(self._context.journal.identity(), self._context.instance, new, newest)
        self._published = self._recorded() or 0

    def _publish(self) -> None:
        recorded = self._recorded()
        if recorded is None:
            log.warning("receiver_joined_again", journal=self._own, reason="it had been forgotten")
            self._join()
        else:
            self._published = recorded
        while waiting := self._waiting():
            number = Position.unpack(self._context.catalog.published()).segment + 1
            segments = _together(waiting)
            origin, pieces = self._context.journal.published(segments, number, self._shared)
            if not self._archive.add(number, pieces):
                origin = self._origin(number)
            self._context.catalog.record_published(origin)
            if origin.journal == self._own:
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
        return origin

    def _recorded(self) -> int | None:
        """Return the last own segment that is published; None if the catalog does not know the own journal."""
        known = (each.published for each in self._context.catalog.receiving_journals() if each.id == self._own)
        return next(known, None)

    def _waiting(self) -> list[Segment]:
        return [
            segment
            for segment in self._context.journal.segments()
            if segment.sealed_at is not None and segment.number > self._published
        ]


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
