"""Access: the OpenID provider whose access tokens are accepted, and how much of the audit log is kept."""

from typing import Literal

from pydantic import Field, field_validator

from app.model.access import Scope
from app.secret import split_url
from app.settings.section import Section

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
