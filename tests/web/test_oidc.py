"""Access tokens of an OpenID provider: those that are accepted, and every way to be refused."""

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import time
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, Key, KeySet, RSAKey

from app.service.access import oidc
from app.settings import Oidc
from app.web.api import create_app
from tests.web.stock import Stock, serving

AUDIENCE = "attachment-gateway"


class Provider:
    """An OpenID provider: its configuration, and its public keys."""

    def __init__(self) -> None:
        self.keys: list[Key] = [RSAKey.generate_key(2048, {"kid": "one"})]
        self.other_issuer: str | None = None
        self.asked: list[str] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                body = json.dumps(provider.document(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"

    def document(self, path: str) -> Any:
        if path == "/keys":
            return KeySet(self.keys).as_dict(private=False)
        return {"issuer": self.other_issuer or self.issuer, "jwks_uri": f"{self.issuer}/keys"}

    def token(self, key: Key | None = None, header: dict[str, str] | None = None, **claims: Any) -> str:
        """A token with the first key, or another."""
        now = int(time())
        usual = {"iss": self.issuer, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 300, "scope": "read"}
        said = {name: value for name, value in (usual | claims).items() if value is not None}
        signing = key or self.keys[0]
        algorithm = {"RSA": "RS256", "EC": "ES256"}[signing.key_type]
        head = {"alg": algorithm, "kid": "one", "typ": "at+jwt"} | (header or {})
        return jwt.encode(head, said, signing, algorithms=[head["alg"]])


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    thread = Thread(target=provider.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield provider
    provider.server.shutdown()
    provider.server.server_close()
    thread.join()


@contextmanager
def accepting(folder: Path, provider: Provider, **settings: Any) -> Iterator[httpx.Client]:
    stock = Stock(folder, oidc={"issuer": provider.issuer, "audience": AUDIENCE, **settings})
    with serving(create_app(stock.gateway)) as address, httpx.Client(base_url=address) as client:
        yield client
    stock.close()


def get(client: httpx.Client, token: str, path: str = "/v1/attachments") -> httpx.Response:
    return client.get(path, headers={"Authorization": f"Bearer {token}"})


def unsigned(token: str) -> str:
    """The token with `alg: none`, and no signature."""
    _, claims, _ = token.split(".")
    head = urlsafe_b64encode(b'{"alg":"none","kid":"one"}').rstrip(b"=").decode()
    return f"{head}.{claims}."


def forged(token: str) -> str:
    """The token with another claim under the old signature."""
    head, claims, signature = token.split(".")
    said = json.loads(urlsafe_b64decode(claims + "=="))
    changed = urlsafe_b64encode(json.dumps(said | {"sub": "eve"}).encode()).rstrip(b"=").decode()
    return f"{head}.{changed}.{signature}"


def signed_by_public_key(token: str, key: Key) -> str:
    """The token with `alg: HS256`, with the public key, which everybody has, as the secret."""
    assert isinstance(key, RSAKey)
    _, claims, _ = token.split(".")
    head = urlsafe_b64encode(b'{"alg":"HS256","kid":"one"}').rstrip(b"=").decode()
    code = hmac.digest(key.as_pem(private=False), f"{head}.{claims}".encode(), "sha256")
    return f"{head}.{claims}.{urlsafe_b64encode(code).rstrip(b'=').decode()}"


def test_tokens_that_are_accepted_and_those_that_are_not(tmp_path: Path, provider: Provider) -> None:
    now = int(time())
    stranger = RSAKey.generate_key(2048, {"kid": "one"})
    good = provider.token()
    accepted = [
        good,
        provider.token(aud=["other", AUDIENCE]),
        provider.token(exp=now - 5),
        provider.token(nbf=now + 5),
        provider.token(header={"typ": "JWT"}),
    ]
    refused = {
        "another issuer": provider.token(iss="https://evil.example"),
        "no issuer": provider.token(iss=None),
        "another audience": provider.token(aud="other"),
        "no audience": provider.token(aud=None),
        "expired": provider.token(exp=now - 60),
        "no end": provider.token(exp=None),
        "not yet": provider.token(nbf=now + 120),
        "alg: none": unsigned(good),
        "swapped key": provider.token(stranger),
        "signed with the public key as a secret": signed_by_public_key(good, provider.keys[0]),
        "another algorithm": provider.token(header={"alg": "RS512"}),
        "forged": forged(good),
        "cut": good[:-4],
        "nobody": provider.token(sub=None),
        "claims of no sense": provider.token(exp="soon"),
        "no token": "a.b.c",
    }
    with accepting(tmp_path, provider) as client:
        for token in accepted:
            assert get(client, token).status_code == 200
        for why, token in refused.items():
            answer = get(client, token)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer error="invalid_token"'), (
                why
            )
            assert answer.json()["detail"] in ("the access token is not accepted", "the access token has expired")
        admin = provider.token(scope="admin", sub="boss")
        entries = get(client, admin, "/v1/audit?action=sign-in&limit=100").json()["items"]
        assert len(entries) == len(refused)
        assert all(entry["result"] == "refused" and entry["reason"] and entry["who"] is None for entry in entries)
        assert get(client, admin, "/v1/audit").json()["items"][0]["who"] == {
            "kind": "oidc",
            "name": "boss",
            "id": "boss",
        }
    assert provider.asked.count("/keys") == 1, "the keys are kept, whatever tokens come"


def test_claims_become_scopes_and_limits(tmp_path: Path, provider: Provider) -> None:
    settings = {
        "name_claim": "client_id",
        "scope_claim": "roles",
        "scopes": {"gateway-reader": ["read"], "gateway-operator": ["read", "operate"]},
        "sources_claim": "sources",
        "destinations_claim": "destinations",
    }
    with accepting(tmp_path, provider, **settings) as client:
        limited = provider.token(client_id="etl", roles=["gateway-reader", "x"], sources="orders", destinations=[])
        assert get(client, limited).json()["items"] == []
        assert get(client, limited, "/metrics").status_code == 403
        assert client.delete("/v1/attachments/x", headers={"Authorization": f"Bearer {limited}"}).status_code == 403
        assert get(client, provider.token(client_id="etl", roles="read")).status_code == 403, "it is not in `scopes`"
        assert get(client, provider.token(roles="gateway-reader")).status_code == 401, "it has no name"


def test_a_new_key_of_the_provider_is_fetched_but_not_for_every_token(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = ECKey.generate_key("P-256", {"kid": "two"})
    with accepting(tmp_path, provider, algorithms=["RS256", "ES256"]) as client:
        assert get(client, provider.token()).status_code == 200
        provider.keys.append(new)
        asked = len(provider.asked)
        token = provider.token(new, header={"kid": "two"})
        assert get(client, token).status_code == 401, "it was fetched just now"
        assert len(provider.asked) == asked
        monkeypatch.setattr(oidc, "PAUSE_SECONDS", 0.0)
        assert get(client, token).status_code == 200
        assert len(provider.asked) == asked + 2
    provider.keys.remove(new)


def test_the_description_names_the_provider(tmp_path: Path, provider: Provider) -> None:
    with accepting(tmp_path, provider) as client:
        described = client.get("/openapi.json").json()
        assert described["components"]["securitySchemes"]["OpenIdConnect"] == {
            "type": "openIdConnect",
            "openIdConnectUrl": f"{provider.issuer}/.well-known/openid-configuration",
        }
        deleting = described["paths"]["/v1/attachments/{attachment_id}"]["delete"]
        assert deleting["security"] == [{"HTTPBearer": ["delete"]}, {"OpenIdConnect": ["delete"]}]
        assert client.get("/v1/attachments").status_code == 401, "with a provider, nobody is served without a token"


def test_a_provider_that_says_nonsense_lets_nobody_in(tmp_path: Path, provider: Provider) -> None:
    provider.other_issuer = "https://other.example"
    try:
        with accepting(tmp_path, provider) as client:
            assert get(client, provider.token()).status_code == 401
            assert client.get("/health/live").status_code == 200
    finally:
        provider.other_issuer = None


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "http://login.example"},
        {"issuer": "login.example"},
        {"algorithms": ["HS256"]},
        {"algorithms": ["none"]},
        {"algorithms": []},
        {"jwks_url": "file:///etc/keys"},
        {"audience": ""},
    ],
)
def test_unsafe_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Oidc(**{"issuer": "https://login.example", "audience": "a", **wrong})
