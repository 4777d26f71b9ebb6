"""Structured Streaming's progress, as metrics."""

from threading import Event
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from uuid import UUID

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from app.pipeline.watch.pipeline_metrics import PipelineMetrics


class StreamProgressListener(StreamingQueryListener):
    """Records the progress of each micro-batch with data, of the last query that was started.

    Events come some time after what they tell of. `ended` is set when all events of the query have come.
    """

    def __init__(self, metrics: "PipelineMetrics") -> None:
        self._metrics = metrics
        self._run: UUID | None = None
        self.ended = Event()

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:
        self._run = event.runId

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:
        progress = event.progress
        operators = progress.stateOperators
        self._metrics.state(
            sum(operator.numRowsTotal for operator in operators),
            sum(operator.memoryUsedBytes for operator in operators),
        )
        seconds = {phase: milliseconds / 1000 for phase, milliseconds in progress.durationMs.items()}
        if "addBatch" in seconds:
            self._metrics.took(seconds.pop("triggerExecution", 0.0), seconds)

    def onQueryIdle(self, event: "QueryIdleEvent") -> None: ...

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:
        if event.runId == self._run:
            self.ended.set()
