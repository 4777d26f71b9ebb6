"""HEAD for every resource with GET, and the header `Allow`."""

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def allowed(scope: Scope) -> list[str]:
    """Return the methods that a path supports, over all its routes."""
    routes = scope["app"].routes
    found = [method for method in _METHODS if _has(routes, scope, method)]
    return ["GET", "HEAD", *found[1:]] if found[:1] == ["GET"] and "HEAD" not in found else found


def _has(routes: list[BaseRoute], scope: Scope, method: str) -> bool:
    asked = {"type": "http", "method": method, "path": scope["path"], "root_path": scope.get("root_path", "")}
    asked |= {"app": scope["app"], "headers": scope["headers"], "query_string": b""}
    return any(route.matches(dict(asked))[0] is Match.FULL for route in routes)


class HeadMiddleware:
    """Middleware that answers HEAD as GET without the content, if a path has GET and no HEAD of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or self._is_own(scope):
            await self._app(scope, receive, send)
            return
        ended = False

        async def without_content(message: Message) -> None:
            nonlocal ended
            if message["type"] == "http.response.start":
                await send(message)
            elif not ended:
                ended = True
                await send({"type": "http.response.body", "body": b""})

        await self._app({**scope, "method": "GET"}, receive, without_content)

    def _is_own(self, scope: Scope) -> bool:
        routes = scope["app"].routes
        return _has(routes, scope, "HEAD") or not _has(routes, scope, "GET")
