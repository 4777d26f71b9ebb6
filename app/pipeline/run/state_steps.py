"""What tasks do with the rows and the state of a stream's processors (`app.pipeline.run.processors`).

The gateway expires attachments, because it knows how long their sources could receive. It records which ones it has
released (`app.service.retention.expiry`), and these steps drop them. No clock of the job drops an attachment, since a
job that has not run for long has not read the messages that came meanwhile.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from app.assembly.collecting import Address, Key, TrackedAttachment
from app.assembly.header_checks import Announcement
from app.model.attachment import AttachmentKind
from app.pipeline.assemble import key_state
from app.pipeline.assemble.assemble_key import KeyOutcome, KeyState, assemble, by_key
from app.pipeline.finish.finish_outcomes import compared
from app.pipeline.job.job import Job, open_job
from app.pipeline.job.workers import at_task_start
from app.pipeline.references import message_references
from app.pipeline.references.message_references import Reference
from app.pipeline.run.header_steps import fetch_headers
from app.pipeline.run.spark_steps import pack
from app.service.retention.expiry import read_released

_MILLISECONDS = 1000


class AttachmentSteps:
    """Assembles the attachments of one batch, with their state in Spark."""

    def __init__(self, job: Job, handle: StatefulProcessorHandle, open_: Any, done: Any) -> None:
        at_task_start()
        self._job, self._handle, self._open, self._done = job, handle, open_, done
        self._let_go: dict[str, int] | None = None

    def assemble(self, rows: Iterator[Row], timer_values: Any) -> Iterator[Row]:
        """Yield the outcomes of the references of a key."""
        plain = ([bytes(value) if isinstance(value, bytearray) else value for value in row] for row in rows)
        for about, coming in by_key(map(message_references.from_row, plain)):
            if about[1]:
                outcomes = [self._assemble(about, coming, timer_values)]
            else:
                outcomes, _ = assemble(about, coming, KeyState(), self._job.limits)
            for outcome in outcomes:
                yield Row(outcome=pack(outcome))

    def check(self, source: str, timer_values: Any) -> None:
        """Drop an attachment that the gateway has released; look at any other again later."""
        if was_open := self._open.get():
            if self._is_let_go(source, key_state.unpack(key_state.KeyStateRow(*was_open))):
                self._open.clear()
            else:
                self._wake(timer_values)

    def _assemble(self, key: Key, coming: list[Reference], timer_values: Any) -> KeyOutcome:
        was_open = self._open.get()
        was_done = None if was_open else self._done.get()
        row = key_state.KeyStateRow(*was_open or was_done or ())
        held = key_state.unpack(row)
        if was_open and self._is_let_go(key[0], held):
            held = KeyState()
        (outcome,), held = assemble(key, coming, held, self._job.limits)
        if outcome.repeated_before and not held.is_done:
            # What is found now must be known when the rest comes; messages of an open attachment come again seldom.
            (outcome,), _ = compared([outcome], open_job(self._job).archive)
            if held.attachment is not None and outcome.record is not None:
                held = held._replace(attachment=TrackedAttachment(outcome.record, held.attachment.parts))
        now_at = key_state.pack(held)
        if held.is_done:
            if was_open:
                self._open.clear()
            self._done.update(tuple(now_at))
        else:
            self._open.update(tuple(now_at))
            if not was_open:
                self._wake(timer_values)
        return outcome._replace(state=now_at.size)

    def _is_let_go(self, source: str, held: KeyState) -> bool:
        if self._let_go is None:
            self._let_go = read_released(open_job(self._job).stores.store)
        positions = [held.attachment.last_position] if held.attachment else []
        positions += [message.header_position for message in held.messages]
        return max(positions, default=-1) <= self._let_go.get(source, -1)

    def _wake(self, timer_values: Any) -> None:
        """Register the timer for the next check, after the time in which an attachment may expire."""
        now = timer_values.getCurrentProcessingTimeInMs()
        self._handle.registerTimer(int(now + self._job.expire_unfinished * _MILLISECONDS) + 1)


class HeaderSteps:
    """Reads the headers of one batch, with what a source's headers have in common in Spark's state."""

    def __init__(self, job: Job, dialects: Any, addressed: Any, announced: Any) -> None:
        at_task_start()
        self._job, self._state = job, (dialects, addressed, announced)

    def read(self, source: str, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield references to the content of a source's headers."""
        positions = sorted(row.position for row in rows)
        for reference in fetch_headers(open_job(self._job), source, positions, _StateMemory(*self._state)):
            for row in message_references.to_batch([reference]).to_pylist():
                yield Row(**row)


class _StateMemory:
    """A `Memory` in Spark's state. It keeps the dialects in an attribute during one batch."""

    def __init__(self, dialects: Any, addressed: Any, announced: Any) -> None:
        self._state, self._addressed, self._announced = dialects, addressed, announced
        found = dialects.get()
        self._dialects = int(found[0], 16) if found else None

    def dialects(self) -> int | None:
        return self._dialects

    def keep_dialects(self, dialects: int) -> None:
        self._dialects = dialects
        self._state.update((f"{dialects:x}",))

    def addressed(self, address: Address) -> tuple[str, int] | None:
        found = self._addressed.getValue((address[1],))
        return (found[0], found[1]) if found else None

    def keep_address(self, address: Address, message: str, position: int) -> None:
        self._addressed.updateValue((address[1],), (message, position))

    def announced(self, key: Key) -> Announcement | None:
        found = self._announced.getValue((key[1],))
        return Announcement(found[0], AttachmentKind(found[1]), *found[2:]) if found else None

    def keep_announcement(self, key: Key, announcement: Announcement) -> None:
        message, kind, *facts = announcement
        self._announced.updateValue((key[1],), (message, int(kind), *facts))
