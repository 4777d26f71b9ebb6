"""One signed request for one event, and what the receiver answered."""

import hmac
import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from importlib.metadata import version
from typing import Final, NamedTuple

import httpcore
import httpx

from app.model.errors import with_type
from app.model.event_logs import EventLogs
from app.model.records import EventRecord
from app.model.times import to_time
from app.service.events.event_entries import cloud_event
from app.service.webhooks.checked_network import CheckedBackend, Deadline, RefusedAddress
from app.settings.webhooks import Webhook, secret_bytes


def signed_headers(secrets: Sequence[bytes], identifier: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the header fields that prove to the receiver who sends a body.

    `timestamp` is in seconds since 1970-01-01 UTC. There is one signature for each secret, so that a receiver can check
    with either while a secret is replaced.
    """
    content = b".".join((identifier.encode(), str(timestamp).encode(), body))
    signatures = (b64encode(hmac.digest(secret, content, "sha256")).decode() for secret in secrets)
    return {
        "webhook-id": identifier,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"
MOST_RETRY_AFTER: Final = 3600.0
"""The longest pause that a receiver can ask for, in seconds."""
_MOST_BODY: Final = 64 << 10
_GONE: Final = 410
_BROKEN: Final = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError)
_ABOUT_THE_EVENT: Final = frozenset({400, 413, 415, 422})


class WebhookOutcome(Enum):
    """What became of a request."""

    DELIVERED = auto()
    REFUSED = auto()
    """The receiver does not take this event."""
    FAILED = auto()
    """The receiver could not be reached, or takes no event at present."""
    GONE = auto()
    """The receiver wants no more events."""


class WebhookAnswer(NamedTuple):
    """What became of a request, and why it was not delivered. `retry_after` is the pause, in seconds, that the receiver
    asked for."""

    outcome: WebhookOutcome
    reason: str | None = None
    retry_after: float = 0.0


Post = Callable[[EventRecord, int], WebhookAnswer]
"""A function that sends an event, at a time in microseconds since 1970-01-01 UTC."""


class Poster:
    """Sends events to one webhook, over one connection that is kept open."""

    def __init__(self, settings: Webhook) -> None:
        self._url = settings.url
        self._secrets = settings.secrets
        self._seconds, self._deadline = settings.timeout.total_seconds(), Deadline()
        self._timeout = dict.fromkeys(("connect", "read", "write", "pool"), self._seconds)
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context() if settings.url.startswith("https:") else None,
            max_connections=1,
            keepalive_expiry=30.0,
            network_backend=CheckedBackend(settings.networks, self._deadline),
        )

    def post(self, logs: EventLogs, event: EventRecord, now: int) -> WebhookAnswer:
        """Send an event of these logs.

        Redirects are not followed: they could lead to an address that is not allowed.
        """
        body = json.dumps(cloud_event(event, logs)).encode()
        # The same however often it is sent. The time is part of it, since numbers begin again with a rebuilt catalog.
        webhook_id = f"event-{event.number}-{event.time}"
        keys = [secret_bytes(each.get_secret_value()) for each in self._secrets.current]
        headers = {
            "Host": httpx.URL(self._url).netloc.decode(),
            "Content-Type": CONTENT_TYPE,
            "Content-Length": str(len(body)),
            "User-Agent": f"attachment-gateway/{version('attachment-gateway')}",
            **signed_headers(keys, webhook_id, now // 1_000_000, body),
        }
        self._deadline.begin(self._seconds)
        try:
            with self._pool.stream(
                "POST",
                self._url,
                headers=[(name.encode(), value.encode()) for name, value in headers.items()],
                content=body,
                extensions={"timeout": self._timeout},
            ) as response:
                with suppress(*_BROKEN):  # the status says all
                    _read(response)
                return _answer(response, now)
        except RefusedAddress as error:
            return WebhookAnswer(WebhookOutcome.FAILED, str(error))
        except _BROKEN as error:
            return WebhookAnswer(WebhookOutcome.FAILED, with_type(error))

    def close(self) -> None:
        """Close the connection."""
        self._pool.close()


def _read(response: httpcore.Response) -> None:
    """Read a short body, so that the connection can be used again. That of a longer one is closed."""
    size = 0
    for piece in response.iter_stream():
        size += len(piece)
        if size > _MOST_BODY:
            return


def _answer(response: httpcore.Response, now: int) -> WebhookAnswer:
    status = response.status
    if 200 <= status < 300:
        return WebhookAnswer(WebhookOutcome.DELIVERED)
    reason = f"the receiver answered with status {status}"
    if status == _GONE:
        return WebhookAnswer(WebhookOutcome.GONE, reason)
    if status in _ABOUT_THE_EVENT:
        return WebhookAnswer(WebhookOutcome.REFUSED, reason)
    given = next((value for name, value in response.headers if name.lower() == b"retry-after"), b"")
    return WebhookAnswer(WebhookOutcome.FAILED, reason, retry_after(given.decode("latin-1"), now))


def retry_after(given: str, now: int) -> float:
    """Return the seconds that a Retry-After field asks for: a number, or a date. It is 0 for anything else."""
    seconds = 0.0
    if given.isascii() and given.isdigit():
        seconds = float(given[:10])
    else:
        with suppress(ValueError, OverflowError):
            date = parsedate_to_datetime(given)
            date = date if date.tzinfo else date.replace(tzinfo=UTC)
            seconds = (date - to_time(now)).total_seconds()
    return min(max(seconds, 0.0), MOST_RETRY_AFTER)
