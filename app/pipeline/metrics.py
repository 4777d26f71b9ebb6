"""Metrics of the pipeline for Prometheus, at a port or in a file."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import NamedTuple
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server, write_to_textfile

from app.model.errors import GatewayError
from app.model.message import Position
from app.observe import Recurring, logger
from app.pipeline.commit import Committed
from app.ports import Catalog, Clock, JournalReader
from app.settings import PipelineSettings

_PREFIX = "attachment_gateway_pipeline"
_BATCH_SECONDS = (0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600)
_LAG_SECONDS = 5.0
"""How long a measured lag is used again: it lists the journal, which may lie in an object store. The file gets a new
one."""

log = logger(__name__)


class Lag(NamedTuple):
    """The sealed part of a journal that is not in the catalog yet. `seconds` is how long its first segment has been
    sealed."""

    segments: int
    size: int
    seconds: float


def lag(journal: JournalReader, progress: int | None, now: int) -> Lag:
    """Return the lag of a catalog at this progress (packed position), at this time (µs)."""
    last = 0 if progress is None else Position.unpack(progress).segment
    waiting = [segment for segment in journal.segments() if segment.number > last and segment.sealed_at is not None]
    oldest = min((segment.sealed_at for segment in waiting if segment.sealed_at is not None), default=now)
    return Lag(len(waiting), sum(segment.size for segment in waiting), max(0.0, (now - oldest) / 1e6))


class PipelineMetrics:
    """The metrics of one run. They are offered from `start` to `stop`."""

    def __init__(self, settings: PipelineSettings, journal: JournalReader, catalog: Catalog, clock: Clock) -> None:
        self._settings, self._journal, self._catalog, self._clock = settings, journal, catalog, clock
        self.registry = CollectorRegistry()
        self._batches = self._counter("batches", "Batches that were committed")
        self._seconds = Histogram(
            f"{_PREFIX}_batch_seconds", "Time of a batch", buckets=_BATCH_SECONDS, registry=self.registry
        )
        self._phases = self._gauge(
            "phase_seconds", "Time of a phase of the last micro-batch, by Spark's names", "phase"
        )
        self._messages = self._counter("messages", "Physical messages that were read", "source")
        self._duplicates = self._counter("duplicates", "Messages that had been received before", "source")
        self._conflicts = self._counter("conflicts", "Parts with other bytes than the first", "source")
        self._attachments = self._counter("attachments", "Attachments that entered a state", "state")
        self._quarantined = self._counter("quarantined", "Physical messages put into quarantine")
        self._rows = self._counter("table_rows", "Rows that were added to tables")
        self._committed = self._gauge("committed_timestamp_seconds", "When the last batch was committed; 0 for never")
        self._state_rows = self._gauge("state_rows", "Rows of Spark's state")
        self._state_bytes = self._gauge("state_bytes", "Memory of Spark's state store")
        self._violations = self._counter("expectation_violations", "Violated expectations", "quantity", "action")
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

    def batch(self, committed: Committed, read_bytes: int = 0) -> None:
        """Count a committed batch that has read this number of bytes of the journal."""
        if committed.was_known:
            return
        messages = 0
        for each in committed.received:
            messages += each.messages
            self._messages.labels(each.source).inc(each.messages)
            self._duplicates.labels(each.source).inc(each.duplicates)
            self._conflicts.labels(each.source).inc(each.conflicts)
        self._batches.inc()
        self._attachments.labels("finished").inc(committed.finished)
        self._attachments.labels("quarantined").inc(committed.refused)
        self._quarantined.inc(committed.quarantined)
        self._rows.inc(sum(each.rows for each in committed.tables))
        self._committed.set(self._clock.now() / 1e6)
        if messages and read_bytes:
            self._message_bytes = read_bytes / messages

    def took(self, seconds: float, phases: Mapping[str, float]) -> None:
        """Record how long a batch took, and its phases (s)."""
        self._seconds.observe(seconds)
        for phase, each in phases.items():
            self._phases.labels(phase).set(each)

    def state(self, rows: int, size: int) -> None:
        """Record Spark's state: its rows, and the memory of its store."""
        self._state_rows.set(rows)
        self._state_bytes.set(size)

    def violated(self, quantity: str, action: str) -> None:
        self._violations.labels(quantity, action).inc()

    def _set_lag(self) -> None:
        measured = Lag(0, 0, 0.0)

        def now() -> Lag:
            nonlocal measured
            if monotonic() - self._lag_at >= _LAG_SECONDS:
                self._lag_at = monotonic()
                with suppress(GatewayError):  # the catalog or the archive may not answer for a moment
                    measured = lag(self._journal, self._catalog.progress(), self._clock.now())
            return measured

        gauge = self._gauge
        gauge("lag_segments", "Sealed journal segments that are not committed").set_function(lambda: now().segments)
        gauge("lag_bytes", "Size of these segments").set_function(lambda: now().size)
        gauge("lag_seconds", "How long the first of them has been sealed").set_function(lambda: now().seconds)
        gauge(
            "lag_messages", "Messages in these segments, estimated from their size; 0 before the first batch"
        ).set_function(lambda: round(now().size / self._message_bytes) if self._message_bytes else 0)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}", meaning, labels, registry=self.registry)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", meaning, labels, registry=self.registry)
