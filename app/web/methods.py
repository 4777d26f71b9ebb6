"""HEAD for every resource with GET, and the header `Allow`."""

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def allowed(scope: Scope) -> list[str]:
    """Return the methods that a path supports, over all its routes.

    Of a path without parameters they are its own, as in OpenAPI, also where a path with a parameter matches it.
    """
    by_method = {method: list(_matching(scope, method)) for method in _METHODS}
    has_own = any(not parameters for matches in by_method.values() for parameters in matches)
    found = [
        method for method, matches in by_method.items() if any(not (has_own and parameters) for parameters in matches)
    ]
    return ["GET", "HEAD", *found[1:]] if found[:1] == ["GET"] and "HEAD" not in found else found


def _has(scope: Scope, method: str) -> bool:
    return next(_matching(scope, method), None) is not None


def _matching(scope: Scope, method: str) -> Iterator[Mapping[str, Any]]:
    """Yield the parameters of the path by each route that it matches with this method."""
    asked = {"type": "http", "method": method, "path": scope["path"], "root_path": scope.get("root_path", "")}
    asked |= {"app": scope["app"], "headers": scope["headers"], "query_string": b""}
    for route in scope["app"].routes:
        match, found = route.matches(dict(asked))
        if match is Match.FULL:
            yield found.get("path_params", {})


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
        return _has(scope, "HEAD") or not _has(scope, "GET")
