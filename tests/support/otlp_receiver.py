"""A collector of spans: it takes OTLP over HTTP, and decodes it with OpenTelemetry's own messages."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.support.http_server import Handler, serving


class Seen(NamedTuple):
    """A span as it was received. Identifiers are hexadecimal, times nanoseconds."""

    service: str
    instance: object
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent: str
    start: int
    end: int
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    error: str


class Receiver:
    """What was received. While `status` is not 200, everything is refused with it."""

    def __init__(self) -> None:
        self.spans: list[Seen] = []
        self.requests = 0
        self.status = 200
        self.url = ""

    @property
    def environment(self) -> dict[str, str]:
        """Return variables with which OpenTelemetry's SDK sends to this receiver, soon."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "50", "NO_PROXY": "127.0.0.1"}

    def of_trace(self, trace_id: str) -> dict[str, Seen]:
        """Return the spans of a trace by their identifiers."""
        return {each.span_id: each for each in list(self.spans) if each.trace_id == trace_id}


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver on this machine for the block."""
    received = Receiver()

    class Collector(Handler):
        def do_POST(self) -> None:
            body = self.body()
            received.requests += 1
            if received.status == 200:
                assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
                packed = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
                received.spans += _spans(ExportTraceServiceRequest.FromString(packed))
            self.answer(received.status)

    with serving(Collector) as port:
        received.url = f"http://127.0.0.1:{port}"
        yield received


def _spans(request: ExportTraceServiceRequest) -> Iterator[Seen]:
    for resource in request.resource_spans:
        about = {each.key: _value(each.value) for each in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Seen(
                    service=about["service.name"],
                    instance=about.get("service.instance.id"),
                    name=span.name,
                    kind=trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    start=span.start_time_unix_nano,
                    end=span.end_time_unix_nano,
                    attributes={each.key: _value(each.value) for each in span.attributes},
                    links=[(each.trace_id.hex(), each.span_id.hex()) for each in span.links],
                    error=span.status.message if span.status.code == trace_pb2.Status.STATUS_CODE_ERROR else "",
                )


def _value(value: AnyValue) -> Any:
    return getattr(value, value.WhichOneof("value") or "string_value")
