"""Without keys, no request is served that a page of another site may have sent; `Host` is checked with keys, too."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from app.model.principals import Scope
from app.service.access.api_keys import make_key
from app.settings import Http
from app.web.app import create_app
from tests.web.conftest import connected
from tests.web.operations import Everything, everything
from tests.web.stock import Stock

CROSS_ORIGIN = "/problems/cross-origin"
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:60.0) Gecko/20100101 Firefox/60.0"}
FORM = "multipart/form-data; boundary=b"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    with everything(tmp_path_factory.mktemp("everything")) as world:
        yield world


@pytest.fixture
def client(world: Everything) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=world.address, timeout=30) as client:
        yield client


def told(answer: httpx.Response) -> tuple[int, str | None, str | None]:
    problem = answer.json()
    return answer.status_code, problem["type"], problem.get("setting")


@pytest.mark.parametrize(
    ("headers", "setting"),
    [
        ({"Host": "evil.example"}, "http.hosts"),
        ({"Origin": "https://evil.example"}, "http.cors_origins"),
        ({"Origin": "null"}, "http.cors_origins"),
        ({"Origin": "http://127.0.0.1:1"}, "http.cors_origins"),
        ({"Sec-Fetch-Site": "cross-site"}, "http.cors_origins"),
        ({"Sec-Fetch-Site": "same-site"}, "http.cors_origins"),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, None),
        ({"Authorization": "Bearer x", "Host": "evil.example"}, "http.hosts"),
        ({"Authorization": "Bearer x", "Origin": "https://evil.example"}, "http.cors_origins"),
    ],
)
def test_no_operation_is_served_to_a_page_of_another_site(
    world: Everything, client: httpx.Client, headers: dict[str, str], setting: str | None
) -> None:
    before = world.state()
    for operation in world.operations:
        sent = {"Content-Type": "application/json", **headers}
        answer = client.request(operation.method, operation.path, headers=sent, content=operation.body)
        assert answer.status_code == 403, operation
        assert answer.headers["content-type"] == "application/problem+json"
        if operation.method != "HEAD":
            problem = answer.json()
            assert (problem["type"], problem["setting"]) == (CROSS_ORIGIN, setting or "http.cors_origins")
            assert problem["setting"] in problem["detail"]
    assert len(world.operations) > 70
    assert world.state() == before


OWN = """localhost LocalHost:1 localhost. console.localhost:80 127.0.0.1 127.9.9.9:8 [::1]:8080 [::ffff:127.0.0.1]
gateway.example GATEWAY.example.:99 a.b.wild.example [FD00:0::1]:8080"""
FOREIGN = """evil.example
wild.example xwild.example 127.0.0.1.evil.example localhost.evil.example evil.example:localhost
localhost@evil.example localhost:80@evil.example 0.0.0.0 10.1.2.3 [::2] [::1 localhost,evil.example localhost..
notlocalhost"""


@pytest.mark.parametrize("host", OWN.split())
def test_names_of_this_machine_and_those_that_are_set_are_accepted(client: httpx.Client, host: str) -> None:
    assert client.get("/v1/attachments", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["", "localhost evil.example", *FOREIGN.split()])
def test_other_names_are_refused(client: httpx.Client, host: str) -> None:
    assert told(client.get("/v1/attachments", headers={"Host": host})) == (403, CROSS_ORIGIN, "http.hosts")


def test_a_request_without_a_host_is_refused(world: Everything) -> None:
    with socket.create_connection(("127.0.0.1", world.port), 30) as connection:
        connection.sendall(b"GET /v1/attachments HTTP/1.0\r\n\r\n")
        with connection.makefile("rb") as answer:
            assert b" 403 " in answer.readline()


def test_only_pages_without_data_open_by_a_link_of_another_site(client: httpx.Client) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    opened = {path: client.get(path, headers=link).status_code for path in ("/", "/console/", "/docs", "/problems")}
    assert opened == {"/": 200, "/console/": 200, "/docs": 200, "/problems": 200}
    for path in ("/v1/attachments", "/openapi.json", "/metrics", "/console/main.js"):
        assert client.get(path, headers=link).status_code == 403, path
    assert client.get("/docs", headers={**link, "Sec-Fetch-Dest": "iframe"}).status_code == 403


@pytest.mark.parametrize("content_type", ["text/plain", "TEXT/plain;charset=x", "application/x-www-form-urlencoded"])
def test_texts_of_forms_need_a_proof(client: httpx.Client, content_type: str) -> None:
    for headers in ({}, BROWSER, {"Authorization": "Bearer x"}, {"Sec-Fetch-Site": "none"}):
        sent = {"Content-Type": content_type, **headers}
        answer = client.post("/v1/quarantine/dismiss", content='{"ids": []}', headers=sent)
        assert told(answer) == (403, CROSS_ORIGIN, None)
        assert "X-Requested-With" in answer.json()["detail"]
    for proof in ({"X-Requested-With": "x"}, {"Origin": str(client.base_url).rstrip("/")}, {"Idempotency-Key": "1"}):
        sent = {"Content-Type": content_type, **BROWSER, **proof}
        answer = client.post("/v1/quarantine/dismiss", content='{"ids": []}', headers=sent)
        assert answer.json()["type"] != CROSS_ORIGIN, proof


@pytest.mark.parametrize("content_type", [FORM, None], ids=["multipart", "none"])
def test_forms_of_files_need_a_proof_of_browsers_alone(client: httpx.Client, content_type: str | None) -> None:
    kind = {} if content_type is None else {"Content-Type": content_type}
    proofs: list[dict[str, str]] = [{"X-Requested-With": "console"}, {"Sec-Fetch-Site": "same-origin"}]
    for headers in (BROWSER, {"Sec-Fetch-Site": "none"}):
        answer = client.post("/v1/messages?dry_run=true", content=b"--b--", headers={**kind, **headers})
        assert told(answer) == (403, CROSS_ORIGIN, None)
    for headers in ({}, *({**BROWSER, **proof} for proof in proofs)):
        answer = client.post("/v1/messages?dry_run=true", content=b"--b--", headers={**kind, **headers})
        assert answer.json()["type"] != CROSS_ORIGIN, headers


def test_pages_of_configured_origins_may_call_without_keys(tmp_path: Path) -> None:
    stock = Stock(tmp_path, http={"cors_origins": ["https://console.example"]})
    with connected(stock) as client:
        page = {"Origin": "https://console.example", "Sec-Fetch-Site": "cross-site"}
        answer = client.get("/v1/attachments", headers=page)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, page["Origin"])
        assert client.get("/v1/attachments", headers={**page, "Origin": "https://evil.example"}).status_code == 403
        assert client.get("/v1/attachments", headers={**page, "Host": "evil.example"}).status_code == 403
    stock.close()


def test_host_is_checked_with_keys_if_names_are_set(tmp_path: Path) -> None:
    for hosts in ([], ["gateway.example"]):
        stock = Stock(tmp_path / str(len(hosts)), http={"hosts": hosts})
        key, text = make_key("first", frozenset(Scope), 0)
        stock.catalog.add_key(key)
        with connected(stock) as client:

            def status(path: str, host: str, client: httpx.Client = client, text: str = text, **more: str) -> int:
                headers = {"Host": host, "Authorization": f"Bearer {text}", **more}
                return client.get(path, headers=headers).status_code

            elsewhere = 403 if hosts else 200
            assert [status("/v1/attachments", "gateway.example"), status("/v1/attachments", "localhost")] == [200, 200]
            assert [status(path, "evil.example") for path in ("/v1/attachments", "/console/")] == [elsewhere] * 2
            assert status("/health/live", "evil.example") == 200, "a probe may use any name"
            assert status("/v1/attachments", "localhost", Origin="https://evil.example") == 200, "a key proves enough"
            entries = client.get("/v1/audit", headers={"Authorization": f"Bearer {text}"}).json()["items"]
            refused = [each for each in entries if each["result"] == "refused"]
            assert [each["path"] for each in refused] == ["/console/", "/v1/attachments"][: 2 * len(hosts)]
        stock.close()


def test_the_address_to_which_a_client_has_connected_is_a_name(tmp_path: Path) -> None:
    """As probes and scrapers of Kubernetes call."""
    stock = Stock(tmp_path, http={"anonymous": "everyone"})
    app = create_app(stock.gateway)
    with TestClient(app, "http://10.1.2.3:8080", client=("10.0.0.9", 50_000)) as client:
        assert client.get("/v1/attachments").status_code == 200
        assert client.get("/v1/attachments", headers={"Host": "10.1.2.4"}).status_code == 403
        assert client.get("/v1/attachments", headers={"Host": "evil.example"}).status_code == 403
    stock.close()


@pytest.mark.parametrize("wrong", ["https://gateway.example", "gateway.example:8080", "a.*.example", "", "*", "a b"])
def test_a_name_has_no_port(wrong: str) -> None:
    with pytest.raises(ValueError, match="String should match pattern"):
        Http(hosts=[wrong])


def test_what_serves_no_address_refuses_no_page(tmp_path: Path) -> None:
    """A gateway that trusts no address has nothing that a page could use; it asks for credentials."""
    stock = Stock(tmp_path, http={"anonymous": "nobody"})
    with connected(stock) as client:
        answer: Any = client.get("/v1/attachments", headers={"Origin": "https://evil.example"})
        assert answer.status_code == 401
    stock.close()
