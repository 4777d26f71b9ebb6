"""Authentication: from the credentials of a request to its principal."""

import hmac
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address
from typing import TYPE_CHECKING

from app.model.errors import CatalogError
from app.model.principals import EVERYTHING, Principal, Scope
from app.ports import Catalog, Clock
from app.service.access.api_keys import PREFIX, KeyRefused, Keys
from app.settings import Http, Oidc

if TYPE_CHECKING:
    from app.service.access.oidc import AccessTokens
    from app.service.access.openid_sign_in import SignIn

DIGITS = 12
"""How many digits of a configured token's SHA-256 name it."""


class CredentialsRefused(Exception):
    """Credentials that are not accepted. `reason` is for the audit log; `told` is what the client may know."""

    def __init__(self, reason: str, told: str = "the key or token is not accepted") -> None:
        super().__init__(reason)
        self.reason, self.told = reason, told


class Authenticator:
    """Finds the principals of requests, by the settings, the keys in the catalog and an OpenID provider."""

    def __init__(self, http: Http, oidc: Oidc | None, catalog: Catalog, clock: Clock) -> None:
        self._http, self._clock = http, clock
        self.keys = Keys(catalog, clock)
        self._tokens: AccessTokens | None = None
        self.sign_in: SignIn | None = None
        """The sign-in of people at the OpenID provider, if there is one that has a client for it."""
        if oidc is not None:
            from app.service.access import oidc as tokens  # noqa: PLC0415 - a tenth of a second of imports
            from app.service.access import openid_sign_in  # noqa: PLC0415 - as above

            self._tokens = tokens.AccessTokens(oidc, clock)
            self.sign_in = None if oidc.client_id is None else openid_sign_in.SignIn(oidc, self._tokens)

    def needs_refresh(self, text: str | None) -> bool:
        """Tell whether a request with this bearer token should wait for `refresh`."""
        return not self.keys.is_fresh or self._may_fetch(text)

    def refresh(self, text: str | None) -> None:
        """Read the keys again if that was not done lately, and fetch the OpenID provider's keys if they are needed for
        this bearer token. Blocks. Raises CatalogError."""
        self.keys.refresh()
        if self._tokens is not None and self._may_fetch(text):
            self._tokens.refresh()

    def _may_fetch(self, text: str | None) -> bool:
        return self._tokens is not None and text is not None and _is_jwt(text) and self._tokens.lacks_key(text)

    def by_bearer(self, text: str) -> Principal:
        """Return the principal of a bearer token, after `refresh`. Raises CredentialsRefused."""
        if text.startswith(PREFIX):
            try:
                return self.keys.find(text).principal()
            except KeyRefused as error:
                raise _refused(error) from None
        shown = sha256(text.encode()).hexdigest()
        if any(hmac.compare_digest(shown, digest) for digest in self._http.tokens.current):
            return Principal("token", "configured token", EVERYTHING, shown[:DIGITS])
        if self._tokens is not None and _is_jwt(text):
            from app.service.access.oidc import TokenRefused  # noqa: PLC0415 - loaded before

            try:
                return self._tokens.principal(text)
            except TokenRefused as error:
                raise CredentialsRefused(str(error), error.told) from None
        raise CredentialsRefused("the token is unknown")

    def is_current(self, principal: Principal) -> bool:
        """Tell whether a principal that was accepted still would be. Blocks."""
        if principal.expires_at is not None and principal.expires_at <= self._clock.now():
            return False
        if principal.kind != "key":
            return True
        try:
            self.keys.refresh()
            self.keys.current(principal.id)
        except KeyRefused:
            return False
        except CatalogError:
            return True
        return True

    @property
    def is_open(self) -> bool:
        """Whether no credentials exist, so that the credentials of a request mean nothing."""
        return not self._http.tokens and self._tokens is None and self.keys.is_empty

    def is_served(self, address: str | None) -> bool:
        """Tell whether requests from an address are served without credentials."""
        if not self.is_open or self._http.anonymous == "nobody":
            return False
        if self._http.anonymous == "everyone":
            return True
        return _is_loopback(address or "")

    def by_link(self, signer: Principal, address: str | None) -> Principal:
        """Return the principal of a signed link by its signer, who must still be somebody to whom this gateway would
        answer, with the limits of both. Raises CredentialsRefused."""
        if signer.kind == "key":
            try:
                current = self.keys.current(signer.id).principal()
            except KeyRefused as error:
                raise _refused(error) from None
            if not current.may(Scope.READ):
                raise CredentialsRefused("the key of the link's signer may not read")
            return replace(signer, sources=current.sources, destinations=current.destinations)
        if signer.kind == "anonymous":
            self.without(address)
        if signer.kind == "token" and not any(digest.startswith(signer.id) for digest in self._http.tokens.current):
            raise CredentialsRefused("the token of the link's signer is no longer configured")
        if signer.kind == "oidc" and self._tokens is None:
            raise CredentialsRefused("the OpenID provider of the link's signer is no longer configured")
        return signer

    def without(self, address: str | None) -> Principal:
        """Return the principal of a request without credentials, from an address. Raises CredentialsRefused."""
        if not self.is_open:
            raise CredentialsRefused("no credentials", "send an API key or a token: Authorization: Bearer …")
        if self.is_served(address):
            return Principal("anonymous", "anonymous", EVERYTHING)
        raise CredentialsRefused(
            "no credentials, and this gateway has no keys",
            "this gateway has no API keys yet: make one with `attachment-gateway keys create`",
        )


@lru_cache(1000)
def _is_loopback(address: str) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def _is_jwt(text: str) -> bool:
    return text.count(".") == 2


def _refused(error: KeyRefused) -> CredentialsRefused:
    why = str(error)
    return CredentialsRefused(why) if why == "the key is unknown" else CredentialsRefused(why, why)
