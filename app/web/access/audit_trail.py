"""What the audit log will say of a request, and the middleware that adds its entry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.model.principals import Principal
from app.service.access.audit import entry
from app.web.access.operations import OPERATIONS, READ_AUDIT, Operation

LONGEST = 1000
"""The maximum number of characters of a text from a client in an entry."""

Add = Callable[[Mapping[str, Any]], None]

NOT_MODIFIED = 304
_NOTED = "app.audit"
_SIGN_IN = "sign-in"
_NOTHING = Operation(None)


@dataclass(slots=True)
class Trail:
    """What is known of a request so far. `refused` is why it was refused, whatever its status says. `is_abandoned`: its
    client left before the response began."""

    principal: Principal | None = None
    operation: str = ""
    refused: str | None = None
    is_abandoned: bool = False
    details: dict[str, Any] = field(default_factory=dict)


def trail_of(connection: HTTPConnection) -> Trail:
    """Return the trail of a request."""
    trail: Trail = connection.scope[_NOTED]
    return trail


class AuditMiddleware:
    """Middleware that adds an entry for each operation with an action, and for each refusal.

    The entry is added when the response begins: a client that leaves afterwards has read something.
    """

    def __init__(self, app: ASGIApp, add: Add, add_failed: Add) -> None:
        self._app, self._add, self._add_failed = app, add, add_failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        trail = scope[_NOTED] = Trail()

        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self._note(scope, trail, message["status"])
            await send(message)

        await self._app(scope, receive, noting)
        if trail.is_abandoned and not begun:
            self._note(scope, trail, None)

    def _note(self, scope: Scope, trail: Trail, status: int | None) -> None:
        known = OPERATIONS.get(trail.operation, _NOTHING)
        if trail.principal is None and trail.refused is not None:
            action: str | None = _SIGN_IN
        else:
            action = known.action or (trail.operation if trail.refused is not None else None)
        if action is None or (action == READ_AUDIT and status == NOT_MODIFIED):
            return  # nothing was read; a reading would change what is read
        client = scope.get("client")
        who = trail.principal
        facts: dict[str, Any] = {
            "who": None if who is None else {"kind": who.kind, "name": _text(who.name), "id": who.id},
            "from": client[0] if client else None,
            "method": scope["method"],
            "path": _text(scope["path"]),
        }
        if trail.refused is not None:
            result, facts["reason"] = "refused", _text(trail.refused)
        elif trail.is_abandoned or status is None:
            result = "abandoned"
        else:
            result = "done" if status < 400 else "failed"
        if result != "abandoned":
            facts["status"] = status
        add = self._add_failed if action == _SIGN_IN else self._add
        add(entry(action, result, **facts, **{name: _text(value) for name, value in trail.details.items()}))


def _text(value: Any) -> Any:
    """Return a text from a client such that JSON can carry it, and not too long."""
    return value[:LONGEST].encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value
