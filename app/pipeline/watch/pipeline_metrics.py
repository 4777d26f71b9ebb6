"""Metrics of the pipeline for Prometheus, at a port or in a file."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIServer

from prometheus_client import start_http_server, write_to_textfile
from pyspark.sql.streaming.listener import StreamingQueryListener

from app.metrics import PipelineDeclared
from app.model.errors import GatewayError
from app.observe import Recurring, logger
from app.pipeline.commit.commit import CommittedBatch
from app.ports import Catalog, Clock, JournalReader
from app.service.assembling.assembly_hosts import Lag, lag
from app.settings import PipelineSettings

if TYPE_CHECKING:
    from uuid import UUID

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_LAG_SECONDS = 5.0
"""How long a measured lag is used again: it lists the journal, which may lie in an object store. The file gets a new
one."""

log = logger(__name__)


class PipelineMetrics:
    """The metrics of one run. They are offered from `start` to `stop`."""

    def __init__(self, settings: PipelineSettings, journal: JournalReader, catalog: Catalog, clock: Clock) -> None:
        self._settings, self._journal, self._catalog, self._clock = settings, journal, catalog, clock
        self._declared = PipelineDeclared()
        self.registry = self._declared.registry
        self._lag_at = -inf
        self._set_lag()
        self._message_bytes = 0.0
        self._server: WSGIServer | None = None
        self._writing = Recurring(log, "metrics_file", logging.WARNING)

    def start(self) -> None:
        """Write the file for the first time, and listen at the port, as far as there are any. Raises GatewayError."""
        self._write()
        host, port = self._settings.metrics_host, self._settings.metrics_port
        if port is None:
            return
        try:
            server, _ = start_http_server(port, host, self.registry)
        except OSError as error:
            raise GatewayError(
                f"cannot listen on {host} port {port} for pipeline.metrics_port: {error.strerror or error}"
            ) from error
        self.port = server.server_port
        self._server = server

    def stop(self) -> None:
        """Write the file for the last time, and close the port."""
        self.write()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def write(self) -> None:
        """Write the file, if there is one, in one step. A failure is logged, and ends no run."""
        try:
            self._write()
        except GatewayError as error:
            self._writing.failed(error)
        else:
            self._writing.worked()

    def _write(self) -> None:
        path: Path | None = self._settings.metrics_file
        if path is None:
            return
        self._lag_at = -inf
        try:
            write_to_textfile(str(path), self.registry)
        except OSError as error:
            raise GatewayError(f"cannot write pipeline.metrics_file {path}: {error.strerror or error}") from error

    def batch(self, committed: CommittedBatch, read_bytes: int = 0) -> None:
        """Count a committed batch that has read this number of bytes of the journal."""
        if committed.was_known:
            return
        messages = 0
        for each in committed.received:
            messages += each.messages
            self._declared.messages.labels(each.source).inc(each.messages)
            self._declared.duplicates.labels(each.source).inc(each.duplicates)
            self._declared.conflicts.labels(each.source).inc(each.conflicts)
        self._declared.batches.inc()
        self._declared.attachments.labels("finished").inc(committed.finished)
        self._declared.attachments.labels("quarantined").inc(committed.refused)
        self._declared.quarantined.inc(committed.quarantined)
        self._declared.rows.inc(sum(each.rows for each in committed.tables))
        self._declared.committed.set(self._clock.now() / 1e6)
        if messages and read_bytes:
            self._message_bytes = read_bytes / messages

    def took(self, seconds: float, phases: Mapping[str, float]) -> None:
        """Record how long a batch took, and its phases (s)."""
        self._declared.seconds.observe(seconds)
        for phase, each in phases.items():
            self._declared.phases.labels(phase).set(each)

    def state(self, rows: int, size: int) -> None:
        """Record Spark's state: its rows, and the memory of its store."""
        self._declared.state_rows.set(rows)
        self._declared.state_bytes.set(size)

    def violated(self, quantity: str, action: str) -> None:
        self._declared.violations.labels(quantity, action).inc()

    def _set_lag(self) -> None:
        measured = Lag(0, 0, 0.0)

        def now() -> Lag:
            nonlocal measured
            if monotonic() - self._lag_at >= _LAG_SECONDS:
                self._lag_at = monotonic()
                with suppress(GatewayError):  # the catalog or the archive may not answer for a moment
                    measured = lag(self._journal, self._catalog.progress(), self._clock.now())
            return measured

        declared = self._declared
        declared.lag_segments.set_function(lambda: now().segments)
        declared.lag_bytes.set_function(lambda: now().size)
        declared.lag_seconds.set_function(lambda: now().seconds)
        declared.lag_messages.set_function(
            lambda: round(now().size / self._message_bytes) if self._message_bytes else 0
        )


class StreamProgressListener(StreamingQueryListener):
    """Records Structured Streaming's progress: of each micro-batch with data, of the last query that was started.

    Events come some time after what they tell of. `ended` is set when all events of the query have come.
    """

    def __init__(self, metrics: PipelineMetrics) -> None:
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
