"""Access tokens of an OpenID provider: those that are accepted, and every way to be refused."""

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from joserfc.jwk import ECKey, Key, RSAKey

from app.service.access import oidc
from app.settings import Oidc
from app.web.app import create_app
from tests.support.openid_provider import AUDIENCE, CLIENT, Provider, running_provider
from tests.web.stock import Stock, serving


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@contextmanager
def accepting(folder: Path, provider: Provider, **settings: Any) -> Iterator[httpx.Client]:
    stock = Stock(folder, oidc={"issuer": provider.issuer, "audience": AUDIENCE, **settings})
    with serving(create_app(stock.gateway)) as address, httpx.Client(base_url=address, timeout=60) as client:
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


class Signer:
    """Makes tokens of the provider with any bytes as their claims, by another library than the gateway's."""

    def __init__(self, provider: Provider) -> None:
        key = provider.keys[0]
        assert isinstance(key, RSAKey)
        private = load_pem_private_key(key.as_pem(private=True), None)
        assert isinstance(private, RSAPrivateKey)
        self._private = private

    def __call__(self, said: bytes, head: bytes = b'{"alg":"RS256","kid":"one","typ":"at+jwt"}') -> str:
        given = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in (head, said))
        signature = self._private.sign(given, padding.PKCS1v15(), hashes.SHA256())
        return b".".join((given, urlsafe_b64encode(signature).rstrip(b"="))).decode()


NUMBERS = [
    *("-1", "0", "-0", "1", "253402300799", "253402300800", "1e12", "1099511627776", "1e18", "9" * 30, "9" * 400),
    *("9" * 5000, "1e308", "-1e308", "1e400", "-1e400", "NaN", "Infinity", "-Infinity", "1.5", "-1.5e-300"),
    *("true", "null", '"1"', "[]", "{}", "[1e400]"),
]


def test_no_number_or_text_of_a_token_is_an_error_of_the_gateway(tmp_path: Path, provider: Provider) -> None:
    now, signed = int(time()), Signer(provider)
    usual = {"iss": f'"{provider.issuer}"', "aud": f'"{AUDIENCE}"', "sub": '"ada"', "scope": '"admin"'}
    usual |= {"iat": str(now), "exp": str(now + 300), "sources": '["a"]'}

    def token(**claims: str) -> str:
        return signed(("{" + ",".join(f'"{k}":{v}' for k, v in (usual | claims).items()) + "}").encode())

    with accepting(tmp_path, provider, sources_claim="sources") as client:
        for name in ("exp", "nbf", "iat", "sub", "sources", "other"):
            for number in NUMBERS:
                given = get(client, token(**{name: number}), "/v1/caller")
                assert given.status_code in (200, 401), (name, number[:40], given.text)
        for late in ("253402300800", "1e18", "9" * 400):
            caller = get(client, token(exp=late), "/v1/caller").json()
            assert caller["expires_at"] == "9999-12-31T23:59:59Z"
        for refused in ("1e400", "NaN", "Infinity", "true", "-1", "-1e308"):
            assert get(client, token(exp=refused), "/v1/caller").status_code == 401
        deep = "[" * 9000
        for odd in ({"sub": '"\\ud800"'}, {"sources": '["\\udfff"]'}, {"other": deep}):
            assert get(client, token(**odd), "/v1/caller").status_code == 401
        # How deep the JSON of a token may be, the version of Python decides.
        assert get(client, token(other=deep + "]" * 9000), "/v1/caller").status_code in (200, 401)
        for head in (
            b"[" * 300,
            b"[" * 9000,
            b'{"alg":' + b"[" * 400,
            b"\xff",
            b'{"alg":"RS256","kid":"\\ud800"}',
            b"1",
        ):
            given = get(client, signed(b"{}", head), "/v1/caller")
            assert given.status_code == 401, given.text


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


PAGE = "https://gateway.example/console/"
VERIFIER = "v" * 43


def code_of(provider: Provider) -> str:
    """A code for the page, whose verifier is VERIFIER and whose nonce is `n`."""
    asked = {"response_type": "code", "client_id": CLIENT, "redirect_uri": PAGE, "scope": "openid", "state": "s"}
    challenge = urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
    back = provider.authorized(asked | {"nonce": "n", "code_challenge": challenge, "code_challenge_method": "S256"})
    return parse_qs(urlsplit(back).query)["code"][0]


def test_a_code_is_exchanged_for_tokens_and_nothing_of_it_is_kept(tmp_path: Path, provider: Provider) -> None:
    settings = {"client_id": CLIENT, "sign_in_scopes": ["openid", "files"], "sign_in_parameters": {"prompt": "login"}}
    with accepting(tmp_path, provider, **settings) as client:
        assert client.get("/v1/sign-in").json() == {
            "oidc": {
                "authorization_endpoint": f"{provider.issuer}/authorize",
                "client_id": CLIENT,
                "scope": "openid files",
                "parameters": {"prompt": "login"},
            }
        }
        code = code_of(provider)
        draft = {"code": code, "code_verifier": VERIFIER, "redirect_uri": PAGE, "nonce": "n"}
        answer = client.post("/v1/sign-in", json=draft)
        tokens = answer.json()
        assert (answer.status_code, answer.headers["cache-control"], tokens["expires_in"]) == (200, "no-store", 300)
        assert get(client, tokens["access_token"]).status_code == 200
        renewed = client.post("/v1/sign-in", json={"refresh_token": tokens["refresh_token"]}).json()
        assert get(client, renewed["access_token"]).status_code == 200
        assert renewed["access_token"] != tokens["access_token"]
        assert provider.forms[-1]["client_id"] == CLIENT

        def refused(**changed: Any) -> str:
            answer = client.post("/v1/sign-in", json=draft | {"code": code_of(provider)} | changed)
            assert (answer.status_code, answer.json()["type"]) == (400, "/problems/sign-in-refused")
            return str(answer.json()["detail"])

        assert refused(code=code) == "the OpenID provider refuses: invalid_grant: the code is not yours"
        assert "not yours" in refused(code_verifier="w" * 43)
        assert "not yours" in refused(redirect_uri="https://evil.example/")
        assert refused(nonce="other") == "the ID token belongs to another sign-in: its nonce differs"
        wrongs: list[dict[str, Any]] = [
            {"aud": AUDIENCE},
            {"nonce": None},
            {"iss": "https://evil.example"},
            {"exp": 1},
            {"azp": "x"},
        ]
        for wrong in wrongs:
            provider.identity = wrong
            assert refused().startswith("the ID token")
        provider.identity = {}
        again = client.post("/v1/sign-in", json={"refresh_token": tokens["refresh_token"]})
        assert again.status_code == 400, "it was used before"
        invalids: list[dict[str, Any]] = [
            {},
            {"code": code},
            draft | {"refresh_token": "x"},
            draft | {"code_verifier": "short"},
        ]
        for invalid in invalids:
            assert client.post("/v1/sign-in", json=invalid).status_code == 422
        provider.status = 500
        assert client.post("/v1/sign-in", json=draft).json()["type"] == "/problems/provider-unavailable"
        provider.status = None
        boss = provider.token(scope="admin", sub="boss")
        entries = get(client, boss, "/v1/audit?action=sign-in&limit=100").json()["items"]
        assert {"done", "failed"} == {entry["result"] for entry in entries}
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in (code, VERIFIER, tokens["access_token"], tokens["refresh_token"], renewed["refresh_token"]):
        assert secret.encode() not in kept


def test_nobody_signs_in_where_that_is_not_set_up(tmp_path: Path, provider: Provider) -> None:
    with accepting(tmp_path / "no client", provider) as client:
        assert client.get("/v1/sign-in").json() == {"oidc": None}
        assert client.post("/v1/sign-in", json={"refresh_token": "x"}).status_code == 404
    provider.other_issuer = "https://other.example"
    try:
        with accepting(tmp_path / "other", provider, client_id=CLIENT) as client:
            for answer in (client.get("/v1/sign-in"), client.post("/v1/sign-in", json={"refresh_token": "x"})):
                assert (answer.status_code, answer.json()["type"]) == (503, "/problems/provider-unavailable")
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
        {"client_id": ""},
        {"client_id": "a", "sign_in_scopes": []},
    ],
)
def test_unsafe_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Oidc(**{"issuer": "https://login.example", "audience": "a", **wrong})
