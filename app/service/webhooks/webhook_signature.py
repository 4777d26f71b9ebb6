"""Signatures of Standard Webhooks 1.0.0, scheme `v1`: HMAC-SHA256 over identifier, time and body."""

import hmac
from base64 import b64encode
from collections.abc import Sequence


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
