import sqlite3
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from app.web import problems
from app.web.app import create_app
from tests.web.stock import Stock, serving

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("method", "path", "status", "word"),
    [
        ("GET", "/v1/nothing", 404, "not-found"),
        ("GET", "/%00", 404, "not-found"),
        ("PATCH", "/v1/attachments", 405, "method-not-allowed"),
        ("GET", "/v1/attachments/x", 404, "not-found"),
        ("GET", "/v1/attachments/x/content", 404, "not-found"),
        ("GET", "/v1/attachments/x/schema", 404, "not-found"),
        ("GET", "/v1/messages/x", 404, "not-found"),
        ("GET", "/v1/deliveries/x", 404, "not-found"),
        ("GET", "/v1/quarantine/x", 404, "not-found"),
        ("POST", "/v1/quarantine/x/replay", 404, "not-found"),
        ("DELETE", "/v1/quarantine/x", 404, "not-found"),
        ("GET", "/v1/events?after=-1", 422, "invalid"),
        ("POST", "/v1/messages", 415, "unsupported-media-type"),
    ],
)
def test_every_error_is_a_problem(shared_http: httpx.Client, method: str, path: str, status: int, word: str) -> None:
    response = shared_http.request(method, path)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert (problem["type"], problem["status"]) == (f"/problems/{word}", status)
    assert shared_http.get(problem["type"]).json()["type"] == problem["type"]


def test_405_says_what_is_allowed(shared_http: httpx.Client) -> None:
    assert shared_http.request("PATCH", "/v1/attachments").headers["allow"] == "GET, HEAD"


@pytest.mark.usefixtures("one_process")
def test_a_fault_of_ours_tells_nothing_but_its_number(stock: Stock, http: httpx.Client) -> None:
    with sqlite3.connect(stock.settings.data / "catalog.sqlite") as database:
        database.execute("ALTER TABLE attachments RENAME TO lost")
    database.close()
    with capture_logs() as logged:
        response = http.get("/v1/attachments")
    assert response.status_code == 500
    (measured,) = stock.gateway.metrics.request_seconds.collect()
    assert {each.labels["http_response_status_code"] for each in measured.samples} == {"500"}
    problem = response.json()
    assert problem["type"] == "/problems/internal"
    assert problem["incident"] in problem["detail"]
    assert [entry["incident"] for entry in logged if entry["log_level"] == "error"] == [problem["incident"]]
    assert "sql" not in response.text.lower()


def test_tokens(tmp_path: Path) -> None:
    stock = Stock(tmp_path, http={"tokens": [sha256(b"one").hexdigest(), sha256(b"two").hexdigest()]})
    with serving(create_app(stock.gateway)) as address, httpx.Client(base_url=address, timeout=60) as client:
        for headers, status in [
            ({}, 401),
            ({"Authorization": "Bearer three"}, 401),
            ({"Authorization": "Basic one"}, 401),
            ({"Authorization": "Bearer one"}, 200),
            ({"Authorization": "bearer two"}, 200),
        ]:
            for path in ("/v1/attachments", "/v1/messages", "/v1/deliveries", "/v1/quarantine", "/metrics"):
                assert client.get(path, headers=headers).status_code == status, (path, headers)
        assert client.get("/v1/attachments").headers["www-authenticate"] == "Bearer"
        assert client.post("/v1/messages", files={"file": b"x"}).status_code == 401
        assert client.get("/health/live").status_code == 200
    stock.close()


@pytest.mark.usefixtures("one_process")
def test_requests_are_measured_by_method_route_and_status(stock: Stock, http: httpx.Client) -> None:
    """Not by what clients choose: identifiers, paths that do not exist, methods that are none."""
    for method, path in (
        ("GET", "/v1/attachments/x"),
        ("GET", "/v1/attachments/y"),
        ("HEAD", "/v1/attachments"),
        ("GET", "/nowhere/1"),
        ("GET", "/v1/nowhere"),
        ("PROPFIND", "/v1/attachments"),
        ("GET", "/docs"),
    ):
        http.request(method, path)
    value = stock.gateway.metrics.registry.get_sample_value
    names = ("http_request_method", "http_route", "http_response_status_code")
    counts = {
        each: value("http_server_request_duration_seconds_count", dict(zip(names, each, strict=True)))
        for each in (
            ("GET", "/v1/attachments/{attachment_id}", "404"),
            ("GET", "/v1/attachments", "200"),
            ("GET", "", "404"),
            ("_OTHER", "/v1/attachments", "405"),
            ("GET", "/docs", "200"),
        )
    }
    assert list(counts.values()) == [2, 1, 2, 1, 1], counts
    text = stock.gateway.metrics.text().decode()
    assert text.count("http_server_request_duration_seconds_count{") == len(counts)
    assert value("http_server_active_requests", {"http_request_method": "GET"}) == 0


@pytest.mark.usefixtures("one_process")
def test_health_and_metrics(stock: Stock, http: httpx.Client) -> None:
    assert http.get("/health/live").status_code == 200
    starting = http.get("/health/ready")
    assert (starting.status_code, starting.json()["ok"]) == (503, False)
    stock.gateway.start()
    for path in ("/health/ready", "/health/ready/read", "/health/ready/receive"):
        assert http.get(path).json()["ok"] is True
    metrics = http.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert "attachment_gateway_journal_bytes" in metrics.text
    stock.gateway.draining = True
    assert http.get("/health/ready").status_code == 503


def test_the_description_is_whole(stock: Stock) -> None:
    described = create_app(stock.gateway).openapi()
    operations = [operation for path in described["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    assert "get_attachment_content" in names
    assert all(operation["tags"] and operation["summary"] and operation["description"] for operation in operations)
    text = str(described)
    missing = [
        name
        for name in set(text.split("#/components/schemas/")[1:])
        if name.split("'")[0] not in described["components"]["schemas"]
    ]
    assert missing == []
    assert "HTTPValidationError" not in text


def test_the_problems_are_documented() -> None:
    assert (ROOT / "docs/problems.md").read_text() == problems.table()


def test_the_root_leads_on(shared_http: httpx.Client) -> None:
    found = shared_http.get("/")
    assert (found.status_code, found.headers["content-type"]) == (200, "application/json")
    links = found.json()["links"]
    assert {"docs", "openapi", "attachments", "ready"} <= links.keys()
    for name, path in links.items():
        if name != "events":
            assert shared_http.get(path).status_code != 404, path
    browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    seen = shared_http.get("/", headers={"Accept": browser}, follow_redirects=False)
    assert (seen.status_code, seen.headers["location"]) == (307, "/docs")
    described = shared_http.get("/openapi.json").json()["paths"]["/"]["get"]
    assert {"200", "307"} <= described["responses"].keys()
