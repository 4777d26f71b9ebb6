"""The trace of a request that sends: its header field `traceparent`, and its span."""

from random import random
from typing import Annotated, Final

from fastapi import Header, Request

from app.model.trace_context import TRACE_PARENT, TraceContext
from app.service.events.event_spans import Traces
from app.span_names import Request as RequestSpan

SPAN: Final = "span"
"""The name of a request's span in its state."""

TraceParent = Annotated[
    str | None,
    Header(
        alias=TRACE_PARENT,
        description="W3C Trace Context: what is sent continues this trace. Anything else is ignored",
        examples=["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
    ),
]


def continued(request: Request, traces: Traces) -> str | None:
    """Return the `traceparent` that what a request sends continues; None if there is no trace.

    If spans are exported, the request has one, which is the parent.
    """
    context = TraceContext.parse(request.headers.get(TRACE_PARENT, "").strip())
    span = traces.request(context, random())  # noqa: S311 - a sample keeps no secret
    if span is not None:
        setattr(request.state, SPAN, span)
        return str(span.context)
    return None if context is None else str(context)


def span_of(scope_state: dict[str, object]) -> RequestSpan | None:
    """Return the span of a request, if it has one, from the state of its scope."""
    found = scope_state.get(SPAN)
    return found if isinstance(found, RequestSpan) else None
