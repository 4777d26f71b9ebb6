"""What can go wrong for a client."""

from collections.abc import Mapping
from typing import Any


class AttachmentGatewayError(Exception):
    """Any error of this library that is no error of the program that uses it."""


class InvalidToken(AttachmentGatewayError, ValueError):
    """A token that no request can carry. The text does not show it."""


class InvalidKey(AttachmentGatewayError, ValueError):
    """An idempotency key that no request can carry. Nothing was sent."""


class InvalidPath(AttachmentGatewayError, ValueError):
    """A path or URL of a request, or a redirect, that is not below /v1 of the gateway. The request was not sent."""


class Problem(AttachmentGatewayError):
    """An error response of the gateway (RFC 9457).

    `type` says which problem it is; the gateway's page docs/problems.md lists all. `members` has everything that the
    response says, `errors` the fields that are wrong.
    """

    def __init__(self, status: int, members: Mapping[str, Any], retry_after: float | None = None) -> None:
        self.status, self.members, self.retry_after = status, members, retry_after
        self.type = str(members.get("type", "about:blank"))
        self.title = str(members.get("title", status))
        self.detail = str(members.get("detail") or self.title)
        self.errors: list[dict[str, Any]] = list(members.get("errors") or [])
        super().__init__(self.detail)

    @property
    def is_temporary(self) -> bool:
        """Whether the gateway, or a proxy before it, gives no answer at present, or none to a client that asks too
        often. A process that does not serve REST will not do so later."""
        if self.type == "/problems/not-served":
            return False
        return self.status in (502, 503, 504) or self.type == "/problems/rate-limited"


class Unreachable(AttachmentGatewayError):
    """The gateway cannot be reached, or the connection broke. `is_refused` if there was no connection at all."""

    def __init__(self, why: str, *, is_refused: bool = False) -> None:
        super().__init__(why)
        self.is_refused = is_refused


class DigestMismatch(AttachmentGatewayError):
    """The received bytes differ from the SHA-256 that the gateway has of them; `received` is theirs."""

    def __init__(self, received: str) -> None:
        super().__init__(f"the SHA-256 is wrong: {received} was received")
        self.received = received


class ContentChanged(AttachmentGatewayError):
    """The content is not the one of which an earlier download has the first part."""
