"""The names of all metrics: of the gateway at `/metrics`, and of the pipeline on Spark.

Where OpenTelemetry's semantic conventions have a name, it is used as Prometheus writes it: dots are underscores, a unit
and `_total` follow (`messaging.client.consumed.messages`, `http.server.request.duration`). Its conventions for
messaging are not stable yet: their names are in this module only. All other names begin with `attachment_gateway_`.
The page docs/metrics.md, the dashboards and the alerts are made of these declarations.
"""

import collections
from collections.abc import Iterable, Mapping
from typing import ClassVar, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_APPEND_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""The boundaries that the conventions advise."""
_BATCH_SECONDS = (0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600)

MESSAGING_SYSTEMS: Mapping[str, str] = {"ibm_mq": "ibmmq"}
"""`messaging.system` of a transport, where it is not the transport's own name."""
SUPERSEDED: Mapping[str, str] = {
    "attachment_gateway_messages_received_total": "messaging_client_consumed_messages_total",
    "attachment_gateway_messages_sent_total": "messaging_client_sent_messages_total",
}
"""Names outside the conventions, with the name of the conventions. Both are written until version 1.0."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"})
OTHER_METHOD = "_OTHER"
"""What the conventions write for any other method: clients choose it, and labels must have few values."""
NO_ROUTE = ""
"""`http_route` of a request for a path that does not exist."""


class DeclaredMetric(NamedTuple):
    """A declared metric. Its samples have its `name`; samples of a histogram append `_bucket`, `_sum` or `_count`."""

    name: str
    type: str
    labels: tuple[str, ...]
    meaning: str

    def samples(self) -> dict[str, frozenset[str]]:
        """Return the labels of each sample by its name."""
        if self.type != "histogram":
            return {self.name: frozenset(self.labels)}
        labels = frozenset(self.labels)
        return {f"{self.name}_bucket": labels | {"le"}, f"{self.name}_sum": labels, f"{self.name}_count": labels}


class _Declared:
    """Metrics in a registry, each `described` as it was declared."""

    prefix: ClassVar[str]

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.described: list[DeclaredMetric] = []

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return self._convention_counter(f"{self.prefix}_{name}", meaning, *labels)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return self._convention_gauge(f"{self.prefix}_{name}", meaning, *labels)

    def _histogram(self, name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return self._convention_histogram(f"{self.prefix}_{name}", meaning, buckets, *labels)

    def _convention_counter(self, name: str, meaning: str, *labels: str) -> Counter:
        self.described.append(DeclaredMetric(f"{name}_total", "counter", labels, meaning))
        return Counter(name, meaning, labels, registry=self.registry)

    def _convention_gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        self.described.append(DeclaredMetric(name, "gauge", labels, meaning))
        return Gauge(name, meaning, labels, registry=self.registry)

    def _convention_histogram(self, name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        self.described.append(DeclaredMetric(name, "histogram", labels, meaning))
        return Histogram(name, meaning, labels, buckets=buckets, registry=self.registry)


class Metrics(_Declared):
    """The metrics of one gateway, each in the registry that `text` writes out.

    Gauges of what can be asked for are set with `set_function`, so that they are true when they are read.
    """

    prefix = "attachment_gateway"

    def __init__(self) -> None:
        super().__init__()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._consumed_of: dict[str, Counter] = {}
        self._sent_of: dict[str, Counter] = {}

        self.messages_received = self._counter(
            "messages_received", "Physical messages that are durable in the journal", "source"
        )
        self.consumed = self._convention_counter(
            "messaging_client_consumed_messages",
            "Physical messages that are durable in the journal, named as OpenTelemetry names them",
            *("messaging_system", "messaging_destination_name", "source"),
        )
        self.bytes_received = self._counter(
            "bytes_received", "Bytes of the bodies of received physical messages", "source"
        )
        self.duplicates = self._counter("duplicates", "Parts that had been received before", "source")
        self.quarantined = self._counter("quarantined", "Physical messages put into quarantine", "source", "code")
        self.sender_answers = self._counter(
            "sender_answers", "Answers to the senders of files over MQTT, by their reason code", "source", "reason_code"
        )
        self.attachments = self._counter(
            "attachments", "Attachments that became finished, quarantined, expired or deleted", "state", "kind"
        )
        self.messages_sent = self._counter(
            "messages_sent", "Physical messages that a broker has confirmed", "destination"
        )
        self.sent = self._convention_counter(
            "messaging_client_sent_messages",
            "Physical messages that a broker has confirmed, named as OpenTelemetry names them",
            *("messaging_system", "messaging_destination_name", "destination"),
        )
        self.bytes_sent = self._counter(
            "bytes_sent", "Bytes of the bodies of confirmed physical messages", "destination"
        )
        self.deliveries = self._counter("deliveries", "Deliveries that entered a state", "state")

        for declare in (
            self._declare_missing_parts,
            self._declare_webhooks,
            self._declare_receipts,
            self._declare_uploads,
            self._declare_processes,
        ):
            declare()

        self.journal_append_seconds = self._histogram(
            "journal_append_seconds", "Time from the start of a journal append until it is on disk", _APPEND_SECONDS
        )
        self.journal_bytes = self._gauge("journal_bytes", "Bytes of all journal segments")
        self.journal_segments = self._gauge("journal_segments", "Number of journal segments")
        self.free_bytes = self._gauge("free_bytes", "Free bytes on the file system of the journal")
        self.receiving_seconds = self._gauge(
            "receiving_seconds", "Seconds in which a source could receive, as expiry counts them", "source"
        )
        self.kept = self._gauge("kept", "Number of objects that retention manages", "what")
        self.kept_bytes = self._gauge("kept_bytes", "Bytes of the objects that retention manages", "what")
        self.dropped = self._counter("dropped", "Objects that retention has deleted", "what")
        self.dropped_bytes = self._counter("dropped_bytes", "Bytes of the objects that retention has deleted", "what")
        self.backlog_messages = self._gauge("backlog_messages", "Physical messages received and not yet durable")
        self.backlog_bytes = self._gauge("backlog_bytes", "Bytes of the bodies of messages that are not yet durable")
        self.taking = self._gauge("taking", "1 while the gateway receives from brokers, 0 while a limit pauses it")
        self.oldest_unfinished_seconds = self._gauge(
            "oldest_unfinished_seconds",
            "Seconds since the last message of the attachment that has waited longest to be finished, announced or not",
        )
        self.assembly_behind_segments = self._gauge(
            "assembly_behind_segments", "Sealed journal segments that the Spark job has not assembled"
        )
        self.assembly_behind_seconds = self._gauge(
            "assembly_behind_seconds", "Seconds since the first segment was sealed that the job has not assembled"
        )
        self.archive_waiting_segments = self._gauge(
            "archive_waiting_segments", "Sealed journal segments that are not in the archive yet"
        )
        self.settling_failing = self._gauge(
            "settling_failing", "Finished attachments whose last copying to the content store failed"
        )
        self.finishing_waiting = self._gauge("finishing_waiting", "Complete attachments that wait to be finished")
        self.finishing_oldest_seconds = self._gauge(
            "finishing_oldest_seconds", "Seconds that the first complete attachment has been waiting to be finished"
        )
        self.finishing_failing = self._gauge(
            "finishing_failing", "Complete attachments whose last finishing failed, and that are tried again"
        )
        self.damage = self._counter("damage", "Times that damaged bytes were found", "where")
        self.damaged_attachments = self._gauge(
            "damaged_attachments", "Finished attachments whose content was found damaged and is not served"
        )
        self.scrub_bytes = self._counter("scrub_bytes", "Stored bytes that were read again and compared", "what")
        self.content_restored = self._counter("content_restored", "Attachments whose damaged content was restored")
        self.scrub_damaged_segments = self._gauge(
            "scrub_damaged_segments", "Journal segments that the last scrub found damaged"
        )
        self.scrub_ended = self._gauge("scrub_ended_timestamp_seconds", "When the last whole scrub ended; 0 for never")
        self._declare_tables()
        self._declare_peers()
        self.request_seconds = self._convention_histogram(
            "http_server_request_duration_seconds",
            "Time of an HTTP request, from its head to the end of its response",
            _REQUEST_SECONDS,
            *("http_request_method", "http_route", "http_response_status_code"),
        )
        self.mcp_calls = self._counter(
            "mcp_calls",
            "Calls of tools of language models, by outcome: done, refused (an error of the caller) or failed; the "
            "tool is empty for an unknown one",
            *("tool", "outcome"),
        )
        self.active_requests = self._convention_gauge(
            "http_server_active_requests", "HTTP requests that are being answered", "http_request_method"
        )

    def _declare_missing_parts(self) -> None:
        self.missing_requests = self._counter(
            "missing_requests",
            "Requests to senders for missing parts, by a message or by an event only",
            "source",
            "by",
        )
        self.missing_received = self._counter(
            "missing_received", "Parts of attachments that have come since their sender was asked for them", "source"
        )
        self.missing_answers = self._counter(
            "missing_answers",
            "Requests for missing parts of deliveries, by how they were answered",
            "destination",
            "answer",
        )
        self.missing_sent = self._counter(
            "missing_sent", "Physical messages that were sent again because a receiver asked for them", "destination"
        )
        self.missing_sent_bytes = self._counter(
            "missing_sent_bytes", "Bytes of the bodies of these messages", "destination"
        )

    def _declare_tables(self) -> None:
        self.table_files = self._counter(
            "table_files", "Files of tables that upkeep has replaced by joined or divided ones, or removed", "what"
        )
        self.table_upkeep_failing = self._gauge("table_upkeep_failing", "Tables whose last upkeep failed")
        self.table_upkeep_ended = self._gauge(
            "table_upkeep_ended_timestamp_seconds", "When the last upkeep of all tables ended; 0 for never"
        )

    def _declare_peers(self) -> None:
        self.source_connected = self._gauge("source_connected", "1 while a source is connected to its broker", "source")
        self.source_queue_depth = self._gauge(
            "source_queue_depth", "Messages on the queue that a source receives from; NaN while unknown", "source"
        )
        self.source_queue_filled = self._gauge(
            "source_queue_filled_ratio",
            "How full the queue is that a source receives from, from 0 to 1; NaN while unknown",
            "source",
        )
        self.source_oldest_message = self._gauge(
            "source_oldest_message_seconds",
            "Seconds since the first message was put that waits on a source's queue; 0 for none, NaN while unknown",
            "source",
        )
        self.source_dropped = self._gauge(
            "source_dropped_messages",
            "Messages that a source dropped since its start because its buffer was full",
            "source",
        )
        self.source_advisories = self._gauge(
            "source_advisories", "Advisories that a source received since its start", "source", "level"
        )
        self.destination_connected = self._gauge(
            "destination_connected", "1 while a destination is connected to its broker", "destination"
        )
        self.credential_refused = self._gauge(
            "credential_refused",
            "1 while a broker or the database refuses the credentials of a setting",
            "setting",
        )

    def _declare_receipts(self) -> None:
        self.receipts = self._counter("receipts", "Statements that were appended to the log of receipts")
        self.receipts_failing = self._gauge("receipts_failing", "1 while the log of receipts cannot be appended to")
        self.receipt_log_size = self._gauge("receipt_log_size", "Statements in the log of receipts, at the keeper")
        self.receipt_replies = self._counter(
            "receipt_replies",
            "Receipts for the senders of attachments, by outcome: sent, refused, busy (refused for now, for an hour), "
            "lost (the connection broke each time), no-address or no-message (which is gone from the journal)",
            *("source", "outcome"),
        )
        self.receipts_behind_events = self._gauge(
            "receipts_behind_events", "Events after the last one that the log of receipts includes, at the keeper"
        )

    def _declare_webhooks(self) -> None:
        self.webhook_requests = self._counter(
            "webhook_requests",
            "Requests to a webhook, by outcome: delivered, refused (this event), failed or gone",
            "webhook",
            "outcome",
        )
        self.webhook_given_up = self._counter("webhook_given_up", "Events that became dead letters", "webhook")
        self.webhook_behind_events = self._gauge(
            "webhook_behind_events", "Events in the log after the last one that is done for a webhook", "webhook"
        )
        self.webhook_failing = self._gauge("webhook_failing", "1 while a webhook does not take events", "webhook")
        self.webhook_dead_letters = self._gauge(
            "webhook_dead_letters", "Events that were given up for a webhook and are kept", "webhook"
        )

    def _declare_processes(self) -> None:
        self.process = self._gauge("process", "1, for the name and the roles of this process", "instance", "roles")
        self.keeper = self._gauge("keeper", "1 if this process is the keeper, 0 if it is not")
        self.receivers_away = self._gauge(
            "receivers_away", "Receivers of a shared journal that the keeper has not seen for a minute"
        )

    def _declare_uploads(self) -> None:
        self.uploads = self._gauge("uploads", "Resumable uploads")
        self.uploads_bytes = self._gauge("uploads_bytes", "Received bytes of resumable uploads")
        self.uploads_expired = self._counter(
            "uploads_expired", "Resumable uploads that were deleted because they expired"
        )

    def name_source(self, source: str, transport: str, address: str) -> None:
        """Record what a source receives from, before its first message: the name of its transport, and the topic,
        queue or subject."""
        system = MESSAGING_SYSTEMS.get(transport, transport)
        self._consumed_of[source] = self.consumed.labels(system, address, source)

    def name_destination(self, destination: str, transport: str, address: str) -> None:
        """Record what a destination sends to, as `name_source` does."""
        system = MESSAGING_SYSTEMS.get(transport, transport)
        self._sent_of[destination] = self.sent.labels(system, address, destination)

    def count_attachments(self, state: AttachmentState, records: Iterable[AttachmentRecord]) -> None:
        """Count attachments that entered a state, by their kinds."""
        kinds = collections.Counter(record.kind.word if record.kind else "unknown" for record in records)
        for kind, number in kinds.items():
            self.attachments.labels(state, kind).inc(number)

    def count_received(self, source: str, messages: int, size: int) -> None:
        """Count physical messages of a source that have become durable, and the bytes of their bodies."""
        self.messages_received.labels(source).inc(messages)
        self.bytes_received.labels(source).inc(size)
        if (consumed := self._consumed_of.get(source)) is not None:
            consumed.inc(messages)

    def count_sent(self, destination: str, messages: int, size: int) -> None:
        """Count physical messages that a broker has confirmed, and the bytes of their bodies."""
        self.messages_sent.labels(destination).inc(messages)
        self.bytes_sent.labels(destination).inc(size)
        if (sent := self._sent_of.get(destination)) is not None:
            sent.inc(messages)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus (`METRICS_CONTENT_TYPE`)."""
        return generate_latest(self.registry)


class PipelineDeclared(_Declared):
    """The metrics of one run of the pipeline on Spark."""

    prefix = "attachment_gateway_pipeline"

    def __init__(self) -> None:
        super().__init__()
        self.batches = self._counter("batches", "Batches that were committed")
        self.seconds = self._histogram("batch_seconds", "Time of a batch", _BATCH_SECONDS)
        self.phases = self._gauge("phase_seconds", "Time of a phase of the last micro-batch, by Spark's names", "phase")
        self.messages = self._counter("messages", "Physical messages that were read", "source")
        self.duplicates = self._counter("duplicates", "Messages that had been received before", "source")
        self.conflicts = self._counter("conflicts", "Parts with other bytes than the first", "source")
        self.attachments = self._counter("attachments", "Attachments that entered a state", "state")
        self.quarantined = self._counter("quarantined", "Physical messages put into quarantine")
        self.rows = self._counter("table_rows", "Rows that were added to tables")
        self.committed = self._gauge("committed_timestamp_seconds", "When the last batch was committed; 0 for never")
        self.state_rows = self._gauge("state_rows", "Rows of Spark's state")
        self.state_bytes = self._gauge("state_bytes", "Memory of Spark's state store")
        self.violations = self._counter("expectation_violations", "Violated expectations", "quantity", "action")
        self.lag_segments = self._gauge("lag_segments", "Sealed journal segments that are not committed")
        self.lag_bytes = self._gauge("lag_bytes", "Size of these segments")
        self.lag_seconds = self._gauge("lag_seconds", "How long the first of them has been sealed")
        self.lag_messages = self._gauge(
            "lag_messages", "Messages in these segments, estimated from their size; 0 before the first batch"
        )
