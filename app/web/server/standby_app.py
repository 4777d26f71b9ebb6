"""The REST interface of a gateway that stands by, or is about to become active: health only."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import orjson
import uvicorn
from starlette.types import Receive, Scope, Send

from app.settings import Settings
from app.web.server.uvicorn_configuration import configuration

HEALTH_PATHS = ("/health/live", "/health/ready", "/health/ready/read", "/health/ready/receive")
RETRY_SECONDS = 5
_PROBLEM = {
    "type": "about:blank",
    "title": "Service Unavailable",
    "status": 503,
    "detail": "this gateway stands by for another one, or is about to take over",
}


class StandbyApp:
    """Answers `/health/live` with 200, and all else with 503. `check` returns the check `standby` of health."""

    def __init__(self, settings: Settings, check: Callable[[], dict[str, Any]]) -> None:
        self._check = check if "health" in settings.http.public else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        if scope["type"] != "http":
            return
        path = scope["path"]
        is_live = path == "/health/live"
        if path in HEALTH_PATHS:
            answer: dict[str, Any] = {"ok": is_live}
            kind = b"application/json"
            if self._check is not None:
                answer["checks"] = {"standby": self._check()}
        else:
            answer, kind = _PROBLEM, b"application/problem+json"
        body = orjson.dumps(answer)
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store")]
        if not is_live:
            headers.append((b"retry-after", b"%d" % RETRY_SECONDS))
        await send({"type": "http.response.start", "status": 200 if is_live else 503, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


@contextmanager
def standing_by(listener: socket.socket, settings: Settings, check: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """Answer at a bound socket, in a thread, until the block ends. The socket stays open."""
    app: Any = StandbyApp(settings, check)
    server = uvicorn.Server(configuration(app, settings.http, lifespan="off", timeout_graceful_shutdown=1))
    thread = Thread(target=server.run, args=([listener.dup()],), name="standby", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
