"""Access tokens of an OpenID provider: JSON Web Tokens, verified with the keys that the provider publishes.

Sources: RFC 7519 (JSON Web Token), RFC 8725 (best practices), RFC 9068 (access tokens), OpenID Connect Discovery 1.0.
"""

import json
from collections.abc import Mapping, Sequence
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

import httpx
from joserfc import jws, jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwk import KeySet

from app.model.errors import GatewayError
from app.model.principals import Principal, Scope
from app.observe import Recurring, logger
from app.ports import Clock
from app.settings import Oidc

TIMEOUT_SECONDS = 5.0
LARGEST = 1 << 20
"""The maximum size of an answer."""


class ProviderAnswer(NamedTuple):
    """An answer of the provider."""

    status: int
    content: dict[str, Any]


def fetch_json(url: str) -> dict[str, Any]:
    """Return a JSON object at a URL. Raises GatewayError."""
    answer = _answer("GET", url)
    if not 200 <= answer.status < 300:
        raise GatewayError(f"{url} cannot be read: it answers with status {answer.status}")
    return answer.content


def post_form(url: str, form: Mapping[str, str]) -> ProviderAnswer:
    """Send a form, and return the answer, whatever its status. Raises GatewayError."""
    return _answer("POST", url, form)


def _answer(method: str, url: str, form: Mapping[str, str] | None = None) -> ProviderAnswer:
    headers = {"Accept": "application/json"}
    try:
        with httpx.stream(method, url, data=form, timeout=TIMEOUT_SECONDS, headers=headers) as response:
            body = b""
            for piece in response.iter_bytes():
                body += piece
                if len(body) > LARGEST:
                    raise GatewayError(f"{url} has more than {LARGEST} bytes")
        found = httpx.Response(200, content=body).json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise GatewayError(f"{url} cannot be read: {error or type(error).__name__}") from error
    if not isinstance(found, dict):
        raise GatewayError(f"{url} is not a JSON object")
    return ProviderAnswer(response.status_code, found)


LEEWAY_SECONDS = 30
"""The tolerated difference between the clocks of the provider and the gateway."""
KEEP_SECONDS = 3600.0
"""How long the provider's keys are used before they are fetched again."""
PAUSE_SECONDS = 30.0
"""The time between two fetches, whatever tokens come: anybody can send one with an unknown key."""
_LATEST = 253_402_300_799
"""The last second of the year 9999, in seconds since 1970: no later time can be told."""

_UNREADABLE = (JoseError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""What the library raises for tokens and keys that somebody made up."""

log = logger(__name__)


def discovered(issuer: str, names: Sequence[str]) -> list[str]:
    """Return the URLs of these names from the configuration that a provider publishes. Raises GatewayError."""
    described = fetch_json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    found = [described.get(name) for name in names]
    if described.get("issuer") != issuer or not all(isinstance(each, str) for each in found):
        raise GatewayError(f"the configuration of {issuer} names another issuer, or lacks {' or '.join(names)}")
    schemes = ("https://",) if issuer.startswith("https://") else ("https://", "http://")
    if not all(str(each).startswith(schemes) for each in found):
        raise GatewayError(f"the configuration of {issuer} has a {' or '.join(names)} that is not https")
    return [str(each) for each in found]


class TokenRefused(Exception):
    """A token that is not accepted. `told` is what its sender may know."""

    def __init__(self, reason: str, told: str = "the access token is not accepted") -> None:
        super().__init__(reason)
        self.told = told


class AccessTokens:
    """Verifies the access tokens of one provider. `_fetching` guards the writing of `_keys` and of the times of
    fetching."""

    def __init__(self, settings: Oidc, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._keys: KeySet | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching = Lock()
        self._fault = Recurring(log, "oidc_keys", issuer=settings.issuer)

    def lacks_key(self, text: str) -> bool:
        """Tell whether `refresh` may bring the key of a token."""
        now = monotonic()
        if now - self._tried_at < PAUSE_SECONDS:
            return False
        if self._keys is None or now - self._fetched_at > KEEP_SECONDS:
            return True
        try:
            named = jws.extract_compact(text.encode()).headers().get("kid")
        except _UNREADABLE:
            return False  # it is no token, which no fetch helps
        keys = self._keys.keys
        return not any(key.kid == named for key in keys) and not (named is None and len(keys) == 1)

    def refresh(self) -> None:
        """Fetch the provider's keys, unless that was done just now. Faults are logged; the old keys stay.

        Blocks. While another thread fetches, only those without any keys wait for it.
        """
        if not self._fetching.acquire(blocking=self._keys is None):
            return
        try:
            if monotonic() - self._tried_at < PAUSE_SECONDS:
                return
            settings = self._settings
            try:
                url = settings.jwks_url
                if url is None:
                    (url,) = discovered(settings.issuer, ["jwks_uri"])
                # A symmetric key is never published: who could read it could sign with it.
                given = [key for key in fetch_json(url)["keys"] if key.get("kty") != "oct"]
                self._keys = KeySet.import_key_set({"keys": given})
            except GatewayError as error:
                self._fault.failed(error)
            except _UNREADABLE as error:
                self._fault.failed(f"the keys of {settings.issuer} cannot be read: {_why(error)}")
            else:
                self._fetched_at = monotonic()
                self._fault.worked()
            self._tried_at = monotonic()
        finally:
            self._fetching.release()

    def principal(self, text: str) -> Principal:
        """Return the principal of an access token. Raises TokenRefused."""
        settings = self._settings
        claims = self.claims(text, settings.audience)
        name = claims.get(settings.name_claim)
        if not isinstance(name, str) or not name:
            raise TokenRefused(f"the access token has no claim {settings.name_claim!r}")
        known = settings.scopes or {scope.value: [scope] for scope in Scope}
        granted = {scope for word in _words(claims.get(settings.scope_claim)) for scope in known.get(word, [])}
        return Principal(
            kind="oidc",
            name=name,
            scopes=frozenset(granted),
            id=str(claims.get("sub", "")),
            sources=_limit(claims, settings.sources_claim),
            destinations=_limit(claims, settings.destinations_claim),
            expires_at=int(min(claims["exp"], _LATEST)) * 1_000_000,
        )

    def claims(self, text: str, audience: str, what: str = "access token") -> dict[str, Any]:
        """Return the claims of a token of the provider for an audience; `what` names the token in errors.

        Raises TokenRefused.
        """
        if self._keys is None:
            raise TokenRefused("the keys of the OpenID provider could not be fetched")
        try:
            token = jwt.decode(text, self._keys, algorithms=self._settings.algorithms)
            claims = token.claims
            jwt.JWTClaimsRegistry(
                now=self._clock.now() // 1_000_000,
                leeway=LEEWAY_SECONDS,
                iss={"essential": True, "value": self._settings.issuer},
                aud={"essential": True, "value": audience},
                exp={"essential": True},
            ).validate(claims)
            # What names and limits come from must be text that a response can carry, and every number finite.
            json.dumps(claims, ensure_ascii=False, allow_nan=False).encode()
        except ExpiredTokenError:
            raise TokenRefused(f"the {what} has expired", f"the {what} has expired") from None
        except _UNREADABLE as error:
            raise TokenRefused(f"the {what} is not accepted: {_why(error)}") from None
        return claims


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__


def _words(claim: Any) -> list[str]:
    """Return the values of a claim: of a list, or of a text with spaces between them (RFC 8693)."""
    if isinstance(claim, str):
        return claim.split()
    return [each for each in claim if isinstance(each, str)] if isinstance(claim, list) else []


def _limit(claims: dict[str, Any], name: str | None) -> frozenset[str] | None:
    return None if name is None else frozenset(_words(claims.get(name)))
