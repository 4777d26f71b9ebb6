"""HEAD for every resource with GET, and the header `Allow`."""

from fastapi.routing import iter_route_contexts
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def allowed(scope: Scope) -> list[str]:
    """Return the methods that a path supports, over all its routes.

    Of a path without parameters they are its own, as in OpenAPI, also where a path with a parameter matches it.
    """
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    matching = [route for route in iter_route_contexts(scope["app"].routes) if route.path_regex.match(path)]
    own = [route for route in matching if route.path == path] or matching
    found = [method for method in _METHODS if any(method in (route.methods or ()) for route in own)]
    return ["GET", "HEAD", *found[1:]] if found[:1] == ["GET"] and "HEAD" not in found else found


def _has(scope: Scope, method: str) -> bool:
    asked = {"type": "http", "method": method, "path": scope["path"], "root_path": scope.get("root_path", "")}
    asked |= {"app": scope["app"], "headers": scope["headers"], "query_string": b""}
    return any(route.matches(dict(asked))[0] is Match.FULL for route in scope["app"].routes)


class HeadMiddleware:
    """Middleware that answers HEAD as GET without the content, if a path has GET and no HEAD of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or _has(scope, "HEAD") or not _has(scope, "GET"):
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
