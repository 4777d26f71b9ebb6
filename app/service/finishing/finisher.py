"""The finisher: it turns complete attachments into content that can be read.

Files of large binary records, and all IBM MQ groups, stay in the journal and are only measured (`extents`). Every other
file, and every data set as Parquet, becomes an object of the content store. A fault of the sender quarantines the
attachment with row, byte and reason. A fault here (a full disk) is tried again, after a pause that doubles. Parts that
the journal cannot read back quarantine the attachment too, until they are sent again or can be read again.

The queue is bounded. While it is full, assembly waits, so that the journal's queue fills and the brokers wait.
Attachments that an earlier process left complete are in the catalog. They are fetched page by page when there is room.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from threading import Condition
from time import monotonic
from typing import Any, NamedTuple

from app.assembly.collecting import Key
from app.assembly.states import Input, follow
from app.model.attachment import AttachmentState
from app.model.records import (
    DAMAGED_PART,
    PARTS_GONE,
    AttachmentRecord,
    Checkpoint,
    Finished,
)
from app.observe import Recurring, logger
from app.service.context import Between, ServiceContext, at_once
from app.service.events import complete_messages, finished_event, refusal_event
from app.service.finishing.contents import Spoilt, read_content, spoilt_entries
from app.service.finishing.parts import held_parts, segments_of

log = logger(__name__)

QUEUED = 4096
"""The most complete attachments that may wait. While so many wait, assembly waits too."""
FETCHED = 512
"""The number of complete attachments that are fetched from the catalog at once."""
RETRY_SECONDS = 5.0
LONGEST_PAUSE = 300.0
LATE_SECONDS = 60.0
"""The health report is bad when the oldest waiting attachment has waited longer."""
RECENT_MESSAGES = 500


class _Waiting(NamedTuple):
    id: str
    found: Finished | None
    since: float


class _Failed(NamedTuple):
    times: int
    due: float


class Finisher:
    """A queue of complete attachments and the thread that finishes them."""

    def __init__(self, context: ServiceContext, between: Between = at_once) -> None:
        self._context, self._between = context, between
        self._queue: deque[_Waiting] = deque()
        self._fetched: deque[_Waiting] = deque()
        self._is_fetched_next = False
        self._changed = Condition()
        self._failed: dict[str, _Failed] = {}
        self._fault = Recurring(log, "finishing")
        self._is_running = self._stopping = False
        self._is_left = False
        """Whether the catalog may have complete attachments that are not queued."""
        self._left_after: AttachmentRecord | None = None
        metrics = context.metrics
        metrics.finishing_waiting.set_function(self._waiting)
        metrics.finishing_oldest_seconds.set_function(self._oldest)
        metrics.finishing_failing.set_function(lambda: len(self._failed))

    def put(self, complete: Mapping[str, Finished | None]) -> None:
        """Queue complete attachments, with the content that was measured as their parts came; wait while the queue is
        full.

        Before `run` and after `stop` nothing empties the queue. Attachments that are not queued then are found in the
        catalog.
        """
        for attachment_id, found in complete.items():
            with self._changed:
                self._changed.wait_for(
                    lambda: len(self._queue) < QUEUED or not self._is_running or self._stopping,
                )
                if len(self._queue) >= QUEUED or self._stopping:
                    self._leave()
                    return
                self._queue.append(_Waiting(attachment_id, found, monotonic()))
                self._changed.notify_all()

    def recover(self) -> None:
        """Queue the attachments that an earlier process left complete, and complete messages whose attachments it
        finished."""
        with self._changed:
            self._leave()
            self._changed.notify_all()
        recent = self._context.catalog.messages(None, None, RECENT_MESSAGES).items
        waiting = [message for message in recent if message.complete_at is None]
        self._complete_messages([attachment for message in waiting for attachment in message.attachments])

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def run(self) -> None:
        """Finish queued attachments until `stop`. `recover` finds the attachments that are left."""
        with self._changed:
            self._is_running = True
        try:
            while not self._stopping:
                if (waiting := self._next()) is not None:
                    self._try(waiting.id, waiting.found)
                self._retry_due()
        finally:
            with self._changed:
                self._is_running = False
                self._changed.notify_all()

    def check(self) -> dict[str, Any]:
        """Return the state of finishing for the health report."""
        oldest = self._oldest()
        return {
            "ok": oldest < LATE_SECONDS and self._fault.error is None,
            "waiting": self._waiting(),
            "oldest_seconds": round(oldest, 1),
            "failing": len(self._failed),
            "error": self._fault.error,
        }

    # --- the queue ------------------------------------------------------------------------------------------------

    def _next(self) -> _Waiting | None:
        """Return the next waiting attachment; None when there is none, so that the caller looks for other work."""
        with self._changed:
            if not self._queue and not self._fetched and not self._is_left:
                pause = RETRY_SECONDS if self._failed else None
                self._changed.wait_for(lambda: self._queue or self._is_left or self._stopping, pause)
            must_fetch, after = self._is_left and not self._fetched, self._left_after
            if not must_fetch:
                return self._first()
            self._is_left = False
        self._fetch(after)
        return None

    def _first(self) -> _Waiting | None:
        """Return the first of a queue. Fetched and new attachments take turns, so that neither waits for the end of the
        other."""
        self._is_fetched_next = not self._is_fetched_next
        queues = (self._fetched, self._queue) if self._is_fetched_next else (self._queue, self._fetched)
        for queue in queues:
            if queue:
                self._changed.notify_all()
                return queue.popleft()
        return None

    def _leave(self) -> None:
        """Have the catalog searched for complete attachments, from its start."""
        self._is_left, self._left_after = True, None

    def _fetch(self, after: AttachmentRecord | None) -> None:
        try:
            page = self._context.catalog.complete_attachments(FETCHED, after)
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, RETRY_SECONDS)
                self._is_left = True
            return
        now = monotonic()
        with self._changed:
            self._fetched.extend(_Waiting(record.id, None, now) for record in page if record.id not in self._failed)
            if len(page) == FETCHED and not self._is_left:
                self._is_left, self._left_after = True, page[-1]

    def _oldest(self) -> float:
        with self._changed:
            firsts = [queue[0].since for queue in (self._queue, self._fetched) if queue]
            return monotonic() - min(firsts) if firsts else 0.0

    def _waiting(self) -> int:
        return len(self._queue) + len(self._fetched)

    # --- finishing ------------------------------------------------------------------------------------------------

    def _retry_due(self) -> None:
        if self._failed:
            now = monotonic()
            for attachment_id in [each for each, failed in self._failed.items() if failed.due <= now]:
                self._try(attachment_id)
                if self._stopping:
                    return

    def _try(self, attachment_id: str, found: Finished | None = None) -> None:
        try:
            self.finish(attachment_id, found)
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            before = self._failed.pop(attachment_id, None)
            times = 1 if before is None else before.times + 1
            pause = min(LONGEST_PAUSE, RETRY_SECONDS * 2 ** min(times - 1, 10))
            self._failed[attachment_id] = _Failed(times, monotonic() + pause)
            self._fault.failed(error, attachment=attachment_id)
        else:
            if self._failed.pop(attachment_id, None) is not None and not self._failed:
                self._fault.worked()

    def finish(self, attachment_id: str, found: Finished | None = None) -> None:
        """Finish or quarantine one complete attachment. One that is not complete is left unchanged.

        Its parts are read, unless `found` has its content and the journal still has the extents.
        """
        record = self._context.catalog.attachment(attachment_id)
        if record is not None and record.state is AttachmentState.FINISHED:
            self._complete_messages([record.id])  # an earlier attempt may have failed just before this
            return
        if record is None or record.state is not AttachmentState.COMPLETE:
            return
        if found is not None and self._is_there(found):
            self._accept(record, replace(found, finished_at=self._context.clock.now()))
            return
        runs = self._context.catalog.part_runs(record.id)
        _, parts, is_all_there = held_parts(record, self._context.catalog, segments_of(self._context.journal))
        if not is_all_there or record.parts_expected is None or (record.parts_expected and not parts.count):
            self._restart(record)
            return
        try:
            finished = read_content(record, parts, self._context)
        except Spoilt as spoilt:
            if spoilt.error.code == DAMAGED_PART and self._context.catalog.part_runs(record.id) != runs:
                self.finish(attachment_id)  # a part was replaced by one that was sent again
            elif spoilt.error.code == PARTS_GONE:
                self._restart(record)
            else:
                self._refuse(record, spoilt)
        else:
            self._accept(record, replace(finished, finished_at=self._context.clock.now()))

    def _restart(self, record: AttachmentRecord) -> None:
        """Restart an attachment whose parts are gone, so that it begins anew when they are sent again."""
        log.warning("attachment_restarted", attachment=record.id, reason="its parts are no longer in the journal")
        self._between(lambda: self._restarted(record))

    def _restarted(self, record: AttachmentRecord) -> list[Key]:
        why = "its parts are no longer in the journal; it begins anew when it is sent again"
        self._context.catalog.restart([record.id], AttachmentState.COMPLETE, why)
        return [(record.source, record.correl_id)]

    def _is_there(self, found: Finished) -> bool:
        """Tell whether the journal still has all extents: segments of an attachment that had expired may be gone."""
        held = {segment.number for segment in self._context.journal.segments()}
        return held.issuperset(extent.segment for extent in found.extents)

    def _accept(self, record: AttachmentRecord, finished: Finished) -> None:
        if self._context.catalog.finish(finished, [finished_event(record, finished)]):
            self._count(record, AttachmentState.FINISHED)
            self._complete_messages([record.id])
        elif finished.object_name is not None:
            self._context.store.delete(finished.object_name)
        self._context.notifier.notify()

    def _refuse(self, record: AttachmentRecord, spoilt: Spoilt) -> None:
        if (state := follow(record.state, Input.CONTENT_REFUSED)) is None:
            return
        refused = spoilt.refused(record)
        if refused.code == DAMAGED_PART:
            self._context.metrics.damage.labels("finishing").inc()
            log.error("part_damaged", attachment=record.id, position=spoilt.first, reason=spoilt.error.why)
        if entries := spoilt_entries(record, spoilt, self._context.journal):
            copies = [copy for _, copy in entries if copy is not None]
            self._context.catalog.checkpoint(
                Checkpoint(quarantine=[entry for entry, _ in entries], quarantine_copies=copies)
            )
        events = [refusal_event(refused, self._context.clock.now())]
        self._context.catalog.set_state(
            [record.id], state, reason_code=refused.code, reason=refused.reason, events=events
        )
        self._context.metrics.quarantined.labels(record.source, refused.code).inc()
        self._count(record, state)
        self._context.notifier.notify()

    def _count(self, record: AttachmentRecord, state: AttachmentState) -> None:
        self._context.metrics.attachments.labels(state, record.kind.word if record.kind else "unknown").inc()

    def _complete_messages(self, attachment_ids: list[str]) -> None:
        complete_messages(self._context.catalog, attachment_ids, self._context.clock.now())
