"""The answers of a process that does not serve REST: health, metrics, and a problem for all else."""

from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.problems import Problem


class OtherRoleMiddleware:
    """Middleware that lets only these paths through."""

    def __init__(self, app: ASGIApp, paths: Iterable[str], roles: Iterable[str]) -> None:
        self.app, self._paths = app, frozenset(paths)
        self._why = f"this process has the roles {', '.join(sorted(roles))}: ask one with the role serve"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._paths:
            await self.app(scope, receive, send)
        else:
            await Problem("not-served", self._why).response(scope["path"])(scope, receive, send)
