"""Reports of a run: metrics, violated expectations, lineage, and spans."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from app.model.message import Position
from app.pipeline.commit.commit import CommittedBatch
from app.pipeline.job.job import OpenRun
from app.pipeline.watch.batch_spans import BatchSpans, batch_spans
from app.pipeline.watch.expectation_checks import Violation, violations
from app.pipeline.watch.lineage import Lineage, lineage
from app.pipeline.watch.pipeline_metrics import PipelineMetrics
from app.settings import PipelineSettings

MOST_KEPT = 1000
"""The most violations that are kept; a stream that has a warning with each batch logs them all."""

log = structlog.stdlib.get_logger(__name__)


class Monitor:
    """Reports the batches of one run. `failures` are the violations that end it with an error."""

    def __init__(
        self,
        run: OpenRun,
        settings: PipelineSettings,
        metrics: PipelineMetrics,
        lineage: Lineage,
        spans: BatchSpans,
    ) -> None:
        self._settings, self._run, self._metrics, self._lineage = settings, run, metrics, lineage
        self._spans = spans
        self._last = _segment(run.catalog.progress())
        self.metrics = metrics
        self.violations: list[Violation] = []

    @property
    def failures(self) -> list[Violation]:
        return [each for each in self.violations if each.is_failure]

    def committed(self, committed: CommittedBatch) -> None:
        """Report a committed batch, and check what is expected of it. Raises GatewayError."""
        last, self._last = self._last, _segment(committed.reached)
        sizes = (each.size for each in self._run.archive.segments() if last < each.number <= self._last)
        self._metrics.batch(committed, sum(sizes))
        for each in violations(self._settings.expectations, committed.quality, self._run.tables):
            if each.is_failure or len(self.violations) < MOST_KEPT:
                self.violations.append(each)
            action = "fail" if each.is_failure else "warn"
            self._metrics.violated(each.quantity, action)
            log.warning("expectation_violated", **each._asdict())
        self._lineage.wrote(committed.tables, self._run.tables)
        self._spans.committed(committed, self._run.tables)
        self._metrics.write()


@contextmanager
def monitored(run: OpenRun, name: str, settings: PipelineSettings) -> Iterator[Monitor]:
    """Provide the monitor of a run for the block. `name` is the job's in lineage: "batch" or "stream".

    Raises GatewayError.
    """
    metrics = PipelineMetrics(settings, run.archive, run.catalog, run.clock)
    metrics.start()
    try:
        with lineage(run.job, name, settings) as events, batch_spans(run.job.settings.traces, name) as spans:
            yield Monitor(run, settings, metrics, events, spans)
    finally:
        metrics.stop()


def _segment(progress: int | None) -> int:
    return 0 if progress is None else Position.unpack(progress).segment
