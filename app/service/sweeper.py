"""What time does: unfinished attachments expire, finished ones settle, what nobody needs is removed."""

from dataclasses import replace

from app.model.attachment import AttachmentState
from app.model.message import Position
from app.model.records import AttachmentRecord, NewEvent
from app.observe import Metrics, logger
from app.ports import Catalog, Clock, ContentStore, Journal
from app.service.bell import Bell
from app.service.content import open_content
from app.settings import Settings, microseconds

log = logger(__name__)

AT_ONCE = 100


class Sweeper:
    """One call of `sweep` does what is due."""

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        catalog: Catalog,
        store: ContentStore,
        clock: Clock,
        metrics: Metrics,
        bell: Bell,
    ) -> None:
        self._settings, self._journal, self._catalog, self._store = settings, journal, catalog, store
        self._clock, self._metrics, self._bell = clock, metrics, bell

    def sweep(self) -> None:
        self.expire()
        self.settle()
        self.retire_segments()
        self.drop_delivered_content()
        self._catalog.prune_events(self._clock.now() - microseconds(self._settings.retention.events))

    def expire(self) -> None:
        """Receiving attachments without news for `expiry.unfinished` become expired."""
        now = self._clock.now()
        stale = self._catalog.stale_attachments(now - microseconds(self._settings.expiry.unfinished), AT_ONCE)
        if not stale:
            return
        events = [_expired(record, now) for record in stale]
        why = "no physical message of it came in the configured time"
        ids = [record.id for record in stale]
        self._catalog.set_state(ids, AttachmentState.EXPIRED, reason_code="expired", reason=why, events=events)
        for record in stale:
            kind = record.kind.word if record.kind else "unknown"
            self._metrics.attachments.labels(AttachmentState.EXPIRED, kind).inc()
        self._bell.ring()

    def settle(self) -> None:
        """Copies finished content that still lies in the journal to the content store."""
        before = self._clock.now() - microseconds(self._settings.content.settle_after)
        for record in self._catalog.unsettled_attachments(before, AT_ONCE):
            name = f"attachments/{record.id}"
            content = open_content(record, self._catalog, self._store, self._journal)
            with self._store.create(name) as target:
                for piece in content.read(0, content.size):
                    target.write(piece)
            if not self._catalog.settle(record.id, name):
                self._store.delete(name)

    def retire_segments(self) -> None:
        """Removes sealed journal segments that nothing needs and that are older than `retention.journal`."""
        progress = self._catalog.progress()
        if progress is None:
            return
        assembled = Position.unpack(progress).segment
        before = self._clock.now() - microseconds(self._settings.retention.journal)
        old = [
            segment.number
            for segment in self._journal.segments()
            if segment.number < assembled and segment.sealed_at is not None and segment.sealed_at < before
        ]
        if not old:
            return
        needed = self._catalog.needed_segments()
        for number in old:
            if number not in needed:
                self._journal.retire(number)
                log.info("journal segment retired", segment=number)

    def drop_delivered_content(self) -> None:
        """Forgets the content of deliveries that ended longer ago than `retention.deliveries`."""
        before = self._clock.now() - microseconds(self._settings.retention.deliveries)
        for delivery in self._catalog.ended_deliveries(before, AT_ONCE):
            for attachment in delivery.attachments:
                self._store.delete(attachment.object_name)
            emptied = tuple(replace(attachment, object_name="") for attachment in delivery.attachments)
            self._catalog.update_delivery(replace(delivery, attachments=emptied))


def _expired(record: AttachmentRecord, now: int) -> NewEvent:
    received, expected = record.parts_received, record.parts_expected
    return NewEvent("attachment.expired", record.id, now, {"parts_received": received, "parts_expected": expected})
