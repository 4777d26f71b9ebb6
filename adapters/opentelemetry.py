"""Export of spans by OpenTelemetry's SDK, with OTLP over HTTP.

The SDK reads its environment variables: `OTEL_EXPORTER_OTLP_*` says where to, `OTEL_BSP_*` how many spans wait and how
long, `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` who sends, `OTEL_TRACES_SAMPLER` which spans are recorded, and
`OTEL_SDK_DISABLED` whether there are any. Its own thread sends. When the queue is full, or the collector is away, spans
are dropped, and the gateway says so once.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from threading import Lock, Thread
from types import MappingProxyType

import structlog
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from app.model.errors import GatewayError
from app.model.trace_context import TraceContext
from app.observe import Recurring
from app.ports.span_exporter import Span

CLOSE_SECONDS = 5.0
"""How long the end of the process waits for spans that are not sent yet."""
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_KINDS = {
    "server": SpanKind.SERVER,
    "consumer": SpanKind.CONSUMER,
    "producer": SpanKind.PRODUCER,
    "internal": SpanKind.INTERNAL,
}

_log = structlog.stdlib.get_logger(__name__)


class OpenTelemetryExporter:
    """`app.ports.span_exporter.SpanExporter` over OpenTelemetry's SDK. The lock guards `_ids`."""

    def __init__(self, service: str, version: str, process: Mapping[str, str] = MappingProxyType({})) -> None:
        protocol = next((os.environ[name] for name in _PROTOCOLS if os.environ.get(name)), _PROTOCOL)
        if protocol != _PROTOCOL:
            raise GatewayError(f"spans cannot be exported by the OTLP protocol {protocol!r}: set it to {_PROTOCOL!r}")
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # `_Watched` logs what fails
        self._ids, self._lock = _GivenIds(), Lock()
        named = {SERVICE_VERSION: version, **process}
        resource = Resource.create(named)
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            resource = Resource.create({**named, SERVICE_NAME: service})
        try:
            self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
            self._provider.add_span_processor(BatchSpanProcessor(_Watched()))
        except ValueError as error:
            raise GatewayError(f"OpenTelemetry's environment variables cannot be used: {error}") from error
        self._tracer = self._provider.get_tracer(service, version)

    def export(self, span: Span) -> None:
        context = None
        if span.parent is not None:
            parent = _context(span.context._replace(span_id=span.parent))
            context = trace.set_span_in_context(NonRecordingSpan(parent))
        else:
            context = trace.set_span_in_context(trace.INVALID_SPAN)
        with self._lock:
            self._ids.trace_id, self._ids.span_id = int(span.context.trace_id, 16), int(span.context.span_id, 16)
            made = self._tracer.start_span(
                span.name,
                context,
                _KINDS[span.kind],
                span.attributes,
                [Link(_context(each)) for each in span.links],
                span.started_at * 1000,
            )
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error))
        made.end(span.ended_at * 1000)

    def close(self) -> None:
        """Send what is queued. A collector that does not answer is not waited for longer than CLOSE_SECONDS."""
        closing = Thread(target=self._provider.shutdown, name="close traces", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)


class _GivenIds(IdGenerator):
    """The identifiers of the next span, which the gateway chooses."""

    trace_id = span_id = 1

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class _Watched(OTLPSpanExporter):
    """The SDK's exporter. Failures are logged when they begin and when they are over."""

    def __init__(self) -> None:
        super().__init__()
        self._fault = Recurring(_log, "traces", logging.WARNING, endpoint=self._endpoint)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = super().export(spans)
        except Exception as error:
            self._fault.failed(error)
            raise
        if result is SpanExportResult.SUCCESS:
            self._fault.worked()
        else:
            self._fault.failed("the collector does not take spans: they are dropped")
        return result


def _context(context: TraceContext) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if context.is_sampled else TraceFlags.DEFAULT)
    return SpanContext(int(context.trace_id, 16), int(context.span_id, 16), is_remote=True, trace_flags=flags)
