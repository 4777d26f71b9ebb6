"""The header `Tus-Resumable`, which every response to a request of tus has, whatever answers it."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.dependencies.request_gateway import API
from app.web.resources.uploads.protocols import TUS_VERSION


class TusMiddleware:
    """Middleware that adds the version to the responses to requests that name one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_tus(scope):
            await self._app(scope, receive, send)
            return

        async def with_version(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).setdefault("Tus-Resumable", TUS_VERSION)
            await send(message)

        await self._app(scope, receive, with_version)


def _is_tus(scope: Scope) -> bool:
    if scope["type"] != "http":
        return False
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return path.startswith(f"{API}/uploads") and "tus-resumable" in Headers(scope=scope)
