"""The finisher: it turns complete attachments into content that can be read.

Files of large binary records, and all IBM MQ groups, stay in the journal and are only measured (`extents`). Every other
file, and every data set as Parquet, becomes an object of the content store. A fault of the sender quarantines the
attachment with row, byte and reason. A fault here (a full disk) is tried again, after a pause that doubles. Parts that
the journal cannot read back quarantine the attachment too, until they are sent again or can be read again.

Attachments that are complete at the same time are finished together: their objects are flushed to disk at once, and
their outcomes, messages and events are written in few transactions. Small data sets with the same variables are decoded
as one table (`app.service.finishing.small_data_sets`). One that is complete alone waits for no other.
Those whose content was read while their parts came are finished by the checkpoint itself (`app.service.assembling`).
"""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from app.assembly.collecting import Key
from app.assembly.states import Input, follow
from app.model.attachment import AttachmentState
from app.model.records import (
    DAMAGED_PART,
    DOUBTFUL_CONTENT,
    PARTS_GONE,
    AttachmentRecord,
    Checkpoint,
    Finished,
    changed,
)
from app.model.trace_context import trace_fields
from app.observe import Recurring, logger
from app.service.content.retries import Retries
from app.service.content.stored_content import object_name
from app.service.context import Between, ServiceContext, Stores, at_once
from app.service.events.event_entries import complete_messages, finished_events, refusal_event
from app.service.finishing.complete_content import table_content
from app.service.finishing.content_evidence import concluded, with_earlier
from app.service.finishing.finished_contents import ContentRejected, read_content
from app.service.finishing.finishing_queue import FinishingQueue
from app.service.finishing.small_data_sets import NOTHING_READ, ReadTogether, read_together
from app.service.finishing.stored_parts import CompleteAttachment, HeldSegments, are_there, held_parts

log = logger(__name__)

READ_AT_ONCE = 16 << 20
"""The bytes of content after which what has been read is recorded."""
RETRY_SECONDS = 5.0
LONGEST_PAUSE = 300.0
LATE_SECONDS = 60.0
"""The health report is bad when the oldest waiting attachment has waited longer."""


class Finisher:
    """Finishes the attachments of its `queue`, in one thread."""

    def __init__(self, context: ServiceContext, between: Between = at_once) -> None:
        self._context, self._between = context, between
        self.queue = FinishingQueue(context.catalog)
        self._retries = Retries(RETRY_SECONDS, LONGEST_PAUSE)
        self._has_forgotten = False
        """Whether more attachments have failed than are remembered."""
        self._fault = Recurring(log, "finishing")
        context.metrics.finishing_waiting.set_function(lambda: len(self.queue))
        context.metrics.finishing_oldest_seconds.set_function(lambda: self.queue.oldest_seconds)
        context.metrics.finishing_failing.set_function(lambda: len(self._retries))

    def recover(self) -> None:
        """Queue the attachments that an earlier process left complete, and complete messages whose attachments it
        finished."""
        self.queue.search()
        self._complete_messages(self._context.catalog.left_to_complete())

    def run(self) -> None:
        """Finish queued attachments until the queue is stopped. `recover` finds the attachments that are left."""
        self.queue.open()
        try:
            while not self.queue.is_stopping:
                due = self._retries.due()
                longest = 0.0 if due else RETRY_SECONDS if self._retries else None
                try:
                    waiting = self.queue.take(self._retries, longest)
                except Exception as error:  # noqa: BLE001 - `Recurring` logs it
                    self._fault.failed(error)
                    self.queue.pause(RETRY_SECONDS)
                    continue
                self._try(waiting)
                self._try(dict.fromkeys(due))
        finally:
            self.queue.close()

    def check(self) -> dict[str, Any]:
        """Return the state of finishing for the health report."""
        oldest = self.queue.oldest_seconds
        return {
            "ok": oldest < LATE_SECONDS and self._fault.error is None,
            "waiting": len(self.queue),
            "oldest_seconds": round(oldest, 1),
            "failing": len(self._retries),
            "error": self._fault.error,
        }

    def _try(self, complete: Mapping[str, CompleteAttachment | None]) -> None:
        failed = self._finish(complete)
        for attachment_id, error in failed.items():
            self._has_forgotten |= self._retries.add(attachment_id)
            self._fault.failed(error, attachment=attachment_id)
        worked = [each for each in complete if each not in failed and self._retries.remove(each)]
        if worked and self._has_forgotten:
            self._has_forgotten = False
            self.queue.search()
        if worked and not self._retries:
            self._fault.worked()

    def finish(self, complete: Mapping[str, CompleteAttachment | None]) -> None:
        """Finish or quarantine complete attachments. Those that are not complete are left unchanged.

        Raises what made the first of them fail, after all have been tried.
        """
        for error in self._finish(complete).values():
            raise error

    def _finish(self, complete: Mapping[str, CompleteAttachment | None]) -> dict[str, Exception]:
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
        known = (
            found or CompleteAttachment(records[each]) for each, found in complete.items() if found or each in records
        )
        waiting = deque(each for each in known if each.record.state is AttachmentState.COMPLETE)
        failed: dict[str, Exception] = {}
        while waiting and not self.queue.is_stopping:
            contents: list[tuple[AttachmentRecord, Finished]] = []
            held: list[str] = []
            before = len(waiting)
            try:
                # Content that is written together is durable when the block ends.
                with nullcontext(self._context.store) if before == 1 else self._context.store.batch() as store:
                    self._read(waiting, replace(self._context, store=store), contents, held, failed)
                self._context.store.delete_all(held)
                self._accept(contents)
            except Exception as error:  # noqa: BLE001 - the caller logs it
                failed.update((record.id, error) for record, _ in contents)
                if len(waiting) == before:  # none was taken, and the next step would not take one either
                    failed.update((each.record.id, error) for each in waiting)
                    waiting.clear()
        return failed

    def _read(
        self,
        waiting: deque[CompleteAttachment],
        stores: Stores,
        contents: list[tuple[AttachmentRecord, Finished]],
        held: list[str],
        failed: dict[str, Exception],
    ) -> None:
        """Remove the first attachments, as many as fit into one step, and read their contents. `held` gets the names of
        objects that were written for content which is then held."""
        segments, size = HeldSegments(self._context.journal), 0
        together = read_together(waiting, self._context, READ_AT_ONCE)
        while waiting and size < READ_AT_ONCE:
            complete = waiting.popleft()
            record = complete.record
            try:
                content = self._content(complete, segments, stores, held, together.get(record.id, NOTHING_READ))
            except Exception as error:  # noqa: BLE001 - the caller logs it
                failed[record.id] = error
                continue
            if content is not None:
                contents.append((record, content))
                size += content.size

    def _content(
        self,
        complete: CompleteAttachment,
        segments: HeldSegments,
        stores: Stores,
        held: list[str],
        read: ReadTogether = NOTHING_READ,
    ) -> Finished | None:
        """Return the content of a complete attachment; None if it has been restarted or refused.

        `read` is what has been read of it with others.
        """
        record, catalog = complete.record, self._context.catalog
        runs = catalog.part_runs(record.id) if complete.runs is None else complete.runs
        # Segments of an attachment that had expired may be gone.
        if read.first is not None and read.file is not None and are_there(runs, segments):
            found = table_content(record, *read.file, stores)
            return with_earlier(concluded(found, read.first, stores), record)
        _, parts, is_all_there = held_parts(record, runs, segments)
        if not is_all_there or record.parts_expected is None or (record.parts_expected and not parts.count):
            restart(record, self._context, self._between)
            return None
        try:
            return read_content(CompleteAttachment(record, runs), stores, read.first)
        except ContentRejected as rejected:
            if rejected.error.code == DAMAGED_PART and catalog.part_runs(record.id) != [*runs]:
                # A part was replaced by one that was sent again.
                again = catalog.attachment(record.id)
                if again is None or again.state is not AttachmentState.COMPLETE:
                    return None
                return self._content(CompleteAttachment(again), segments, stores, held)
            if rejected.error.code == PARTS_GONE:
                restart(record, self._context, self._between)
            else:
                refuse(record, rejected, self._context)
                held += [object_name(record.id)] * (rejected.error.code == DOUBTFUL_CONTENT)
            return None

    def _accept(self, contents: Sequence[tuple[AttachmentRecord, Finished]]) -> None:
        if not contents:
            return
        now = self._context.clock.now()
        finished = [(record, changed(content, finished_at=now)) for record, content in contents]
        events = [event for record, content in finished for event in finished_events(record, content)]
        accepted = self._context.catalog.finish([content for _, content in finished], events)
        counted = (record for record, _ in finished if record.id in accepted)
        self._context.metrics.count_attachments(AttachmentState.FINISHED, counted)
        for record, content in finished:
            if record.id not in accepted and content.object_name is not None:
                current = self._context.catalog.attachment(record.id)  # it may have been finished twice
                if current is None or current.state is not AttachmentState.FINISHED:
                    self._context.store.delete(content.object_name)
        self._complete_messages([record.id for record, _ in finished if record.id in accepted])
        self._context.notifier.notify()

    def _complete_messages(self, attachment_ids: Sequence[str]) -> None:
        complete_messages(self._context.catalog, attachment_ids, self._context.clock.now())


def restart(record: AttachmentRecord, context: ServiceContext, between: Between) -> None:
    """Restart an attachment whose parts are gone, so that it begins anew when they are sent again."""
    why = "its parts are no longer in the journal"
    log.warning("attachment_restarted", attachment=record.id, reason=why, **trace_fields(record.trace_parent))

    def change() -> list[Key]:
        explained = f"{why}; it begins anew when it is sent again"
        begun = context.catalog.restart([record.id], AttachmentState.COMPLETE, explained)
        return [(record.source, record.correl_id)] if begun else []

    between(change)


def refuse(record: AttachmentRecord, rejected: ContentRejected, context: ServiceContext) -> None:
    """Quarantine an attachment, and the part that shows the fault."""
    if (state := follow(record.state, Input.CONTENT_REFUSED)) is None:
        return
    refusal, entries = rejected.of(record, context.journal)
    if refusal.code == DAMAGED_PART:
        context.metrics.damage.labels("finishing").inc()
        log.error(
            "part_damaged",
            attachment=record.id,
            position=rejected.part,
            reason=rejected.error.why,
            **trace_fields(record.trace_parent),
        )
    if entries:
        copies = [copy for _, copy in entries if copy is not None]
        context.catalog.checkpoint(Checkpoint(quarantine=[entry for entry, _ in entries], quarantine_copies=copies))
    events = [refusal_event(record, refusal, context.clock.now())]
    context.catalog.set_state([record.id], state, reason_code=refusal.code, reason=refusal.reason, events=events)
    context.metrics.quarantined.labels(record.source, refusal.code).inc()
    context.metrics.count_attachments(state, [record])
    context.notifier.notify()
