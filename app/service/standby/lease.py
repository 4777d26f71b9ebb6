"""A Lease of Kubernetes (coordination.k8s.io/v1), read and written by its API server.

The API server refuses a write with 409 if somebody else has written since the read (`resourceVersion`).
"""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx

from app.model.errors import GatewayError
from app.settings import Standby


class LeaseError(GatewayError):
    """The API server cannot be reached, or refuses."""


class LeaseChanged(LeaseError):
    """Somebody else has written the Lease since it was read."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as the API server has it.

    `holder` is empty if nobody has it. `seconds` is the time without renewal after which others may take it. `written`
    is the whole object, with fields of others.
    """

    holder: str
    seconds: float
    transitions: int
    version: str
    written: dict[str, Any]


class LeaseApi:
    """Access to one Lease. Each call reads the token again, since Kubernetes replaces it every hour."""

    def __init__(self, settings: Standby) -> None:
        self._settings = settings
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{settings.namespace}/leases"
        is_https = settings.api_url.startswith("https:")
        try:
            self._client = httpx.Client(
                base_url=settings.api_url,
                verify=ssl.create_default_context(cafile=settings.ca_file) if is_https else True,
                timeout=settings.retry.total_seconds(),
                trust_env=False,
                limits=httpx.Limits(max_keepalive_connections=0),
            )
        except OSError as error:
            raise GatewayError(f"standby.ca_file: {settings.ca_file} cannot be read: {error}") from error

    def read(self) -> Lease | None:
        """Return the Lease; None if there is none. Raises LeaseError."""
        answer = self._ask("GET", f"{self._path}/{self._settings.lease}")
        return None if answer is None else _lease(answer)

    def take(self, found: Lease | None, holder: str) -> Lease:
        """Make `holder` the holder of a Lease as it was found, or of a new one. Raises LeaseChanged and LeaseError."""
        now = _now()
        seconds = int(self._settings.duration.total_seconds())
        spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "acquireTime": now, "renewTime": now}
        if found is None:
            name = {"name": self._settings.lease, "namespace": self._settings.namespace}
            made = {"metadata": name, "spec": spec | {"leaseTransitions": 0}}
            return _lease(self._write("POST", self._path, made))
        return self._put(found, spec | {"leaseTransitions": found.transitions + 1})

    def renew(self, held: Lease) -> Lease:
        """Say that its holder still has the Lease. Raises LeaseChanged and LeaseError."""
        return self._put(held, {"renewTime": _now()})

    def release(self, held: Lease) -> None:
        """Give the Lease up, so that others need not wait. Raises LeaseChanged and LeaseError."""
        self._put(held, {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()})

    def close(self) -> None:
        self._client.close()

    def _put(self, found: Lease, spec: dict[str, Any]) -> Lease:
        changed = found.written | {"spec": found.written.get("spec", {}) | spec}
        return _lease(self._write("PUT", f"{self._path}/{self._settings.lease}", changed))

    def _write(self, method: str, path: str, lease: dict[str, Any]) -> dict[str, Any]:
        answer = self._ask(method, path, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"} | lease)
        if answer is None:
            raise LeaseChanged(f"the Lease {self._settings.lease} was deleted")
        return answer

    def _ask(self, method: str, path: str, sent: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the API server's answer; None for 404."""
        try:
            token = self._settings.token_file.read_text().strip()
            answer = self._client.request(method, path, json=sent, headers={"Authorization": f"Bearer {token}"})
            if answer.status_code == httpx.codes.NOT_FOUND:
                return None
            if answer.status_code == httpx.codes.CONFLICT:
                raise LeaseChanged(f"the Lease {self._settings.lease} was changed by another gateway")
            answer.raise_for_status()
            return dict(answer.json())
        except (httpx.HTTPError, OSError, ValueError) as error:
            why = str(error).partition("\n")[0] or type(error).__name__
            raise LeaseError(f"the Kubernetes API at {self._settings.api_url} failed: {why}") from error


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _lease(answer: dict[str, Any]) -> Lease:
    """Return the Lease that the API server sent. Raises LeaseError for another object."""
    try:
        spec = answer.get("spec") or {}
        return Lease(
            holder=str(spec.get("holderIdentity") or ""),
            seconds=float(spec.get("leaseDurationSeconds") or 0),
            transitions=int(spec.get("leaseTransitions") or 0),
            version=str(answer["metadata"]["resourceVersion"]),
            written=answer,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LeaseError(f"the Kubernetes API answered with something other than a Lease: {error!r}") from error
