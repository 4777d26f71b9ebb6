"""What a run tells others of itself: metrics, violated expectations, lineage, and spans."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from app.model.message import Position
from app.pipeline.commit.commit import CommittedBatch
from app.pipeline.job.job import Job, open_job
from app.pipeline.watch.batch_spans import BatchSpans, batch_spans
from app.pipeline.watch.expectation_checks import Violation, violations
from app.pipeline.watch.lineage import Lineage, lineage
from app.pipeline.watch.pipeline_metrics import PipelineMetrics
from app.ports import Catalog, Clock
from app.settings import PipelineSettings

MOST_KEPT = 1000
"""The most violations that are kept; a stream that has a warning with each batch logs them all."""

log = structlog.stdlib.get_logger(__name__)


class Monitor:
    """Tells of the batches of one run. `failures` are the violations that end it with an error."""

    def __init__(
        self,
        job: Job,
        settings: PipelineSettings,
        catalog: Catalog,
        metrics: PipelineMetrics,
        told: Lineage,
        spans: BatchSpans,
    ) -> None:
        self._settings, self._opened, self._metrics, self._lineage = settings, open_job(job), metrics, told
        self._spans = spans
        self._last = _segment(catalog.progress())
        self.metrics = metrics
        self.violations: list[Violation] = []

    @property
    def failures(self) -> list[Violation]:
        return [each for each in self.violations if each.is_failure]

    def committed(self, committed: CommittedBatch) -> None:
        """Tell of a committed batch, and check what is expected of it. Raises GatewayError."""
        self._metrics.batch(committed, self._read_bytes(committed))
        for each in violations(self._settings.expectations, committed.quality, self._opened.tables):
            if each.is_failure or len(self.violations) < MOST_KEPT:
                self.violations.append(each)
            action = "fail" if each.is_failure else "warn"
            self._metrics.violated(each.quantity, action)
            log.warning("expectation_violated", **each._asdict())
        self._lineage.wrote(committed.tables, self._opened.tables)
        self._spans.committed(committed, self._opened.tables)
        self._metrics.write()

    def _read_bytes(self, committed: CommittedBatch) -> int:
        """Return the size of the journal that a batch has added to the catalog."""
        last, self._last = self._last, _segment(committed.reached)
        return sum(each.size for each in self._opened.archive.segments() if last < each.number <= self._last)


@contextmanager
def monitored(job: Job, name: str, settings: PipelineSettings, catalog: Catalog, clock: Clock) -> Iterator[Monitor]:
    """Provide the monitor of a run for the block. `name` is that of the job in lineage: "batch" or "stream".

    Raises GatewayError and PluginError.
    """
    metrics = PipelineMetrics(settings, open_job(job).archive, catalog, clock)
    metrics.start()
    try:
        with lineage(job, name, settings) as told, batch_spans(job.settings.traces, name) as spans:
            yield Monitor(job, settings, catalog, metrics, told, spans)
    finally:
        metrics.stop()


def _segment(progress: int | None) -> int:
    return 0 if progress is None else Position.unpack(progress).segment
