"""Structured Streaming's progress, as metrics."""

from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from app.pipeline.metrics import PipelineMetrics

_WHOLE = "triggerExecution"
_WORK = "addBatch"


class ProgressListener(StreamingQueryListener):
    """Records the progress of each micro-batch with data."""

    def __init__(self, metrics: "PipelineMetrics") -> None:
        self._metrics = metrics

    def onQueryStarted(self, event: "QueryStartedEvent") -> None: ...

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:
        progress = event.progress
        operators = progress.stateOperators
        self._metrics.state(
            sum(operator.numRowsTotal for operator in operators),
            sum(operator.memoryUsedBytes for operator in operators),
        )
        seconds = {phase: milliseconds / 1000 for phase, milliseconds in progress.durationMs.items()}
        if _WORK in seconds:
            self._metrics.took(seconds.pop(_WHOLE, 0.0), seconds)

    def onQueryIdle(self, event: "QueryIdleEvent") -> None: ...

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None: ...
