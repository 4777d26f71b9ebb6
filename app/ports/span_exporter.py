"""The port of an exporter of spans."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from app.model.trace_context import TraceContext

SpanKind = Literal["server", "consumer", "producer", "internal"]
Attributes = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span that has ended. Times are microseconds since 1970-01-01 UTC.

    `parent` is the parent's span identifier, None of a span with which a trace begins. `error` is why the work failed,
    a sentence. `links` are other spans that led to it.
    """

    name: str
    kind: SpanKind
    context: TraceContext
    parent: str | None
    started_at: int
    ended_at: int
    attributes: Attributes
    links: Sequence[TraceContext] = ()
    error: str | None = None


class SpanExporter(Protocol):
    """Sends spans to a collector. What it cannot send is dropped."""

    def export(self, span: Span) -> None:
        """Queue a span. It never waits, and never fails because of the collector."""

    def close(self) -> None:
        """Send what is queued, as far as that takes some seconds at most."""


class SpanExporterPlugin(Protocol):
    """Makes an exporter."""

    def __call__(self, service: str, version: str, process: Mapping[str, str] = ...) -> SpanExporter:
        """Return an exporter for a service of this name, unless the environment names it. `process` are attributes of
        the resource that tell this process from others of the service. Raises GatewayError."""
