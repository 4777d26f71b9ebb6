"""An OpenID provider on this machine: its configuration, its keys, and the sign-in of one person, who is `ada`."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from threading import Thread
from time import time
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import Key, KeySet, RSAKey

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

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                if urlsplit(self.path).path == "/authorize":
                    self.send_response(302)
                    self.send_header("Location", provider.authorized(dict(parse_qsl(urlsplit(self.path).query))))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                else:
                    self._answer(200, provider.document(self.path))

            def do_POST(self) -> None:
                form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                self._answer(*provider.issued(form))

            def _answer(self, status: int, content: Any) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"

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
    thread = Thread(target=provider.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.server.shutdown()
        provider.server.server_close()
        thread.join()
