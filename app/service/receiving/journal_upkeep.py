"""The upkeep of the journal that a process writes: old segments are sealed, and unneeded ones retired; its gauges."""

from collections.abc import Callable

from app.model.message import Position
from app.observe import logger
from app.ports import Segment
from app.service.context import ReceiverContext, WriterContext
from app.service.quarantine.quarantine_records import copy_quarantined
from app.service.retention.removal import RetentionClock

log = logger(__name__)


def measure_journal(context: WriterContext) -> None:
    """Set the gauges of the journal that this process writes."""
    metrics, journal = context.metrics, context.journal
    metrics.journal_bytes.set_function(lambda: sum(segment.size for segment in journal.segments()))
    metrics.journal_segments.set_function(lambda: len(journal.segments()))
    metrics.free_bytes.set_function(journal.free_bytes)


def seal_old_segment(context: WriterContext) -> None:
    """Seal a segment that is old enough and that no append has ended."""
    context.journal.seal(context.settings.journal.segment_age.total_seconds())


class JournalUpkeep:
    """Retires segments.

    `may_go` has the final decision on a segment that nothing needs. `before_retiring` is called before segments are
    retired; when it raises, they stay.
    """

    def __init__(
        self,
        context: ReceiverContext,
        may_go: Callable[[Segment], bool] = lambda _segment: True,
        before_retiring: Callable[[], None] = lambda: None,
    ) -> None:
        self._context, self._may_go, self._before_retiring = context, may_go, before_retiring
        self._clock = RetentionClock(context.clock)

    def retire_segments(self) -> None:
        """Retire sealed journal segments that nothing needs and that are older than `retention.journal`.

        The segment that assembly has reached stays: a start looks for it, to notice files that are missing, and
        numbering continues behind it. The catalog may be written meanwhile. So the progress of assembly is read before
        the needed segments.
        """
        progress = self._context.catalog.progress()
        before = self._clock.before(self._context.settings.retention.journal)
        if progress is None or before is None:
            return
        assembled = Position.unpack(progress).segment
        old = [
            segment.number
            for segment in self._context.journal.segments()
            if segment.number < assembled
            and segment.sealed_at is not None
            and segment.sealed_at < before
            and self._may_go(segment)
        ]
        if not old:
            return
        copy_quarantined(self._context, max(old) + 1)
        needed = self._context.catalog.needed_segments(old)
        going = [number for number in old if number not in needed]
        if going:
            self._before_retiring()
            self._context.journal.retire(*going)
            log.info("segments_retired", first=going[0], last=going[-1], count=len(going))
