"""Signed links: addresses of content and events that work without credentials, for a time.

A link has the parameter `link`: who signed it, until when it is valid, and a message authentication code (HMAC-SHA-256)
of both and of the whole address. It allows reading what its signer could read, and ends with its signer's key.
"""

import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes
from typing import Any
from urllib.parse import urlencode

import orjson

from app.model.access import Principal, PrincipalKind, Scope

SECRET = "links.key"  # noqa: S105 - the name of the file
_BYTES = 32


class LinkRefused(Exception):
    """A link that is not accepted."""


class Links:
    """Signs and verifies links, with a secret in the data folder that is made when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SECRET
        self._secret = b""

    def sign(self, path: str, query: Iterable[tuple[str, str]], by: Principal, expires_at: int) -> str:
        """Return the value of the parameter `link` for an address, valid until a time (µs). Raises OSError."""
        said = {
            "until": expires_at,
            "by": [by.kind, by.name, by.id],
            "sources": _listed(by.sources),
            "destinations": _listed(by.destinations),
        }
        payload = _encoded(orjson.dumps(said))
        return f"{payload}.{self._code(payload, path, query)}"

    def verify(self, link: str, path: str, query: Iterable[tuple[str, str]], now: int) -> Principal:
        """Return the principal of a link to an address: its signer, who may only read. Raises LinkRefused, OSError."""
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
        if not self._secret:
            self._secret = _read_or_made(self._path)
        address = f"{path}?{urlencode(sorted(query))}"
        return _encoded(hmac.digest(self._secret, f"{payload}\n{address}".encode("utf-8", "replace"), sha256))


def _read_or_made(path: Path) -> bytes:
    """Return the secret in a file; a new one, written as a whole, if the file has none."""
    with suppress(FileNotFoundError):
        found = path.read_bytes()
        if len(found) == _BYTES:
            return found
    secret, new = token_bytes(_BYTES), path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    return secret


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _listed(names: frozenset[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _limit(names: list[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)
