"""The expiry of unfinished attachments, and the later release of their parts.

Both use the time in which a source could receive (`app.service.retention.receiving_time`), not the clock. A late part
revives an expired attachment. After its parts are released, it begins anew with the messages that are sent again.
"""

import json
from collections.abc import Iterable, Mapping
from functools import partial

from app.assembly.collecting import Key
from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord, ReceivingMark
from app.model.times import to_time
from app.observe import logger
from app.ports import ContentStore
from app.service.context import Between, ServiceContext, at_once
from app.service.events.event_entries import expiry_event
from app.service.retention.receiving_time import CountedTime
from app.settings import microseconds

log = logger(__name__)

AT_ONCE = 500
IDS_LOGGED = 5
RELEASED = "pipeline/let-go.json"
"""The object of the content store with the journal positions up to which unfinished attachments have been released.

It holds a packed position for each source. The gateway and every worker of a Spark job read it. An attachment without
any message after that position has expired, and nothing of it is kept.
"""


class Expirer:
    """Expires attachments and releases their parts. One call of each method does everything that is due."""

    def __init__(self, context: ServiceContext, times: CountedTime, between: Between = at_once) -> None:
        self._context, self._times, self._between = context, times, between
        self._done: dict[str, ReceivingMark] = {}
        self._written: dict[str, int] = {}

    def expire(self) -> None:
        """Expire receiving attachments that got no message for `expiry.unfinished`."""
        now, longest = self._context.clock.now(), self._context.settings.expiry.unfinished
        expired: list[str] = []
        for source in self._times.sources:
            mark = self._times.mark_before(source, microseconds(longest))
            if mark is None or self._done.get(source) == mark:
                continue
            silent = self._context.catalog.silent_attachments(source, mark.position, AT_ONCE)
            if silent:
                expired_at = to_time(now).isoformat(timespec="seconds")
                reasons = [
                    f"no message of it came since {to_time(record.last_received_at).isoformat(timespec='seconds')}, for"
                    f" {longest} in which its source could receive; expired at {expired_at}"
                    for record in silent
                ]
                events = [expiry_event(record, now) for record in silent]
                gone = self._context.catalog.expire(silent, self._times.counted(source), reasons, events)
                ended = [record for record in silent if record.id in gone]
                self._context.metrics.count_attachments(AttachmentState.EXPIRED, ended)
                expired += [record.id for record in ended]
            if len(silent) < AT_ONCE:
                self._done[source] = mark
        if expired:
            log.info("attachment_expired", count=len(expired), ids=expired[:IDS_LOGGED])
            self._context.notifier.notify()

    def release_parts(self) -> None:
        """Release the parts of attachments that expired longer ago than `expiry.grace`."""
        grace = microseconds(self._context.settings.expiry.grace)
        if self._context.settings.assembler == "spark":
            # With the released positions, a Spark job releases the same attachments.
            age = microseconds(self._context.settings.expiry.unfinished) + grace
            marks = {source: self._times.mark_before(source, age) for source in self._times.sources}
            positions = {source: mark.position for source, mark in marks.items() if mark is not None}
            if positions and positions != self._written:
                write_released(self._context.store, positions)
                self._written = positions
        for source in self._times.sources:
            before = self._times.counted(source) - grace
            if over := self._context.catalog.expired_before(source, before, AT_ONCE):
                self._between(partial(self._release, over))

    def _release(self, over: list[AttachmentRecord]) -> Iterable[Key]:
        grace = self._context.settings.expiry.grace
        reason = f"it expired, and its parts were released {grace} later; it begins anew when it is sent again"
        gone = self._context.catalog.restart([record.id for record in over], AttachmentState.EXPIRED, reason)
        if gone:
            self._context.metrics.dropped.labels("expired").inc(len(gone))
            log.info("expired_parts_released", count=len(gone), ids=gone[:IDS_LOGGED])
        ids = set(gone)
        return [(record.source, record.correl_id) for record in over if record.id in ids]


def write_released(store: ContentStore, positions: Mapping[str, int]) -> None:
    """Write the positions up to which unfinished attachments have been released. They are on disk on return."""
    with store.create(RELEASED) as target:
        target.write(json.dumps(positions).encode())


def read_released(store: ContentStore) -> dict[str, int]:
    """Read the positions up to which unfinished attachments have been released; empty if no gateway has written
    them."""
    try:
        positions: dict[str, int] = json.loads(b"".join(store.read(RELEASED)))
    except KeyError:
        return {}
    return positions
