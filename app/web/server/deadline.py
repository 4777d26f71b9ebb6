"""The time limit of a whole request, from its head to the end of its response.

Event streams have none. Other limits end a request sooner whose client sends or reads nothing
(`app.web.server.http_protocol`).
"""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.observe import logger
from app.web.problems import Problem

EVENT_STREAM = "text/event-stream"

log = logger(__name__)


class DeadlineMiddleware:
    """Middleware that ends a request which takes longer than `seconds`.

    It is answered with a problem. If its response has begun, it stays incomplete, and the connection is closed.
    """

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watching(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                if Headers(raw=message["headers"]).get("content-type", "").startswith(EVENT_STREAM):
                    deadline.reschedule(None)
            await send(message)

        try:
            async with asyncio.timeout(self._seconds) as deadline:
                await self._app(scope, receive, watching)
        except TimeoutError:
            if not deadline.expired():
                raise
            log.warning("request_timed_out", method=scope["method"], path=scope["path"], seconds=self._seconds)
            if not started:
                why = f"the request took longer than {self._seconds:g} s, which http.request_timeout allows"
                await Problem("request-timeout", why).response(scope["path"])(scope, receive, send)
