"""What time does: unfinished attachments expire, what nobody needs is removed."""

from collections.abc import Callable
from dataclasses import replace

from app.model.attachment import AttachmentState
from app.model.message import Position
from app.observe import Recurring, logger
from app.ports import Segment
from app.service.completion import expiry_event
from app.service.surroundings import Surroundings
from app.settings import microseconds

log = logger(__name__)

AT_ONCE = 100


class Sweeper:
    """One call of `sweep` does what is due. `may_go` has the last word over a segment that nothing needs."""

    def __init__(self, around: Surroundings, may_go: Callable[[Segment], bool] = lambda _segment: True) -> None:
        self._around, self._may_go = around, may_go
        self._faults: dict[str, Recurring] = {}

    def sweep(self) -> None:
        """Every step by itself: one that fails, on a full disk say, must not keep the others from making room."""
        steps = (
            self.expire,
            self.retire_segments,
            self.drop_delivered_content,
            self.prune_events,
        )
        for step in steps:
            try:
                step()
            except Exception as error:  # noqa: BLE001 - it is logged by whoever counts it
                self._faults.setdefault(step.__name__, Recurring(log, "sweep", step=step.__name__)).failed(error)
            else:
                if step.__name__ in self._faults:
                    self._faults[step.__name__].worked()

    def expire(self) -> None:
        """Receiving attachments without news for `expiry.unfinished` become expired."""
        now = self._around.clock.now()
        stale = self._around.catalog.stale_attachments(
            now - microseconds(self._around.settings.expiry.unfinished), AT_ONCE
        )
        if not stale:
            return
        events = [expiry_event(record, now) for record in stale]
        why = "no physical message of it came in the configured time"
        ids = [record.id for record in stale]
        self._around.catalog.set_state(ids, AttachmentState.EXPIRED, reason_code="expired", reason=why, events=events)
        for record in stale:
            kind = record.kind.word if record.kind else "unknown"
            self._around.metrics.attachments.labels(AttachmentState.EXPIRED, kind).inc()
        self._around.bell.ring()

    def seal_old_segment(self) -> None:
        """Seals a segment that is old enough and that no append comes to end."""
        before = self._around.clock.now() - microseconds(self._around.settings.journal.segment_age)
        segments = self._around.journal.segments()
        if any(segment.sealed_at is None and segment.created_at < before for segment in segments):
            self._around.journal.seal()

    def retire_segments(self) -> None:
        """Removes sealed journal segments that nothing needs and that are older than `retention.journal`.

        Whoever writes the catalog may go on meanwhile: what was assembled is asked before what is needed.
        """
        progress = self._around.catalog.progress()
        if progress is None:
            return
        assembled = Position.unpack(progress).segment
        before = self._around.clock.now() - microseconds(self._around.settings.retention.journal)
        old = [
            segment.number
            for segment in self._around.journal.segments()
            if segment.number < assembled
            and segment.sealed_at is not None
            and segment.sealed_at < before
            and self._may_go(segment)
        ]
        if not old:
            return
        needed = self._around.catalog.needed_segments()
        for number in old:
            if number not in needed:
                self._around.journal.retire(number)
                log.info("journal segment retired", segment=number)

    def prune_events(self) -> None:
        """Forgets events older than `retention.events`."""
        before = self._around.clock.now() - microseconds(self._around.settings.retention.events)
        self._around.catalog.prune_events(before)

    def drop_abandoned_uploads(self) -> None:
        """Forgets what was uploaded for deliveries that a killed process never took. Call it before uploads begin."""
        for name in list(self._around.store.names("outgoing/")):
            if self._around.catalog.delivery(name.split("/")[1]) is None:
                self._around.store.delete(name)

    def drop_delivered_content(self) -> None:
        """Forgets the content of deliveries that ended longer ago than `retention.deliveries`."""
        before = self._around.clock.now() - microseconds(self._around.settings.retention.deliveries)
        for delivery in self._around.catalog.ended_deliveries(before, AT_ONCE):
            for attachment in delivery.attachments:
                self._around.store.delete(attachment.object_name)
            emptied = tuple(replace(attachment, object_name="") for attachment in delivery.attachments)
            self._around.catalog.update_delivery(replace(delivery, attachments=emptied))
