"""Spans of a run's batches, sent by the driver.

A stream continues the trace after the gateway's span that ends the attachment. A batch has no gateway that would
send that span, so it continues the sender's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

from app import plugins
from app.observe import Recurring, logger
from app.pipeline.commit.commit import CommittedBatch
from app.ports import SpanExporter, TableStore
from app.settings import TraceSettings
from app.span_names import PIPELINE_SERVICE, PROCESS, Batch, of_batch

log = logger(__name__)


class BatchSpans:
    """The spans of one run. Its errors are logged and never raised."""

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
