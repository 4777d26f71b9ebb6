"""Access: scopes, the principals that have them, and API keys."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

PrincipalKind = Literal["anonymous", "token", "key", "oidc"]


class Scope(StrEnum):
    """A permission of a principal. `admin` includes all others."""

    READ = "read"
    SEND = "send"
    DELETE = "delete"
    OPERATE = "operate"
    ADMIN = "admin"


SCOPES: dict[Scope, str] = {
    Scope.READ: "list and read attachments, messages, deliveries, the quarantine, tables, events, checks and metrics",
    Scope.SEND: "send messages",
    Scope.DELETE: "delete attachments, messages and deliveries",
    Scope.OPERATE: "replay and dismiss quarantined messages, cancel deliveries and send them again, see webhooks and "
    "send their events again",
    Scope.ADMIN: "all of these, read the audit log, and see receivers, have them leave and forget them",
}
"""What each scope allows, for people."""

EVERYTHING = frozenset(Scope)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sends a request. `id` is the identifier of its API key, or the first digits of its token's SHA-256.

    `sources` and `destinations` are those that it may know of; None means all. `expires_at` is in microseconds since
    1970-01-01 UTC.
    """

    kind: PrincipalKind
    name: str
    scopes: frozenset[Scope]
    id: str = ""
    sources: frozenset[str] | None = None
    destinations: frozenset[str] | None = None
    expires_at: int | None = None

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes

    @property
    def is_limited(self) -> bool:
        """Whether there are sources or destinations that it must not know of."""
        return self.sources is not None or self.destinations is not None

    def knows_source(self, source: str) -> bool:
        return self.sources is None or source in self.sources

    def knows_destination(self, destination: str) -> bool:
        return self.destinations is None or destination in self.destinations


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that a client authenticates with. `digest` is the SHA-256 of the whole key, which is not stored itself.

    Times are in microseconds since 1970-01-01 UTC. `last_used_at` may lag behind by a minute.
    """

    id: str
    name: str
    digest: bytes
    scopes: frozenset[Scope]
    created_at: int
    sources: frozenset[str] | None = None
    destinations: frozenset[str] | None = None
    expires_at: int | None = None
    revoked_at: int | None = None
    last_used_at: int | None = None

    def principal(self) -> Principal:
        return Principal("key", self.name, self.scopes, self.id, self.sources, self.destinations, self.expires_at)
