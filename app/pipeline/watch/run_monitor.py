"""Reports of a run: metrics, violated expectations, lineage and spans, and the state of the catalog after it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from itertools import islice
from typing import NamedTuple

from app import plugins
from app.model.attachment import AttachmentState
from app.model.message import Position
from app.model.records import AttachmentRecord
from app.observe import Recurring, logger
from app.pipeline.commit.commit import CommittedBatch
from app.pipeline.job.job import OpenRun
from app.pipeline.watch.expectation_checks import Violation, violations
from app.pipeline.watch.lineage import Lineage, lineage
from app.pipeline.watch.pipeline_metrics import PipelineMetrics
from app.ports import AttachmentFilter, Catalog, JournalReader, SpanExporter, TableStore
from app.service.finishing.stored_parts import missing_ranges
from app.service.repair.catalog_pages import AT_ONCE, pages
from app.settings import PipelineSettings, TraceSettings
from app.span_names import PIPELINE_SERVICE, PROCESS, Batch, of_batch

MOST_KEPT = 1000
"""The most violations that are kept; a stream that has a warning with each batch logs them all."""

MOST_LISTED = 1000
MOST_RANGES = 10

log = logger(__name__)


class BatchSpans:
    """The spans of a run's batches. Their errors are logged and never raised.

    A stream continues the trace after the gateway's span that ends the attachment. A batch has no gateway that would
    send that span, so it continues the sender's.
    """

    def __init__(self, exporter: SpanExporter | None = None, *, is_stream: bool = False) -> None:
        self._exporter, self._is_stream = exporter, is_stream
        self._fault = Recurring(log, "traces")

    def committed(self, committed: CommittedBatch, store: TableStore | None) -> None:
        """Export the spans of the traced attachments that a batch has added to tables."""
        if self._exporter is None or store is None or not committed.traced:
            return
        try:
            versions = {table: store.describe(table).version for table in {each.table for each in committed.traced}}
            batch = Batch(committed.reached, committed.began_at, committed.ended_at, versions)
            for span in of_batch(batch, committed.traced, PROCESS if self._is_stream else None):
                self._exporter.export(span)
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
        else:
            self._fault.worked()


@contextmanager
def batch_spans(settings: TraceSettings, name: str) -> Iterator[BatchSpans]:
    """Provide the spans of a run for the block. `name` is the job's: "batch", or "stream".

    Raises GatewayError.
    """
    if not settings.enabled:
        yield BatchSpans()
        return
    exporter = plugins.span_exporter()(PIPELINE_SERVICE, version("attachment-gateway"))
    try:
        yield BatchSpans(exporter, is_stream=name == "stream")
    finally:
        exporter.close()


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


# --- the state of the catalog -----------------------------------------------------------------------------------------


class Incomplete(NamedTuple):
    """An attachment that lacks parts: its `missing` ranges of sequence numbers, as far as they are known.

    The ranges may be empty for one without a count (no expected parts).
    """

    record: AttachmentRecord
    missing: list[tuple[int, int]]


class RunReport(NamedTuple):
    """The report of a run.

    `states` counts the attachments, `unannounced` what waits for its header, and `reasons` the entries of quarantine by
    code. `incomplete` has at most `MOST_LISTED` attachments, the newest first.
    """

    states: dict[str, int]
    unannounced: int
    incomplete: list[Incomplete]
    reasons: dict[str, int]


def report(catalog: Catalog, journal: JournalReader) -> RunReport:
    """Return the state of the catalog, for people and for programs."""
    receiving = AttachmentFilter(state=AttachmentState.RECEIVING, announced=True)
    counts = catalog.counts()
    records = islice(pages(lambda cursor: catalog.attachments(receiving, cursor, AT_ONCE)), MOST_LISTED)
    reasons = Counter(entry.code for entry in pages(lambda cursor: catalog.quarantined(None, None, cursor, AT_ONCE)))
    return RunReport(
        states={state: count for state, count in counts["attachments"].items() if count},
        unannounced=counts["unannounced"][AttachmentState.RECEIVING],
        incomplete=[Incomplete(record, missing_ranges(record, catalog, journal, MOST_RANGES)) for record in records],
        reasons=dict(reasons.most_common()),
    )
