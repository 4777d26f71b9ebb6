"""Metrics of HTTP requests, by method, route and status, and the spans of traced requests."""

from functools import cache
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.metrics import METHODS, NO_ROUTE, OTHER_METHOD, Metrics
from app.ports import Clock
from app.service.events.event_spans import Traces
from app.web.http.traceparent import span_of


class MeasuringMiddleware:
    """Middleware that measures each request until its response has ended, or its client has gone.

    Requests that uvicorn's protocol refuses by itself (`app.web.server.http_protocol`) do not come here. HEAD counts as
    GET where GET answers it (`app.web.http.methods`).
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, traces: Traces, clock: Clock) -> None:
        self._app, self._traces, self._clock = app, traces, clock
        self._active, self._seconds = cache(metrics.active_requests.labels), cache(metrics.request_seconds.labels)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in METHODS else OTHER_METHOD
        status = 500  # an exception before the response's start becomes this one

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        active = self._active(method)
        active.inc()
        started = perf_counter()
        try:
            await self._app(scope, receive, noting)
        finally:
            active.dec()
            seconds = perf_counter() - started
            self._seconds(method, _route(scope), status).observe(seconds)
            if self._traces.is_enabled and (span := span_of(scope.get("state", {}))) is not None:
                now = self._clock.now()
                self._traces.export([span.span(method, _route(scope), status, now - int(seconds * 1e6), now)])


def _route(scope: Scope) -> str:
    """Return the path of a request with its parameters' names in place of their values: one of few, whatever is
    asked for."""
    return str(getattr(scope.get("route"), "path_format", NO_ROUTE))
