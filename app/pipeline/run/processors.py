"""Assembly with Spark's state: the processors of `transformWithState`, and what they keep.

A row of state is an attachment (`app.pipeline.assemble.key_state`), in one of two values: `open` while parts of it are
still to come, without time to live, and `done` for as long as late duplicates are to be recognized. An open attachment
has a timer that triggers a check from time to time.

Whenever a stream starts, Spark starts a process for each processor, one after the other, that only asks for its state.
So this module loads little. `app.pipeline.run.state_steps` has the work, and is loaded by tasks.
"""

import pickle
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

if TYPE_CHECKING:
    from app.pipeline.job.job import Job
    from app.pipeline.run.state_steps import AttachmentSteps, HeaderSteps

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
        StructField("description", StringType(), nullable=False),
        StructField("minor_version", LongType(), nullable=False),
        StructField("major_version", LongType(), nullable=False),
    ]
)

_MILLISECONDS = 1000


class _Processor(StatefulProcessor):
    """A processor with its job, pickled: only tasks unpack it."""

    def __init__(self, job: "Job") -> None:
        self._job = pickle.dumps(job)
        self._kept = int(job.forget_finished * _MILLISECONDS)
        """How long Spark keeps what is only to recognize late duplicates, in milliseconds."""

    @property
    def _unpacked(self) -> "Job":
        job: Job = pickle.loads(self._job)  # noqa: S301 - the driver has pickled it
        return job

    def close(self) -> None:
        """Do nothing: all state is in Spark."""


class AttachmentProcessor(_Processor):
    """Turns references by source and key into outcomes."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._open = handle.getValueState("open", _STATE)
        self._done = handle.getValueState("done", _STATE, self._kept)

    @cached_property
    def _steps(self) -> "AttachmentSteps":
        from app.pipeline.run.state_steps import AttachmentSteps  # noqa: PLC0415 - see above

        return AttachmentSteps(self._unpacked, self._handle, self._open, self._done)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        return self._steps.assemble(rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        self._steps.check(key[0], timerValues)
        return iter(())


class HeaderProcessor(_Processor):
    """Turns header references by source into references to the headers' content."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._dialects = handle.getValueState("dialects", _DIALECTS)
        self._addressed = handle.getMapState("addressed", _KEY, _ADDRESS, self._kept)
        self._announced = handle.getMapState("announced", _KEY, _ANNOUNCEMENT, self._kept)

    @cached_property
    def _steps(self) -> "HeaderSteps":
        from app.pipeline.run.state_steps import HeaderSteps  # noqa: PLC0415 - see above

        return HeaderSteps(self._unpacked, self._dialects, self._addressed, self._announced)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        return self._steps.read(key[0], rows)
