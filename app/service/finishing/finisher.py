"""The finisher: it turns complete attachments into content that can be read.

Files of large binary records, and all IBM MQ groups, stay in the journal and are only measured (`extents`). Every other
file, and every data set as Parquet, becomes an object of the content store. A fault of the sender quarantines the
attachment with row, byte and reason. A fault here (a full disk) is tried again, after a pause that doubles. Parts that
the journal cannot read back quarantine the attachment too, until they are sent again or can be read again.

Attachments that are complete at the same time are finished together: their objects are flushed to disk at once, and
their outcomes, messages and events are written in few transactions. Small data sets with the same variables are decoded
as one table (`app.service.finishing.small_data_sets`). One that is complete alone waits for no other.
Those whose content was read while their parts came are finished by the checkpoint itself (`app.service.assembling`).

The queue is bounded. While it is full, assembly waits, so that the journal's queue fills and the brokers wait.
Attachments that an earlier process left complete are in the catalog. They are fetched page by page when there is room.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Condition
from time import monotonic
from typing import Any, NamedTuple

from app.assembly.collecting import Key
from app.assembly.states import Input, follow
from app.model.attachment import AttachmentState
from app.model.records import DAMAGED_PART, PARTS_GONE, AttachmentRecord, Checkpoint, Finished, PartRun, changed
from app.model.trace_context import trace_fields
from app.observe import Recurring, logger
from app.service.context import Between, ServiceContext, Stores, at_once
from app.service.events.event_entries import complete_messages, finished_events, refusal_event
from app.service.finishing.complete_content import table_content
from app.service.finishing.content_evidence import concluded, with_earlier
from app.service.finishing.finished_contents import Spoilt, read_content, spoilt_entries
from app.service.finishing.small_data_sets import NOTHING_KNOWN, Known, read_together
from app.service.finishing.stored_parts import are_there, held_parts, segments_of

log = logger(__name__)

QUEUED = 4096
"""The most complete attachments that may wait. While so many wait, assembly waits too."""
FETCHED = 512
"""The number of complete attachments that are fetched from the catalog at once."""
AT_ONCE = 256
"""The most attachments that are finished together."""
READ_AT_ONCE = 16 << 20
"""The bytes of content after which what has been read is recorded."""
HELD_RUNS = 32
"""The most runs of parts that wait in memory with their attachment."""
RETRY_SECONDS = 5.0
LONGEST_PAUSE = 300.0
LATE_SECONDS = 60.0
"""The health report is bad when the oldest waiting attachment has waited longer."""
RECENT_MESSAGES = 500


class Complete(NamedTuple):
    """A complete attachment, and the runs of its parts; None if they must be read from the catalog."""

    record: AttachmentRecord
    runs: list[PartRun] | None = None

    @classmethod
    def of(cls, record: AttachmentRecord, fresh: list[PartRun]) -> "Complete | None":
        """Return an attachment with the runs that its last checkpoint added; None if they are not all, or more than may
        wait in memory."""
        is_all = len(fresh) <= HELD_RUNS and sum(run.length for run in fresh) == record.parts_received
        return cls(record, fresh) if is_all else None


class _Waiting(NamedTuple):
    id: str
    complete: Complete | None
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

    def put(self, complete: Mapping[str, Complete | None]) -> None:
        """Queue complete attachments, with what assembly knows of them; wait while the queue is full.

        Before `run` and after `stop` nothing empties the queue. Attachments that are not queued then are found in the
        catalog.
        """
        for attachment_id, known in complete.items():
            with self._changed:
                self._changed.wait_for(
                    lambda: len(self._queue) < QUEUED or not self._is_running or self._stopping,
                )
                if len(self._queue) >= QUEUED or self._stopping:
                    self._leave()
                    return
                self._queue.append(_Waiting(attachment_id, known, monotonic()))
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
                self._try(self._next())
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

    def _next(self) -> dict[str, Complete | None]:
        """Return the next waiting attachments; none when the caller should look for other work."""
        with self._changed:
            if not self._queue and not self._fetched and not self._is_left:
                pause = RETRY_SECONDS if self._failed else None
                self._changed.wait_for(lambda: self._queue or self._is_left or self._stopping, pause)
            must_fetch, after = self._is_left and not self._fetched, self._left_after
            if not must_fetch:
                return self._first()
            self._is_left = False
        self._fetch(after)
        return {}

    def _first(self) -> dict[str, Complete | None]:
        """Return the first of a queue. Fetched and new attachments take turns, so that neither waits for the end of the
        other."""
        self._is_fetched_next = not self._is_fetched_next
        queues = (self._fetched, self._queue) if self._is_fetched_next else (self._queue, self._fetched)
        queue = queues[0] or queues[1]
        self._changed.notify_all()
        taken = [queue.popleft() for _ in range(min(AT_ONCE, len(queue)))]
        return {each.id: each.complete for each in taken}

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
            known = {*self._failed, *(each.id for each in self._queue)}
            self._fetched.extend(_Waiting(record.id, None, now) for record in page if record.id not in known)
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
        """Try failed attachments again, each by itself."""
        if self._failed:
            now = monotonic()
            for attachment_id in [each for each, failed in self._failed.items() if failed.due <= now]:
                self._try({attachment_id: None})
                if self._stopping:
                    return

    def _try(self, complete: Mapping[str, Complete | None]) -> None:
        failed = self._finish(complete)
        for attachment_id, error in failed.items():
            before = self._failed.pop(attachment_id, None)
            times = 1 if before is None else before.times + 1
            pause = min(LONGEST_PAUSE, RETRY_SECONDS * 2 ** min(times - 1, 10))
            self._failed[attachment_id] = _Failed(times, monotonic() + pause)
            self._fault.failed(error, attachment=attachment_id)
        worked = [self._failed.pop(each) for each in complete if each in self._failed and each not in failed]
        if worked and not self._failed:
            self._fault.worked()

    def finish(self, complete: Mapping[str, Complete | None]) -> None:
        """Finish or quarantine complete attachments. Those that are not complete are left unchanged.

        Raises what made the first of them fail, after all have been tried.
        """
        for error in self._finish(complete).values():
            raise error

    def _finish(self, complete: Mapping[str, Complete | None]) -> dict[str, Exception]:
        """Finish or quarantine complete attachments; return the failures."""
        if not complete:
            return {}
        try:
            unknown = [each for each, found in complete.items() if found is None]
            listed = self._context.catalog.attachments_by_id(unknown) if unknown else []
            records = {record.id: record for record in listed}
            # An earlier attempt may have failed after it had finished them.
            self._complete_messages([each.id for each in records.values() if each.state is AttachmentState.FINISHED])
        except Exception as error:  # noqa: BLE001 - the caller logs it
            return dict.fromkeys(complete, error)
        known = (found or Complete(records[each]) for each, found in complete.items() if found or each in records)
        waiting = deque(each for each in known if each.record.state is AttachmentState.COMPLETE)
        failed: dict[str, Exception] = {}
        while waiting and not self._stopping:
            failed |= self._finish_first(waiting)
        return failed

    def _finish_first(self, waiting: deque[Complete]) -> dict[str, Exception]:
        """Remove and finish the first of these attachments, as many as fit into one step; return the failures."""
        contents: list[tuple[AttachmentRecord, Finished]] = []
        failed: dict[str, Exception] = {}
        before = len(waiting)
        try:
            with self._stores(before) as stores:
                self._read(waiting, stores, contents, failed)
            self._accept(contents)
        except Exception as error:  # noqa: BLE001 - the caller logs it
            failed.update((record.id, error) for record, _ in contents)
            if len(waiting) == before:  # none was taken, and the next step would not take one either
                failed.update((each.record.id, error) for each in waiting)
                waiting.clear()
        return failed

    @contextmanager
    def _stores(self, number: int) -> Iterator[Stores]:
        """Open the stores for so many attachments, whose content is durable when the block ends."""
        if number == 1:
            yield self._context
        else:
            with self._context.store.batch() as store:
                yield replace(self._context, store=store)

    def _read(
        self,
        waiting: deque[Complete],
        stores: Stores,
        contents: list[tuple[AttachmentRecord, Finished]],
        failed: dict[str, Exception],
    ) -> None:
        """Read the contents of the first attachments, as many as fit into one step."""
        segments, size = segments_of(self._context.journal), 0
        together = read_together(waiting, self._context, READ_AT_ONCE)
        while waiting and size < READ_AT_ONCE:
            record, runs = waiting.popleft()
            try:
                content = self._content(record, runs, segments, stores, together.get(record.id, NOTHING_KNOWN))
            except Exception as error:  # noqa: BLE001 - the caller logs it
                failed[record.id] = error
                continue
            if content is not None:
                contents.append((record, content))
                size += content.size

    def _content(
        self,
        record: AttachmentRecord,
        known: list[PartRun] | None,
        segments: Collection[int],
        stores: Stores,
        read: Known = NOTHING_KNOWN,
    ) -> Finished | None:
        """Return the content of a complete attachment; None if it has been restarted or refused.

        `read` is what has been read of it with others.
        """
        # Segments of an attachment that had expired may be gone.
        runs = self._context.catalog.part_runs(record.id) if known is None else known
        if read.first is not None and read.made is not None and are_there(runs, segments):
            found = table_content(record, *read.made, stores)
            return with_earlier(concluded(found, read.first, stores), record)
        _, parts, is_all_there = held_parts(record, runs, segments)
        if not is_all_there or record.parts_expected is None or (record.parts_expected and not parts.count):
            self._restart(record)
            return None
        try:
            return read_content(record, parts, stores, read.first)
        except Spoilt as spoilt:
            if spoilt.error.code == DAMAGED_PART and self._context.catalog.part_runs(record.id) != runs:
                # A part was replaced by one that was sent again.
                again = self._context.catalog.attachment(record.id)
                if again is None or again.state is not AttachmentState.COMPLETE:
                    return None
                return self._content(again, None, segments_of(self._context.journal), stores)
            if spoilt.error.code == PARTS_GONE:
                self._restart(record)
            else:
                self._refuse(record, spoilt)
            return None

    def _restart(self, record: AttachmentRecord) -> None:
        """Restart an attachment whose parts are gone, so that it begins anew when they are sent again."""
        log.warning(
            "attachment_restarted",
            attachment=record.id,
            reason="its parts are no longer in the journal",
            **trace_fields(record.trace_parent),
        )
        self._between(lambda: self._restarted(record))

    def _restarted(self, record: AttachmentRecord) -> list[Key]:
        why = "its parts are no longer in the journal; it begins anew when it is sent again"
        self._context.catalog.restart([record.id], AttachmentState.COMPLETE, why)
        return [(record.source, record.correl_id)]

    def _accept(self, contents: Sequence[tuple[AttachmentRecord, Finished]]) -> None:
        if not contents:
            return
        now = self._context.clock.now()
        finished = [(record, changed(content, finished_at=now)) for record, content in contents]
        events = [event for record, content in finished for event in finished_events(record, content)]
        accepted = self._context.catalog.finish([content for _, content in finished], events)
        self._count([record for record, _ in finished if record.id in accepted], AttachmentState.FINISHED)
        for record, content in finished:
            if record.id not in accepted and content.object_name is not None and not self._is_finished(record.id):
                self._context.store.delete(content.object_name)
        self._complete_messages([record.id for record, _ in finished if record.id in accepted])
        self._context.notifier.notify()

    def _is_finished(self, attachment_id: str) -> bool:
        """Tell whether an attachment is finished already: it may have been queued, and found in the catalog, too."""
        record = self._context.catalog.attachment(attachment_id)
        return record is not None and record.state is AttachmentState.FINISHED

    def _refuse(self, record: AttachmentRecord, spoilt: Spoilt) -> None:
        if (state := follow(record.state, Input.CONTENT_REFUSED)) is None:
            return
        refused = spoilt.refused(record)
        if refused.code == DAMAGED_PART:
            self._context.metrics.damage.labels("finishing").inc()
            log.error(
                "part_damaged",
                attachment=record.id,
                position=spoilt.first,
                reason=spoilt.error.why,
                **trace_fields(record.trace_parent),
            )
        if entries := spoilt_entries(record, spoilt, self._context.journal):
            copies = [copy for _, copy in entries if copy is not None]
            self._context.catalog.checkpoint(
                Checkpoint(quarantine=[entry for entry, _ in entries], quarantine_copies=copies)
            )
        events = [refusal_event(record, refused, self._context.clock.now())]
        self._context.catalog.set_state(
            [record.id], state, reason_code=refused.code, reason=refused.reason, events=events
        )
        self._context.metrics.quarantined.labels(record.source, refused.code).inc()
        self._count([record], state)
        self._context.notifier.notify()

    def _count(self, records: Iterable[AttachmentRecord], state: AttachmentState) -> None:
        kinds = Counter(record.kind.word if record.kind else "unknown" for record in records)
        for kind, number in kinds.items():
            self._context.metrics.attachments.labels(state, kind).inc(number)

    def _complete_messages(self, attachment_ids: list[str]) -> None:
        complete_messages(self._context.catalog, attachment_ids, self._context.clock.now())
