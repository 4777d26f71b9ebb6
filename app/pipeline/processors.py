"""Assembly with Spark's state: the processors of `transformWithState`.

A row of state is an attachment (`app.pipeline.state`), in one of two places: `open` while something of it is still to
come, without an end, and `done` for as long as late duplicates are to be known. What is open has a timer. When nothing
has come for the time that unfinished attachments have, it is expired, and its state is kept as long again, for a late
message; then it is let go. It is never let go before it is expired, however old its messages are.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql import Row
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from app.assembly.collecting import Address, Attachment, Key
from app.assembly.headers import Announcement
from app.assembly.states import Input, follow
from app.model.attachment import AttachmentKind
from app.pipeline import references, state, steps
from app.pipeline.core import Held, Outcome, assemble, by_key
from app.pipeline.headers import Memory
from app.pipeline.job import Job, open_job
from app.pipeline.references import Reference
from app.pipeline.steps import pack, read_headers
from app.pipeline.workers import at_task_start
from app.tables.quality import Increment, hour_of

REFERENCES = from_arrow_schema(references.SCHEMA)
OUTCOMES = from_arrow_schema(steps.OUTCOMES)

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
    """References by source and key -> outcomes."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def init(self, handle: StatefulProcessorHandle) -> None:
        at_task_start()
        self._handle = handle
        self._open = handle.getValueState("open", _STATE)
        self._done = handle.getValueState("done", _STATE, int(self._job.forget_finished * _MILLISECONDS))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        for about, coming in by_key(references.from_row(_plain(row)) for row in rows):
            if about[1]:
                outcomes = self._assemble(about, coming, timerValues)
            else:
                outcomes, _ = assemble(about, coming, Held(), self._job.limits)
            for outcome in outcomes:
                yield Row(outcome=pack(outcome))

    def _assemble(self, key: Key, coming: list[Reference], timer_values: Any) -> list[Outcome]:
        was_open = self._open.get()
        was_done = None if was_open else self._done.get()
        row = state.Row(*was_open or was_done or ())
        outcomes, held = assemble(key, coming, state.unpack(row), self._job.limits)
        now_at = state.pack(held)
        if held.is_done:
            if was_open:
                self._open.clear()
            self._done.update(tuple(now_at))
        else:
            self._open.update(tuple(now_at))
            if not was_open:
                self._wake(timer_values.getCurrentProcessingTimeInMs() / _MILLISECONDS + self._job.expire_unfinished)
        return [outcome._replace(state=now_at.size) for outcome in outcomes]

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        was_open = self._open.get()
        if not was_open:
            return
        now, wait = timerValues.getCurrentProcessingTimeInMs() / _MILLISECONDS, self._job.expire_unfinished
        held = state.unpack(state.Row(*was_open))
        silent_since = _last_news(held) / 1e6
        if now < silent_since + wait:
            self._wake(silent_since + wait)
            return
        held, outcome = expired(key[0], held)
        if outcome is not None:
            self._open.update(tuple(state.pack(held)))
            self._wake(now + wait)
            yield Row(outcome=pack(outcome))
        elif now < silent_since + 2 * wait:
            self._wake(silent_since + 2 * wait)
        else:
            self._open.clear()

    def _wake(self, at: float) -> None:
        self._handle.registerTimer(int(at * _MILLISECONDS) + 1)

    def close(self) -> None:
        """Nothing is held beside Spark's state."""


def expired(source: str, held: Held) -> tuple[Held, Outcome | None]:
    """What is held when nothing has come for too long, and what is told of it, if it is an attachment."""
    attachment = held.attachment
    if attachment is None or (following := follow(attachment.record.state, Input.SILENCE)) is None:
        return held, None
    why = "no physical message of it came in the configured time"
    record = replace(attachment.current(), state=following, reason_code="expired", reason=why)
    outcome = Outcome(record.first_position, record.last_position, Increment(source, hour_of(record.first_received_at)))
    return held._replace(attachment=Attachment(record, attachment.parts)), outcome._replace(record=record)


def _last_news(held: Held) -> int:
    news = [held.attachment.last_received_at] if held.attachment else []
    return max([*news, *(message.received_at for message in held.messages)], default=0)


class HeaderProcessor(StatefulProcessor):
    """Header references by source -> references to what the headers announce."""

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
        for reference in read_headers(self._job, open_job(self._job), source, positions, memory):
            for row in references.to_batch([reference]).to_pylist():
                yield Row(**row)

    def close(self) -> None:
        """Nothing is held beside Spark's state."""


class _StateMemory:
    """A `Memory` in Spark's state. It dares to remember the dialects itself while one batch lasts."""

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


def _plain(row: Row) -> list[Any]:
    return [bytes(value) if isinstance(value, bytearray) else value for value in row]
