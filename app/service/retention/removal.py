"""The removal of data that is old or too much: content, attachments, deliveries, quarantine entries, events.

The oldest data is removed first, in batches. Each source has its own limits of quarantine. Attachments that are being
received, complete or not yet settled, and deliveries still to be sent, are never removed. `Sweeper` does this
regularly, and has unfinished attachments expire.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from typing import TypeVar

from app.assembly.collecting import Key
from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord, QuarantineRecord
from app.model.webhook_state import WebhookState
from app.observe import Recurring, logger
from app.ports import Clock
from app.service.context import Between, ServiceContext, at_once
from app.service.events.event_entries import deletion_event
from app.service.retention.deletion import remove_content
from app.service.retention.expiry import Expirer
from app.service.retention.receiving_time import CountedTime, SavedReceivingTime
from app.settings import microseconds

log = logger(__name__)

AT_ONCE = 500
EVENTS_AT_ONCE = 5000
EVERY_SECONDS = 10.0
COUNT_SECONDS = 60.0

Sized = TypeVar("Sized", AttachmentRecord, QuarantineRecord)

_ROWS = (AttachmentState.DELETED, AttachmentState.QUARANTINED)
_ROW_IS_OLD = "no message of it has come for longer than the retention settings allow"


class RetentionClock:
    """The clock that decides what is old. When the system clock is set forward, nothing becomes old too early, as long
    as this process runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall, self._started = clock.now(), clock.monotonic()

    def now(self) -> int:
        """Return the microseconds since 1970-01-01 UTC."""
        passed = int((self._clock.monotonic() - self._started) * 1e6)
        return min(self._clock.now(), self._wall + passed)

    def before(self, age: timedelta | None) -> int | None:
        """Return the time before which everything is older than `age`; None for an unlimited age."""
        return None if age is None else self.now() - microseconds(age)


@dataclass(slots=True)
class _Step:
    """A kind of data, the function that removes some of it, and when that is due. It returns whether there may
    be more."""

    name: str
    drop: Callable[[], bool]
    due: float = 0.0


class Remover:
    """Removes old data. One call of `retain` does everything that is due."""

    def __init__(self, context: ServiceContext, clock: RetentionClock, between: Between = at_once) -> None:
        self._context, self._clock, self._between = context, clock, between
        self._retention = context.settings.retention
        self._counted_at: float | None = None
        self._steps = [
            _Step("deleted content", self.remove_content),
            _Step("content", self.drop_content),
            _Step("attachments", self.drop_attachments),
            _Step("messages", self.drop_messages),
            _Step("deliveries", self.drop_deliveries),
            _Step("quarantine", self.drop_quarantine),
            _Step("events", self.drop_events),
            _Step("dead letters", self.drop_dead_letters),
        ]

    def retain(self) -> None:
        """Run the steps that are due. A step that fails does not stop the others."""
        now = self._context.clock.monotonic()
        for step in self._steps:
            if now < step.due:
                continue
            try:
                has_more = step.drop()
            except Exception:
                log.exception("retention_failed", what=step.name)
                has_more = False
            step.due = now if has_more else now + EVERY_SECONDS
        if self._counted_at is None or now - self._counted_at >= COUNT_SECONDS:
            self._counted_at = now
            for what, kept in self._context.catalog.kept().items():
                self._context.metrics.kept.labels(what).set(kept.number)
                self._context.metrics.kept_bytes.labels(what).set(kept.size)

    def _dropped(self, what: str, count: int, size: int = 0) -> None:
        if count:
            self._context.metrics.dropped.labels(what).inc(count)
            self._context.metrics.dropped_bytes.labels(what).inc(size)
            log.info("retention_applied", what=what, count=count, bytes=size)

    # --- content ----------------------------------------------------------------------------------------------------

    def remove_content(self) -> bool:
        """Remove the objects of deleted attachments that are still there: the store or this process has failed."""
        deleted = self._context.catalog.content_to_remove(AT_ONCE)
        remove_content(deleted, self._context)
        return len(deleted) == AT_ONCE

    def drop_content(self) -> bool:
        """Remove finished content that is old or too much. Its attachments are deleted, and their rows stay."""
        catalog = self._context.catalog
        before = self._clock.before(self._retention.content)
        old = [] if before is None else catalog.oldest_content(before, AT_ONCE)
        if not old and self._retention.content_bytes is not None:
            excess = catalog.kept()["content"].size - self._retention.content_bytes
            old = _until(excess, catalog.oldest_content(self._clock.now() + 1, AT_ONCE)) if excess > 0 else []
        if not old:
            return False
        now = self._context.clock.now()
        why = "its content was older, or the content store larger, than the retention settings allow"
        events = [deletion_event(each, now, reason=why) for each in old]
        ids = [each.id for each in old]
        self._context.catalog.set_state(
            ids, AttachmentState.DELETED, reason_code="retention", reason=why, events=events
        )
        self._context.metrics.count_attachments(AttachmentState.DELETED, old)
        self._context.notifier.notify()
        remove_content(old, self._context)
        self._dropped("content", len(old), sum(each.size or 0 for each in old))
        return True

    # --- rows of attachments and messages ---------------------------------------------------------------------------

    def drop_attachments(self) -> bool:
        """Remove the rows of ended attachments without content, and of their messages; before, the parts of refused
        ones."""
        before = self._clock.before(self._retention.quarantine)
        refused = [] if before is None else self._context.catalog.refused_attachments(before, AT_ONCE)
        if refused:  # quarantine no longer keeps their parts for a retry
            self._between(lambda: self._release(refused))
        has_more = False
        now = self._context.clock.now()
        ages = ((_ROWS, self._retention.attachments), ((AttachmentState.EXPIRED,), self._retention.expired))
        for states, age in ages:
            if (before := self._clock.before(age)) is not None:
                attachments, messages = self._context.catalog.drop_attachments(
                    states, before, AT_ONCE, lambda each: deletion_event(each, now, reason=_ROW_IS_OLD)
                )
                if attachments:
                    self._context.notifier.notify()
                self._dropped("attachments", attachments)
                self._dropped("messages", messages)
                if messages:
                    self._between(_nothing)  # messages in memory are dropped
                has_more = has_more or attachments == AT_ONCE
        return has_more

    def _release(self, refused: list[AttachmentRecord]) -> Iterable[Key]:
        gone: list[str] = []
        for each in refused:
            why = f"{each.reason}; its parts were kept for {self._retention.quarantine} and are gone"
            gone += self._context.catalog.restart([each.id], AttachmentState.QUARANTINED, why)
        self._dropped("refused", len(gone))
        return [(each.source, each.correl_id) for each in refused if each.id in gone]

    def drop_messages(self) -> bool:
        """Remove application messages without attachments. They are content and have its age limit."""
        before = self._clock.before(self._retention.content)
        if before is None:
            return False
        dropped = self._context.catalog.drop_messages(before, AT_ONCE)
        if dropped:
            self._between(_nothing)
        self._dropped("messages", dropped)
        return dropped == AT_ONCE

    # --- deliveries, quarantine, events -----------------------------------------------------------------------------

    def drop_deliveries(self) -> bool:
        """Remove deliveries that ended long ago, with their content. One that is retried meanwhile keeps both."""
        before = self._clock.before(self._retention.deliveries)
        if before is None:
            return False
        ended = self._context.catalog.ended_deliveries(before, AT_ONCE)
        gone = self._context.catalog.drop_deliveries([delivery.id for delivery in ended])
        dropped = [delivery for delivery in ended if delivery.id in gone]
        outgoing = [attachment for delivery in dropped for attachment in delivery.attachments if attachment.object_name]
        # After a crash here, the next start finds objects of no delivery, and deletes them.
        self._context.store.delete_all([attachment.object_name for attachment in outgoing])
        self._dropped("deliveries", len(dropped), sum(attachment.size for attachment in outgoing))
        return len(ended) == AT_ONCE

    def drop_quarantine(self) -> bool:
        """Remove entries that are old, or of a source that has too many."""
        has_more, oldest = False, self._context.catalog.oldest_quarantine
        before = self._clock.before(self._retention.quarantine)
        most, most_bytes = self._retention.quarantine_count, self._retention.quarantine_bytes
        for source, kept in self._context.catalog.quarantine_by_source().items():
            old = [] if before is None else oldest(source, before, AT_ONCE)
            too_many = 0 if most is None else max(0, kept.number - most)
            too_much = 0 if most_bytes is None else max(0, kept.size - most_bytes)
            if not old and (too_many or too_much):
                entries = oldest(source, self._context.clock.now() + 1, AT_ONCE)
                old = entries[: max(too_many, len(_until(too_much, entries)))]
            objects = [entry.object_name for entry in old if entry.object_name is not None]
            self._context.store.delete_all(objects)
            # An entry that is copied meanwhile keeps its object until the next time.
            gone = self._context.catalog.drop_quarantine([entry.id for entry in old], objects)
            self._dropped("quarantine", len(gone), sum(entry.size for entry in old if entry.id in gone))
            has_more = has_more or len(old) == AT_ONCE
        return has_more

    def drop_events(self) -> bool:
        """Remove events that are old or too many, and that every webhook and the log of receipts have got."""
        settings, catalog = self._context.settings, self._context.catalog
        followed: list[int] = []
        if configured := settings.webhooks:
            known = catalog.webhooks().values()
            active = (each for each in known if each.name in configured and each.state is WebhookState.ACTIVE)
            followed += [each.position for each in active]
        if settings.receipts is not None:
            receipts = catalog.receipt_log()
            followed.append(0 if receipts is None else receipts.event)
        before = self._clock.before(self._retention.events)
        dropped = catalog.prune_events(
            before or 0, self._retention.events_count, EVENTS_AT_ONCE, min(followed, default=None)
        )
        if dropped:
            self._context.metrics.dropped.labels("events").inc(dropped)
        return dropped >= EVENTS_AT_ONCE

    def drop_dead_letters(self) -> bool:
        """Remove events that were given up for a webhook long ago."""
        before = self._clock.before(self._retention.dead_letters)
        if before is None:
            return False
        dropped = self._context.catalog.prune_dead_letters(before, AT_ONCE)
        self._dropped("dead letters", dropped)
        return dropped == AT_ONCE


def _until(excess: int, oldest: list[Sized]) -> list[Sized]:
    """Return the first records that together have `excess` bytes; all of them when they have fewer."""
    sizes = accumulate(each.size or 0 for each in oldest)
    enough = sum(size < excess for size in sizes) + 1
    return oldest[:enough] if excess > 0 else []


def _nothing() -> Iterable[Key]:
    return ()


class Sweeper:
    """Does everything that is due with each call of `sweep`. `between` makes changes that assembly must know of."""

    def __init__(self, context: ServiceContext, times: CountedTime | None = None, between: Between = at_once) -> None:
        self._faults: dict[str, Recurring] = {}
        expiring = Expirer(context, times or SavedReceivingTime(context.catalog), between)
        self.expire, self.release_parts = expiring.expire, expiring.release_parts
        self.retain = Remover(context, RetentionClock(context.clock), between).retain

    def sweep(self) -> None:
        """Run each step by itself. One that fails, for example on a full disk, must not stop the others from freeing
        space."""
        for step in (self.expire, self.release_parts, self.retain):
            try:
                step()
            except Exception as error:  # noqa: BLE001 - `Recurring` logs it
                self._faults.setdefault(step.__name__, Recurring(log, "sweep", step=step.__name__)).failed(error)
            else:
                if step.__name__ in self._faults:
                    self._faults[step.__name__].worked()
