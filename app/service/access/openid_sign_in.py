"""Signing in of people at the OpenID provider: authorization code with PKCE, for a public client.

A page sends its reader to the provider, who comes back with a code. The gateway exchanges the code at the provider's
token endpoint, because a page need not be allowed to call other hosts; it keeps nothing of that. Who sends a code must
have its verifier, so a code that somebody else has seen is of no use.

Sources: RFC 6749 (OAuth 2.0), RFC 7636 (PKCE), RFC 9700 (best practices), OpenID Connect Core 1.0 and Discovery 1.0.
"""

from collections.abc import Mapping
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import Any, NamedTuple

from app.model.errors import GatewayError
from app.observe import Recurring, logger
from app.service.access.oidc import (
    KEEP_SECONDS,
    PAUSE_SECONDS,
    AccessTokens,
    TokenRefused,
    discovered,
    post_form,
)
from app.settings import Oidc

AT_ONCE = 8
"""The most exchanges at the same time: each waits for the provider."""
_LONGEST_REASON = 300
"""The most characters of the provider's reason that are passed on."""

log = logger(__name__)


class SignInRefused(Exception):
    """The provider has not accepted a code or a refresh token, or what it sent is not what was asked for."""


class SignInBusy(Exception):
    """As many exchanges as are allowed at the same time wait for the provider."""


class Endpoints(NamedTuple):
    """Where the provider lets people sign in, and where it exchanges codes."""

    authorization: str
    token: str


class Tokens(NamedTuple):
    """The tokens that the provider issued. `expires_in` is in seconds, if the provider says it."""

    access_token: str
    expires_in: int | None
    refresh_token: str | None


class SignIn:
    """Signs people in at one provider, as the client `client_id` of its settings. Its methods block. `_fetching` guards
    `_endpoints` and the times of fetching."""

    def __init__(self, settings: Oidc, tokens: AccessTokens) -> None:
        assert settings.client_id is not None
        self.settings, self._client_id = settings, settings.client_id
        self._tokens = tokens
        self._endpoints: Endpoints | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching = Lock()
        self._exchanging = BoundedSemaphore(AT_ONCE)
        self._fault = Recurring(log, "oidc_discovery", issuer=settings.issuer)

    def endpoints(self) -> Endpoints:
        """Return the provider's endpoints, from its configuration, which is fetched at most every hour.

        Raises GatewayError if they are not known.
        """
        with self._fetching:
            now = monotonic()
            if now - self._fetched_at > KEEP_SECONDS and now - self._tried_at > PAUSE_SECONDS:
                self._tried_at = now
                try:
                    issuer, names = self.settings.issuer, ("authorization_endpoint", "token_endpoint")
                    self._endpoints = Endpoints(*discovered(issuer, names))
                except GatewayError as error:
                    self._fault.failed(error)
                else:
                    self._fetched_at = now
                    self._fault.worked()
            if self._endpoints is None:
                raise GatewayError("the configuration of the OpenID provider could not be read; see the gateway's log")
            return self._endpoints

    def exchange(self, code: str, verifier: str, redirect_uri: str, nonce: str) -> Tokens:
        """Return the tokens for a code, with the verifier of its challenge, the page to which it was sent, and the
        nonce that the ID token must have.

        Raises SignInRefused, SignInBusy and GatewayError.
        """
        form = {"code": code, "code_verifier": verifier, "redirect_uri": redirect_uri}
        content = self._issued("authorization_code", form)
        id_token = content.get("id_token")
        if not isinstance(id_token, str):
            raise SignInRefused("the OpenID provider has sent no ID token: is `openid` among `oidc.sign_in_scopes`?")
        if self._tokens.lacks_key(id_token):
            self._tokens.refresh()
        try:
            claims = self._tokens.claims(id_token, self._client_id, "ID token")
        except TokenRefused as error:
            raise SignInRefused(str(error)) from None
        if claims.get("azp", self._client_id) != self._client_id:
            raise SignInRefused("the ID token was issued to another client")
        if claims.get("nonce") != nonce:
            raise SignInRefused("the ID token belongs to another sign-in: its nonce differs")
        return _tokens(content)

    def renew(self, refresh_token: str) -> Tokens:
        """Return new tokens. The refresh token stays valid if there is no new one. Raises as `exchange`."""
        return _tokens(self._issued("refresh_token", {"refresh_token": refresh_token}))

    def _issued(self, grant: str, form: Mapping[str, str]) -> dict[str, Any]:
        url = self.endpoints().token
        if not self._exchanging.acquire(blocking=False):
            raise SignInBusy(f"{AT_ONCE} others are signing in just now")
        try:
            answer = post_form(url, {"grant_type": grant, "client_id": self._client_id, **form})
        finally:
            self._exchanging.release()
        if answer.status == 200:
            return answer.content
        if answer.status >= 500:
            raise GatewayError(f"the token endpoint of the OpenID provider answers with status {answer.status}")
        told = (answer.content.get("error"), answer.content.get("error_description"))
        reason = ": ".join(each for each in told if isinstance(each, str))[:_LONGEST_REASON]
        raise SignInRefused(f"the OpenID provider refuses: {reason or f'status {answer.status}'}")


def _tokens(content: Mapping[str, Any]) -> Tokens:
    access, seconds, refresh = (content.get(name) for name in ("access_token", "expires_in", "refresh_token"))
    if not isinstance(access, str) or not access:
        raise SignInRefused("the OpenID provider has sent no access token")
    return Tokens(
        access,
        seconds if isinstance(seconds, int) and seconds >= 0 else None,
        refresh if isinstance(refresh, str) else None,
    )
