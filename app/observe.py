"""What the gateway says of itself: log lines and metrics."""

import logging
import sys
from time import monotonic
from typing import Any, TextIO

import structlog
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

from app.model.errors import GatewayError

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "attachment_gateway"
_APPEND_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_QUIET_BELOW_WARNING = ("alembic", "httpx", "httpcore", "amqtt", "py4j", "transitions")


def is_for_people(style: str, stream: TextIO | None = None) -> bool:
    """Return whether the log in this style is for people, not for programs; see `configure_logging`."""
    return (sys.stderr if stream is None else stream).isatty() if style == "auto" else style == "console"


def configure_logging(level: str = "info", style: str = "auto", stream: TextIO | None = None) -> None:
    """Send records of structlog and the standard library to one stream (standard error), one record a line.

    `style` is "json", "console" (for people) or "auto": console when the stream is a terminal.
    """
    to = sys.stderr if stream is None else stream
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    rendering: list[Any] = (
        [structlog.dev.ConsoleRenderer(colors=to.isatty(), exception_formatter=structlog.dev.plain_traceback)]
        if is_for_people(style, to)
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(to)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET_BELOW_WARNING:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a module, as in `log = logger(__name__)`."""
    bound: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return bound


class Recurring:
    """A fault of what is tried again and again. It is logged when it begins, as `<what>_failed`, and when it is over,
    as `<what>_recovered` with a count; in between only when another reason is met, and that a few times."""

    MOST_REASONS = 5

    def __init__(self, log: structlog.stdlib.BoundLogger, what: str, level: int = logging.ERROR, **fields: Any) -> None:
        self._log, self._what, self._level = log.bind(**fields), what, level
        self._reasons: set[str] = set()
        self._since = 0.0
        self.failures = 0
        self.error: str | None = None
        """Why the last attempt failed, None while all is well."""

    def failed(self, error: BaseException | str, **fields: Any) -> None:
        """Count a failure. A text and this program's own errors are sentences, any other comes with its traceback."""
        if not self.failures:
            self._since = monotonic()
        self.failures += 1
        self.error = str(error) or type(error).__name__
        if self.error not in self._reasons and len(self._reasons) < self.MOST_REASONS:
            self._reasons.add(self.error)
            trace = None if isinstance(error, GatewayError | str) else error
            self._log.log(self._level, f"{self._what}_failed", reason=self.error, exc_info=trace, **fields)

    def worked(self) -> None:
        """Say that all is well (again)."""
        if self.failures:
            seconds = round(monotonic() - self._since, 1)
            self._log.info(f"{self._what}_recovered", failures=self.failures, seconds=seconds)
            self.failures, self.error = 0, None
            self._reasons.clear()


class Metrics:
    """The metrics of one gateway, each in the registry that `text` writes out.

    Gauges of what can be asked for are set with `set_function`, so that they are true when they are read.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

        self.messages_received = self._counter(
            "messages_received", "Physical messages that are durable in the journal", "source"
        )
        self.bytes_received = self._counter(
            "bytes_received", "Bytes of the bodies of received physical messages", "source"
        )
        self.duplicates = self._counter("duplicates", "Parts that had been received before", "source")
        self.quarantined = self._counter("quarantined", "Physical messages put into quarantine", "source", "code")
        self.attachments = self._counter("attachments", "Attachments that entered a state", "state", "kind")
        self.messages_sent = self._counter(
            "messages_sent", "Physical messages that a broker has confirmed", "destination"
        )
        self.bytes_sent = self._counter(
            "bytes_sent", "Bytes of the bodies of confirmed physical messages", "destination"
        )
        self.deliveries = self._counter("deliveries", "Deliveries that entered a state", "state")

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

        self.journal_append_seconds = Histogram(
            f"{_PREFIX}_journal_append_seconds",
            "Time from the start of a journal append until it is on disk",
            buckets=_APPEND_SECONDS,
            registry=self.registry,
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
            "Seconds since the last part of the unfinished attachment that has waited longest",
        )
        self.assembly_behind_segments = self._gauge(
            "assembly_behind_segments", "Sealed journal segments that a job beside the gateway has not assembled"
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
        self.scrub_restored = self._counter("scrub_restored", "Attachments whose content was restored by the scrub")
        self.scrub_damaged_segments = self._gauge(
            "scrub_damaged_segments", "Journal segments that the last scrub found damaged"
        )
        self.scrub_ended = self._gauge("scrub_ended_timestamp_seconds", "When the last whole scrub ended; 0 for never")
        self.source_connected = self._gauge("source_connected", "1 while a source is connected to its broker", "source")
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

    def count_received(self, source: str, messages: int, size: int) -> None:
        """Physical messages of a source, and the bytes of their bodies, have become durable."""
        self.messages_received.labels(source).inc(messages)
        self.bytes_received.labels(source).inc(size)

    def count_sent(self, destination: str, messages: int, size: int) -> None:
        """Count physical messages that a broker has confirmed, and the bytes of their bodies."""
        self.messages_sent.labels(destination).inc(messages)
        self.bytes_sent.labels(destination).inc(size)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus (`METRICS_CONTENT_TYPE`)."""
        return generate_latest(self.registry)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}", meaning, labels, registry=self.registry)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", meaning, labels, registry=self.registry)
