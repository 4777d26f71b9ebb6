"""Signed links: addresses of content and events that work without credentials, for a time.

A link has the parameter `link`: who signed it, until when it is valid, and a message authentication code (HMAC-SHA-256)
of both and of the whole address. It allows reading what its signer could read, and ends with its signer's key.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import orjson

from app.model.principals import Principal, PrincipalKind, Scope

SECRET_NAME = "links"  # noqa: S105 - a name
SECRET_BYTES = 32


class LinkRefused(Exception):
    """A link that is not accepted."""


class Links:
    """Signs and verifies links with a secret, which all processes of a gateway share."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, path: str, query: Iterable[tuple[str, str]], by: Principal, expires_at: int) -> str:
        """Return the value of the parameter `link` for an address, valid until a time (µs)."""
        said = {
            "until": expires_at,
            "by": [by.kind, by.name, by.id],
            "sources": _listed(by.sources),
            "destinations": _listed(by.destinations),
        }
        payload = _encoded(orjson.dumps(said))
        return f"{payload}.{self._code(payload, path, query)}"

    def verify(self, link: str, path: str, query: Iterable[tuple[str, str]], now: int) -> Principal:
        """Return the principal of a link to an address: its signer, who may only read. Raises LinkRefused."""
        payload, _, code = link.partition(".")
        if not hmac.compare_digest(code.encode(), self._code(payload, path, query).encode()):
            raise LinkRefused("the link is not for this address, or not of this gateway")
        said: dict[str, Any] = orjson.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        if said["until"] <= now:
            raise LinkRefused("the link has expired")
        kind: PrincipalKind = said["by"][0]
        return Principal(
            kind=kind,
            name=said["by"][1],
            scopes=frozenset({Scope.READ}),
            id=said["by"][2],
            sources=_limit(said["sources"]),
            destinations=_limit(said["destinations"]),
            expires_at=said["until"],
        )

    def _code(self, payload: str, path: str, query: Iterable[tuple[str, str]]) -> str:
        address = f"{path}?{urlencode(sorted(query))}"
        return _encoded(hmac.digest(self._secret, f"{payload}\n{address}".encode("utf-8", "replace"), sha256))


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _listed(names: frozenset[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _limit(names: list[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)
