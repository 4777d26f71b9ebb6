"""Assembly with Spark's state: the processors of `transformWithState`.

A row of state is an attachment (`app.pipeline.assemble.key_state`), in one of two values: `open` while parts of it are
still to come, without time to live, and `done` for as long as late duplicates are to be recognized. An open attachment
has a timer that triggers a check from time to time. The gateway expires attachments, because it knows how long their
sources could receive. It records which ones it has released (`app.service.retention.expiry`), and the processors drop
these here. No clock of this job drops an attachment, since a job that has not run for long has not read the messages
that came meanwhile.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from app.assembly.collecting import Address, Key
from app.assembly.header_checks import Announcement
from app.model.attachment import AttachmentKind
from app.pipeline.assemble import key_state
from app.pipeline.assemble.assemble_key import KeyOutcome, KeyState, assemble, by_key
from app.pipeline.job.job import Job, open_job
from app.pipeline.job.workers import at_task_start
from app.pipeline.references import message_references
from app.pipeline.references.header_pass import Memory
from app.pipeline.references.message_references import Reference
from app.pipeline.run import spark_steps
from app.pipeline.run.header_steps import fetch_headers
from app.pipeline.run.spark_steps import pack
from app.service.retention.expiry import read_released

REFERENCES = from_arrow_schema(message_references.SCHEMA)
OUTCOMES = from_arrow_schema(spark_steps.OUTCOMES)

_STATE = StructType(
    [
        StructField("attachment", StringType(), nullable=False),
        StructField("runs", BinaryType(), nullable=False),
        StructField("message", StringType(), nullable=False),
    ]
)
_KEY = StructType([StructField("key", BinaryType(), nullable=False)])
_DIALECTS = StructType([StructField("dialects", StringType(), nullable=False)])
_ADDRESS = StructType(
    [StructField("message", StringType(), nullable=False), StructField("position", LongType(), nullable=False)]
)
_ANNOUNCEMENT = StructType(
    [
        StructField("message", StringType(), nullable=False),
        StructField("kind", LongType(), nullable=False),
        StructField("qualifier_1", StringType(), nullable=False),
        StructField("qualifier_2", StringType(), nullable=False),
    ]
)

_MILLISECONDS = 1000


class AttachmentProcessor(StatefulProcessor):
    """Turns references by source and key into outcomes."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def init(self, handle: StatefulProcessorHandle) -> None:
        at_task_start()
        self._handle = handle
        self._open = handle.getValueState("open", _STATE)
        self._done = handle.getValueState("done", _STATE, int(self._job.forget_finished * _MILLISECONDS))
        self._let_go: dict[str, int] | None = None

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        plain = ([bytes(value) if isinstance(value, bytearray) else value for value in row] for row in rows)
        for about, coming in by_key(map(message_references.from_row, plain)):
            if about[1]:
                outcomes = self._assemble(about, coming, timerValues)
            else:
                outcomes, _ = assemble(about, coming, KeyState(), self._job.limits)
            for outcome in outcomes:
                yield Row(outcome=pack(outcome))

    def _assemble(self, key: Key, coming: list[Reference], timer_values: Any) -> list[KeyOutcome]:
        was_open = self._open.get()
        was_done = None if was_open else self._done.get()
        row = key_state.KeyStateRow(*was_open or was_done or ())
        held = key_state.unpack(row)
        if was_open and self._is_let_go(key[0], held):
            held = KeyState()
        outcomes, held = assemble(key, coming, held, self._job.limits)
        now_at = key_state.pack(held)
        if held.is_done:
            if was_open:
                self._open.clear()
            self._done.update(tuple(now_at))
        else:
            self._open.update(tuple(now_at))
            if not was_open:
                self._wake(timer_values)
        return [outcome._replace(state=now_at.size) for outcome in outcomes]

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        if was_open := self._open.get():
            if self._is_let_go(key[0], key_state.unpack(key_state.KeyStateRow(*was_open))):
                self._open.clear()
            else:
                self._wake(timerValues)
        return iter(())

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

    def close(self) -> None:
        """Do nothing: all state is in Spark."""


class HeaderProcessor(StatefulProcessor):
    """Turns header references by source into references to the headers' content."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def init(self, handle: StatefulProcessorHandle) -> None:
        at_task_start()
        kept = int(self._job.forget_finished * _MILLISECONDS)
        self._dialects = handle.getValueState("dialects", _DIALECTS)
        self._addressed = handle.getMapState("addressed", _KEY, _ADDRESS, kept)
        self._announced = handle.getMapState("announced", _KEY, _ANNOUNCEMENT, kept)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        source: str = key[0]
        positions = sorted(row.position for row in rows)
        memory: Memory = _StateMemory(self._dialects, self._addressed, self._announced)
        for reference in fetch_headers(open_job(self._job), source, positions, memory):
            for row in message_references.to_batch([reference]).to_pylist():
                yield Row(**row)

    def close(self) -> None:
        """Do nothing: all state is in Spark."""


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
        return Announcement(found[0], AttachmentKind(found[1]), found[2], found[3]) if found else None

    def keep_announcement(self, key: Key, announcement: Announcement) -> None:
        message, kind, qualifier_1, qualifier_2 = announcement
        self._announced.updateValue((key[1],), (message, int(kind), qualifier_1, qualifier_2))
