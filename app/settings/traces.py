"""Whether spans of attachments and deliveries are exported."""

from pydantic import Field

from app.settings.section import Section


class TraceSettings(Section):
    """Whether spans are exported, and the share of attachments and of sending requests without a `traceparent` that
    get a trace of their own. OpenTelemetry's environment variables (`OTEL_*`) say where spans go."""

    enabled: bool = False
    ratio: float = Field(default=0.0, ge=0, le=1)
