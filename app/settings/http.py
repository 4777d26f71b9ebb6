"""The REST interface: where it listens, who may use it, the OpenID provider, limits for clients, the audit log."""

import re
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import ByteSize, Field, StringConstraints, field_validator, model_validator

from app.model.principals import Scope
from app.model.validation import HOST, ORIGIN
from app.secret import Words, split_url
from app.settings.section import Digest, Duration, Section
from app.settings.transports import are_transports_validated

Host = Annotated[str, StringConstraints(pattern=HOST)]
Origin = Annotated[str, StringConstraints(pattern=ORIGIN)]


_ADDRESS = re.compile(r"[0-9.]+|.*:.*")
"""What is an address or nothing, and no name."""


class Http(Section):
    """Where REST listens. `tokens` are SHA-256 digests of the accepted bearer tokens. If there are none, and no API
    keys, `anonymous` chooses who is served. `public` is what needs no key: the details of `/health`, `/metrics`, and
    `/docs` with the OpenAPI document.

    `hosts` are the names by which clients call the gateway. Requests with another `Host` are refused if there are any,
    and while `anonymous` serves a client; the names of this machine are always accepted.

    With `cert_file` (PEM, with its intermediate certificates) and `key_file` the gateway serves TLS. Pages of
    `cors_origins` may call it from browsers.

    At most `connections` are open at once, and `connections_a_client` from one address; a new one replaces the one
    that is idle for longest, or whose caller is unknown for longest. The head of a request is limited to
    `header_bytes` and must arrive within `header_timeout`, and so must its body until it is known who sends it. A
    client that then sends or reads fewer than `stall_bytes` in `stall_timeout` is disconnected. A whole
    request, except for event streams, has `request_timeout`. Each key, or each address without one, has
    `requests_a_second` and `bytes_a_second` (of content, both ways) on the average.

    With `mcp`, language models may use operations of REST as tools at /mcp."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    tokens: Words[Digest] = Field(default=Words[Digest]())
    anonymous: Literal["this-machine", "everyone", "nobody"] = "this-machine"
    public: list[Literal["docs", "health", "metrics"]] = Field(default=["docs"])
    hosts: list[Host] = Field(default=[])
    cert_file: Path | None = None
    key_file: Path | None = None
    cors_origins: list[Origin] = Field(default=[])
    connections: int = Field(default=500, ge=1)
    connections_a_client: int = Field(default=250, ge=1)
    requests_a_second: int | None = Field(default=None, ge=1)
    bytes_a_second: ByteSize | None = Field(default=None, ge=1024)
    header_bytes: ByteSize = Field(default=ByteSize(64 << 10), ge=4 << 10, le=16 << 20)
    header_timeout: Duration = Field(default=timedelta(seconds=15), ge=timedelta(milliseconds=100))
    stall_timeout: Duration = Field(default=timedelta(seconds=60), ge=timedelta(milliseconds=100))
    stall_bytes: ByteSize = Field(default=ByteSize(64 << 10), ge=1, le=1 << 30)
    request_timeout: Duration = Field(default=timedelta(hours=1), ge=timedelta(milliseconds=100))
    mcp: bool = False

    @model_validator(mode="after")
    def _has_certificate(self) -> Self:
        wrong = ["key_file needs cert_file"] if self.key_file is not None and self.cert_file is None else []
        if are_transports_validated():
            files = (self.cert_file, self.key_file)
            wrong += [f"there is no file {path}" for path in files if path is not None and not path.is_file()]
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    @field_validator("host")
    @classmethod
    def _is_address(cls, given: str) -> str:
        if _ADDRESS.fullmatch(given):
            ip_address(given.partition("%")[0])
        return given


_ON_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519"]
"""Algorithms with a public key (RFC 7518, RFC 9864). With others, who verifies a token could also make one."""


class Oidc(Section):
    """The OpenID provider. Tokens are accepted from this `issuer`, for this `audience`, signed with one of these
    `algorithms`. Its keys are at `jwks_url`, or where its configuration says.

    `scopes` maps values of `scope_claim` to scopes; without it, the values are the scopes. If `sources_claim` or
    `destinations_claim` is set, a token is limited to the names in that claim; without the claim, to none.

    With a `client_id` people sign in to the console at the provider: as this public client, which asks for
    `sign_in_scopes`, and for what else `sign_in_parameters` says."""

    issuer: str
    audience: str = Field(min_length=1)
    algorithms: list[Algorithm] = Field(default=["RS256"], min_length=1)
    jwks_url: str | None = None
    name_claim: str = "sub"
    scope_claim: str = "scope"
    scopes: dict[str, list[Scope]] = Field(default={})
    sources_claim: str | None = None
    destinations_claim: str | None = None
    client_id: str | None = Field(default=None, min_length=1)
    sign_in_scopes: list[str] = Field(default=["openid"], min_length=1)
    sign_in_parameters: dict[str, str] = Field(default={})

    @field_validator("issuer", "jwks_url")
    @classmethod
    def _is_safe(cls, given: str | None) -> str | None:
        if given is not None:
            url = split_url(given)
            is_safe = url.scheme == "https" or (url.scheme == "http" and url.hostname in _ON_THIS_MACHINE)
            if not url.hostname or not is_safe:
                raise ValueError("give an https:// URL (http:// is for this machine only)")
        return given


class Audit(Section):
    """The files of the audit log, in the folder `audit` of the data folder. At most `files` are kept."""

    files: int = Field(default=20, ge=2, le=10_000)
