"""Webhooks: programs that get events by signed HTTP requests."""

from base64 import b64decode
from binascii import Error as NotBase64
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from app.model.event_logs import EventFilter
from app.secret import Secret, Words, split_url
from app.settings.section import Duration, Name, Section

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64
"""Bytes of a secret, by Standard Webhooks."""


def secret_bytes(secret: str) -> bytes:
    """Return the bytes of a secret: base64, with or without the prefix `whsec_`. Raises ValueError."""
    try:
        found = b64decode(secret.removeprefix(PREFIX), validate=True)
    except NotBase64:
        raise ValueError(f"a secret is base64, with or without the prefix {PREFIX}") from None
    if not SHORTEST <= len(found) <= LONGEST:
        raise ValueError(f"a secret has {SHORTEST} to {LONGEST} bytes, this one has {len(found)}")
    return found


def _secret(given: Secret) -> Secret:
    secret_bytes(given.get_secret_value())
    return given


class Webhook(Section):
    """A program that gets events.

    Each request is signed with every one of `secrets`: two, while a secret is replaced. The lists select events, as the
    parameters of `GET /v1/events` do. Addresses that are not public are refused unless one of `networks` has them. An
    event that was not taken is sent again, with pauses from `retry_first` up to `retry_longest`, and given up after
    `give_up`."""

    url: str
    secrets: Annotated[Words[Annotated[Secret, AfterValidator(_secret)]], Field(min_length=1, max_length=2)]
    types: list[str] = Field(default=[])
    sources: list[Name] = Field(default=[])
    destinations: list[Name] = Field(default=[])
    networks: list[IPv4Network | IPv6Network] = Field(default=[])
    timeout: Duration = Field(default=timedelta(seconds=15), ge=timedelta(milliseconds=100), le=timedelta(minutes=1))
    retry_first: Duration = Field(default=timedelta(seconds=1), ge=timedelta(milliseconds=1))
    retry_longest: Duration = timedelta(minutes=5)
    give_up: Duration = timedelta(days=3)

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        parts = split_url(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be like https://host/path")
        if parts.username is not None or parts.password is not None or parts.fragment:
            raise ValueError("must have no user name, password or fragment")
        if not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError("must consist of ASCII characters without blanks")
        return url

    @field_validator("types")
    @classmethod
    def _are_types(cls, types: list[str]) -> list[str]:
        EventFilter.of(types)
        return types
