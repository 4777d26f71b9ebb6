"""Complete attachments -> content that can be read.

A file of large binary records, and every IBM MQ group, is read where it lies, in the journal, and is measured only
(`extents`); every other file, and every data set as Parquet, becomes an object of the content store. What a sender got
wrong quarantines the attachment with row, byte and reason; what went wrong here (a full disk) is tried again.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Event
from time import monotonic

from app.assembly.parts import Parts
from app.assembly.states import Input, follow
from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord, Checkpoint, Finished
from app.observe import logger
from app.service.completion import complete_messages, finished_event, refusal_event
from app.service.quarantining import quarantine_record
from app.service.reading import Spoilt, read_content
from app.service.surroundings import Surroundings

log = logger(__name__)

RETRY_SECONDS = 5.0
RECENT_MESSAGES = 500


class Finisher:
    """A queue of complete attachments and the thread that finishes them."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._queue: SimpleQueue[tuple[str, Finished | None] | None] = SimpleQueue()
        self._again: dict[str, float] = {}
        self._stop = Event()

    def put(self, complete: Mapping[str, Finished | None]) -> None:
        """Queues complete attachments, with what reading them early has found out."""
        for attachment in complete.items():
            self._queue.put(attachment)

    def recover(self) -> None:
        """Queues what an earlier process left complete, and completes messages of which it had finished all."""
        self.put(dict.fromkeys(record.id for record in self._around.catalog.complete_attachments()))
        recent = self._around.catalog.messages(None, None, RECENT_MESSAGES).items
        waiting = [message for message in recent if message.complete_at is None]
        self._complete_messages([attachment for message in waiting for attachment in message.attachments])

    def stop(self) -> None:
        self._stop.set()
        self._queue.put(None)

    def run(self) -> None:
        """Finishes what is put until `stop`; what is left is found again by `recover`."""
        while not self._stop.is_set():
            with suppress(Empty):
                complete = self._queue.get(timeout=RETRY_SECONDS if self._again else None)
                if complete is not None:
                    self._try(*complete)
            self._retry_due()

    def _retry_due(self) -> None:
        now = monotonic()
        for attachment_id in [each for each, due in self._again.items() if due <= now]:
            del self._again[attachment_id]
            self._try(attachment_id)

    def _try(self, attachment_id: str, found: Finished | None = None) -> None:
        try:
            self.finish(attachment_id, found)
        except Exception:
            log.exception("attachment not finished, trying again", attachment=attachment_id)
            self._again[attachment_id] = monotonic() + RETRY_SECONDS

    def finish(self, attachment_id: str, found: Finished | None = None) -> None:
        """Finishes or quarantines one complete attachment; one that is not complete is left alone.

        Its parts are read unless `found` says what is in them and where they still are.
        """
        record = self._around.catalog.attachment(attachment_id)
        if record is not None and record.state is AttachmentState.FINISHED:
            self._complete_messages([record.id])  # an earlier try may have failed just before that
            return
        if record is None or record.state is not AttachmentState.COMPLETE or record.parts_expected is None:
            return
        if found is not None and self._is_there(found):
            self._accept(record, replace(found, finished_at=self._around.clock.now()))
            return
        parts = Parts(self._around.catalog.part_runs(record.id))
        try:
            finished = read_content(record, parts, self._around)
        except Spoilt as spoilt:
            self._refuse(record, spoilt)
        else:
            self._accept(record, replace(finished, finished_at=self._around.clock.now()))

    def _is_there(self, found: Finished) -> bool:
        """Whether the journal has all that was read early: the segments of what had expired may be gone."""
        held = {segment.number for segment in self._around.journal.segments()}
        return held.issuperset(extent.segment for extent in found.extents)

    def _accept(self, record: AttachmentRecord, finished: Finished) -> None:
        if self._around.catalog.finish(finished, [finished_event(record, finished)]):
            self._count(record, AttachmentState.FINISHED)
            self._complete_messages([record.id])
        elif finished.object_name is not None:
            self._around.store.delete(finished.object_name)
        self._around.bell.ring()

    def _refuse(self, record: AttachmentRecord, spoilt: Spoilt) -> None:
        error, now = spoilt.error, self._around.clock.now()
        if follow(record.state, Input.CONTENT_REFUSED) is not AttachmentState.QUARANTINED:
            return
        if spoilt.first is not None:
            message = self._around.journal.read(spoilt.first)
            self._around.catalog.checkpoint(
                Checkpoint(quarantine=[quarantine_record(spoilt.first.pack(), message, error)])
            )
        event = refusal_event(record, error, now)
        state = AttachmentState.QUARANTINED
        self._around.catalog.set_state([record.id], state, reason_code=error.code, reason=str(error), events=[event])
        self._around.metrics.quarantined.labels(record.source, error.code).inc()
        self._count(record, state)
        self._around.bell.ring()

    def _count(self, record: AttachmentRecord, state: AttachmentState) -> None:
        self._around.metrics.attachments.labels(state, record.kind.word if record.kind else "unknown").inc()

    def _complete_messages(self, attachment_ids: list[str]) -> None:
        complete_messages(self._around.catalog, attachment_ids, self._around.clock.now())
