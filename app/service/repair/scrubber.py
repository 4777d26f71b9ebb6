"""A slow worker that verifies stored bytes: sealed journal segments, then settled content, and then all of it again.

Damaged content is assembled again from the journal at once if that is possible. Otherwise it stays marked, and the next
pass tries again. The progress of a pass is kept in a file, so that a restart continues it.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from threading import Event
from typing import Any

from app.model.attachment import AttachmentState
from app.model.errors import DamagedError, GatewayError
from app.model.records import AttachmentRecord
from app.model.trace_context import trace_fields
from app.observe import Recurring, logger
from app.ports import AttachmentFilter, BadCursor, Segment
from app.service.content.content_damage import Damages
from app.service.context import ServiceContext
from app.service.repair.healing import Reading
from app.service.repair.restoring import report_outcome, restore_content
from app.settings import microseconds

log = logger(__name__)

START_SECONDS = 60.0
"""The pause after a start, when other work comes first."""
IDLE_SECONDS = 30.0
_AT_ONCE = 100
_SHOWN = 10


@dataclass(slots=True)
class ScrubProgress:
    """The progress of a pass: its begin and end (µs), the last segment that was read, and the cursor in the listing of
    attachments. `in_content` is set once all segments are read. Segments belong to `journal`."""

    journal: str
    begun_at: int = 0
    ended_at: int = 0
    segment: int = 0
    in_content: bool = False
    cursor: str | None = None
    damaged_segments: dict[str, str] = field(default_factory=dict)

    @property
    def is_under_way(self) -> bool:
        return self.begun_at > self.ended_at


class Scrubber:
    """Verifies stored bytes. One call of `step` reads one segment, or one page of attachments."""

    def __init__(
        self,
        context: ServiceContext,
        damages: Damages,
        read: Reading,
        stop: Event,
    ) -> None:
        self._context, self._damages, self._read, self._stop = context, damages, read, stop
        bound = context.catalog.journal_identity()
        self._rate = context.settings.scrub.rate
        self._file = context.settings.data / "scrub.json"
        self._progress = ScrubProgress("" if bound is None else bound.id)
        # A damaged or missing file, or one of another journal, makes a pass begin anew.
        with suppress(OSError, TypeError, ValueError):
            known = ScrubProgress(**json.loads(self._file.read_text()))
            if known.journal == self._progress.journal:
                self._progress = known
        self._fault = Recurring(log, "scrub")
        context.metrics.scrub_damaged_segments.set_function(lambda: len(self._progress.damaged_segments))
        context.metrics.scrub_ended.set_function(lambda: self._progress.ended_at / 1e6)

    def run(self) -> None:
        """Read until `stop` is set."""
        pause = START_SECONDS
        while not self._stop.wait(pause):
            try:
                pause = 0.0 if self.step() else IDLE_SECONDS
            except Exception as error:  # noqa: BLE001 - `Recurring` logs it
                self._fault.failed(error)
                pause = IDLE_SECONDS
            else:
                self._fault.worked()

    def step(self) -> bool:
        """Read the next segment or page; return whether there was anything to do."""
        now, progress = self._context.clock.now(), self._progress
        if not progress.is_under_way:
            if 0 <= now - progress.begun_at < microseconds(self._context.settings.scrub.interval):
                return False  # a pass that begins later than now was begun by a clock that was ahead
            self._progress = progress = ScrubProgress(progress.journal, now, min(progress.ended_at, now - 1))
        if not progress.in_content:
            sealed = (each for each in self._context.journal.segments() if each.sealed_at is not None)
            segment = next((each for each in sealed if each.number > progress.segment), None)
            if segment is None:
                progress.in_content = True
            else:
                self._verify(segment)
                progress.segment = segment.number
        elif self._page():
            progress.ended_at = max(self._context.clock.now(), progress.begun_at)
            progress.segment, progress.in_content, progress.cursor = 0, False, None
            log.info("scrub_ended", damaged_segments=len(progress.damaged_segments))
        partial = self._file.with_name(self._file.name + ".partial")
        partial.write_text(json.dumps(asdict(self._progress)))
        partial.replace(self._file)
        return True

    def check(self) -> dict[str, Any]:
        """Return the findings for the health report."""
        progress = self._progress
        some = dict([*progress.damaged_segments.items()][:_SHOWN])
        return {
            "ok": not progress.damaged_segments and self._fault.error is None,
            "error": self._fault.error,
            "begun_at": progress.begun_at or None,
            "ended_at": progress.ended_at or None,
            "damaged_segments": some,
        }

    def _verify(self, segment: Segment) -> None:
        with suppress(KeyError):  # retired meanwhile
            damage = self._context.journal.verify(segment.number)
            self._context.metrics.scrub_bytes.labels("journal").inc(segment.size)
            if damage:
                self._progress.damaged_segments[str(segment.number)] = str(damage[0])
                self._context.metrics.damage.labels("scrub").inc()
                log.error("segment_damaged", segment=segment.number, places=len(damage), first=str(damage[0]))
        self._stop.wait(segment.size / self._rate)

    def _page(self) -> bool:
        """Read a page of attachments; return whether it was the last."""
        which = AttachmentFilter(AttachmentState.FINISHED)
        try:
            page = self._context.catalog.attachments(which, self._progress.cursor, _AT_ONCE)
        except BadCursor:
            page = self._context.catalog.attachments(which, None, _AT_ONCE)
        for record in page.items:
            if self._stop.is_set():
                return False
            if record.storage == "store":
                try:
                    self._read_slowly(record)
                except DamagedError as error:
                    self._restore(record, error)
        self._progress.cursor = page.next
        return page.next is None

    def _read_slowly(self, record: AttachmentRecord) -> None:
        try:
            for piece in self._read(record):
                self._context.metrics.scrub_bytes.labels("content").inc(len(piece))
                if self._stop.wait(len(piece) / self._rate):
                    return
        except KeyError as gone:
            self._damages.require_deleted(record, gone)

    def _restore(self, record: AttachmentRecord, error: DamagedError) -> None:
        self._context.metrics.damage.labels("scrub").inc()
        try:
            outcomes = restore_content([record.id], self._context, give_up=False)
        except GatewayError as failure:
            log.warning(
                "content_not_restored", attachment=record.id, reason=str(failure), **trace_fields(record.trace_parent)
            )
            return
        for outcome in outcomes:
            report_outcome(record, outcome, self._context, self._damages, damage=str(error))
