"""An OpenID provider on this machine: its configuration, its keys, and the sign-in of one person, who is `ada`."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from secrets import token_urlsafe
from time import time
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import Key, KeySet, RSAKey

from tests.support.http_server import Handler, serving

AUDIENCE = "attachment-gateway"
CLIENT = "console"


class Provider:
    """An OpenID provider. Its attributes say what it does wrong, and it remembers what it was asked."""

    def __init__(self) -> None:
        self.keys: list[Key] = [RSAKey.generate_key(2048, {"kid": "one"})]
        self.other_issuer: str | None = None
        self.denial: str | None = None
        """Why it lets nobody sign in."""
        self.identity: dict[str, Any] = {}
        """Claims of ID tokens that differ from what they should be; None leaves one out."""
        self.status: int | None = None
        """The status of all answers of the token endpoint, if it fails."""
        self.asked: list[str] = []
        self.forms: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._refresh_token = ""
        provider = self

        class Endpoints(Handler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                if urlsplit(self.path).path == "/authorize":
                    back = provider.authorized(dict(parse_qsl(urlsplit(self.path).query)))
                    self.answer(302, headers={"Location": back})
                else:
                    self.answer(200, json.dumps(provider.document(self.path)).encode())

            def do_POST(self) -> None:
                status, content = provider.issued(dict(parse_qsl(self.body().decode())))
                self.answer(status, json.dumps(content).encode())

        self.endpoints = Endpoints
        self.issuer = ""

    def document(self, path: str) -> Any:
        if path == "/keys":
            return KeySet(self.keys).as_dict(private=False)
        return {
            "issuer": self.other_issuer or self.issuer,
            "jwks_uri": f"{self.issuer}/keys",
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
        }

    def authorized(self, asked: dict[str, str]) -> str:
        """Return where the person goes back to, who has signed in at once."""
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert (asked["code_challenge_method"], "openid" in asked["scope"].split()) == ("S256", True)
        code = token_urlsafe()
        self._codes[code] = asked
        told = {"error": "access_denied", "error_description": self.denial} if self.denial else {"code": code}
        return f"{asked['redirect_uri']}?{urlencode(told | {'state': asked['state']})}"

    def issued(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Return the answer of the token endpoint."""
        self.forms.append(form)
        if self.status is not None:
            return self.status, {}
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] != self._refresh_token:
                return 400, {"error": "invalid_grant"}
            return 200, self._tokens()
        asked = self._codes.pop(form["code"], None)
        challenge = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if asked is None or (challenge, form["redirect_uri"]) != (asked["code_challenge"], asked["redirect_uri"]):
            return 400, {"error": "invalid_grant", "error_description": "the code is not yours"}
        claims: dict[str, Any] = {"aud": CLIENT, "nonce": asked["nonce"]} | self.identity
        return 200, self._tokens() | {"id_token": self.token(**claims)}

    def end_sessions(self) -> None:
        """Accept no refresh token any more."""
        self._refresh_token = ""

    def _tokens(self) -> dict[str, Any]:
        self._refresh_token = token_urlsafe()
        return {
            "access_token": self.token(jti=token_urlsafe()),
            "token_type": "Bearer",
            "expires_in": 300,
            "refresh_token": self._refresh_token,
        }

    def token(self, key: Key | None = None, header: dict[str, str] | None = None, **claims: Any) -> str:
        """A token with the first key, or another."""
        now = int(time())
        usual = {"iss": self.issuer, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 300, "scope": "read"}
        said = {name: value for name, value in (usual | claims).items() if value is not None}
        signing = key or self.keys[0]
        algorithm = {"RSA": "RS256", "EC": "ES256"}[signing.key_type]
        head = {"alg": algorithm, "kid": "one", "typ": "at+jwt"} | (header or {})
        return jwt.encode(head, said, signing, algorithms=[head["alg"]])


@contextmanager
def running_provider() -> Iterator[Provider]:
    """A provider, for the block."""
    provider = Provider()
    with serving(provider.endpoints) as port:
        provider.issuer = f"http://127.0.0.1:{port}"
        yield provider
