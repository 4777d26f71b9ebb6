"""Who is served while there are no keys, and what is public."""

from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from app.model.principals import Scope
from app.service.access.api_keys import make_key
from app.web.access.operations import OPERATIONS
from app.web.app import create_app, routes
from tests.web.conftest import connected
from tests.web.stock import Stock, serving


@pytest.mark.parametrize(
    ("anonymous", "address", "status"),
    [
        ("this-machine", "127.0.0.1", 200),
        ("this-machine", "203.0.113.9", 401),
        ("everyone", "203.0.113.9", 200),
        ("nobody", "127.0.0.1", 401),
    ],
)
def test_without_any_key_only_this_machine_is_served(tmp_path: Path, anonymous: str, address: str, status: int) -> None:
    """A proxy on this machine tells the address of its client, which counts."""
    stock = Stock(tmp_path, http={"anonymous": anonymous})
    with connected(stock) as client:
        answer = client.get("/v1/attachments", headers={"X-Forwarded-For": address})
    stock.close()
    assert answer.status_code == status


def test_credentials_mean_nothing_while_there_are_none(tmp_path: Path) -> None:
    """Some clients always send some; this gateway would answer without them."""
    stock = Stock(tmp_path)
    with connected(stock) as client:
        for header in ("Bearer x", "Bearer agw_0123456789ab_x", "Basic eA=="):
            assert client.get("/v1/attachments", headers={"Authorization": header}).status_code == 200
    stock.close()


def test_a_first_key_ends_access_without_one(tmp_path: Path) -> None:
    stock = Stock(tmp_path, http={"anonymous": "everyone"})
    app = create_app(stock.gateway)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        assert client.get("/v1/attachments").status_code == 200
        key, _ = make_key("first", frozenset({Scope.READ}), 0)
        stock.catalog.add_key(key)
        stock.catalog.revoke_key(key.id, 1)
        app.state.authenticator.keys._read_at = None
        assert client.get("/v1/attachments").status_code == 401, "also when it was revoked"
    stock.close()


def test_what_is_public_is_set(tmp_path: Path) -> None:
    tokens = [sha256(b"t").hexdigest()]
    for public, statuses in (([], (401, 401, 401)), (["docs", "metrics", "health"], (200, 200, 200))):
        stock = Stock(tmp_path / str(len(public)), http={"tokens": tokens, "public": public})
        with connected(stock) as client:
            assert tuple(client.get(path).status_code for path in ("/docs", "/openapi.json", "/metrics")) == statuses
            assert ("checks" in client.get("/health/live").json()) == bool(public)
            assert client.get("/metrics", headers={"Authorization": "Bearer t"}).status_code == 200
        stock.close()


def test_a_route_that_nobody_could_check_is_an_error_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.web.app.OPERATIONS", {k: v for k, v in OPERATIONS.items() if k != "list_messages"})
    with pytest.raises(KeyError, match="list_messages"):
        routes(has_iceberg=False, has_mcp=False)
