"""What HTTP clients may rely on at every resource."""

import re
from email.utils import parsedate_to_datetime
from hashlib import sha256
from pathlib import Path
from time import time, time_ns

import httpx
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from app.dataset.parquet import write_parquet
from app.model.attachment import AttachmentKind
from app.model.errors import GatewayError
from app.web.app import create_app
from tests.web.stock import Stock, serving

SWAGGER_UI = Path(__file__).parents[2] / "app/web/resources/swagger_ui"


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/v1/attachments", "GET, HEAD"),
        ("/v1/attachments/x", "GET, HEAD, DELETE"),
        ("/v1/attachments/x/content", "GET, HEAD"),
        ("/v1/messages", "GET, HEAD, POST"),
        ("/v1/quarantine/x", "GET, HEAD, DELETE"),
        ("/v1/quarantine/x/replay", "POST"),
        ("/v1/trace", "POST"),
        ("/health/live", "GET, HEAD"),
    ],
)
def test_allow_has_all_methods_of_a_path(shared_http: httpx.Client, path: str, allow: str) -> None:
    response = shared_http.request("PATCH", path)
    assert (response.status_code, response.headers["allow"]) == (405, allow)
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/v1/attachments", "/v1/messages", "/health/live", "/openapi.json", "/problems"])
def test_head_is_get_without_content(shared_http: httpx.Client, path: str) -> None:
    got, headed = shared_http.get(path), shared_http.head(path)
    assert (headed.status_code, headed.content) == (got.status_code, b"")
    assert headed.headers["content-type"] == got.headers["content-type"]
    assert headed.headers["content-length"] == got.headers["content-length"]


def test_head_of_what_is_not_there(shared_http: httpx.Client) -> None:
    assert shared_http.head("/v1/attachments/x").status_code == 404
    assert shared_http.head("/v1/trace").status_code == 405


def test_head_of_a_stream_ends(http: httpx.Client) -> None:
    assert http.head("/v1/events").status_code == 200


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("received_before=20261122", "received_before"),
        ("received_after=-1.5e9", "received_after"),
        ("limit=1_0", "limit"),
        ("limit=%2B5", "limit"),
        ("min_size=-0", "min_size"),
        ("stat=finished", "stat"),
        ("state=finished&limits=3", "limits"),
    ],
)
def test_a_parameter_that_says_nothing_is_refused(shared_http: httpx.Client, query: str, parameter: str) -> None:
    response = shared_http.get(f"/v1/attachments?{query}")
    assert response.status_code == 422
    assert [error["parameter"] for error in response.json()["errors"]] == [parameter]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/messages?a=1",
        "/v1/attachments/x?a=1",
        "/v1/deliveries?a=1",
        "/v1/tables?a=1",
        "/v1/attachments/x/content?a=1",
    ],
)
def test_everywhere(shared_http: httpx.Client, path: str) -> None:
    response = shared_http.get(path)
    assert (response.status_code, response.json()["errors"][0]["parameter"]) == (422, "a")


def test_times_in_iso_8601_are_taken(shared_http: httpx.Client) -> None:
    query = {"received_after": "2026-11-21", "received_before": "2026-11-22T08:00:00+01:00", "limit": "3"}
    assert shared_http.get("/v1/attachments", params=query).status_code == 200


def test_delete_minds_if_match(stock: Stock, http: httpx.Client) -> None:
    record = stock.stored(b"content")
    path, of_content = f"/v1/attachments/{record.id}", f'"{record.sha256}"'
    assert http.head(f"{path}/content").headers["etag"] == of_content
    etag = http.get(path).headers["etag"]
    for others in ('"other"', of_content):
        refused = http.delete(path, headers={"If-Match": others})
        assert (refused.status_code, refused.json()["type"]) == (412, "/problems/precondition-failed")
        assert refused.headers["etag"] == etag
    assert http.get(f"{path}/content").content == b"content"
    assert http.delete(path, headers={"If-Match": f'"other", {etag}'}).status_code == 204
    assert http.delete("/v1/attachments/x", headers={"If-Match": "*"}).status_code == 404


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ("filename=\"plain.txt\"; filename*=UTF-8''%e2%82%ac%20rates.txt", "€ rates.txt"),
        ("filename*=UTF-8'en'%C3%BCbung.txt", "übung.txt"),
        ("filename*=iso-8859-1''%A3.txt", "£.txt"),
        ("filename=\"a; filename*=UTF-8''evil.txt\"", "a; filename*=UTF-8''evil.txt"),
    ],
)
def test_extended_file_names_of_uploads(http: httpx.Client, disposition: str, name: str) -> None:
    body = (
        '--b\r\nContent-Disposition: form-data; name="destination"\r\n\r\npartner\r\n'
        f'--b\r\nContent-Disposition: form-data; name="file"; {disposition}\r\n\r\nx\r\n--b--\r\n'
    )
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    response = http.post("/v1/messages?dry_run=true", content=body.encode(), headers=headers)
    assert response.status_code == 200, response.text
    assert response.json()["attachments"][0]["name"] == name


def test_an_extended_file_name_that_is_none(http: httpx.Client) -> None:
    body = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename*=UTF-8''%ff\r\n\r\nx\r\n--b--\r\n"
    response = http.post("/v1/messages", content=body, headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert (response.status_code, response.json()["type"]) == (400, "/problems/malformed")


def test_no_upload_takes_the_room_that_receiving_keeps(tmp_path: Path) -> None:
    stock = Stock(tmp_path, limits={"free_bytes": 1 << 50})
    with serving(create_app(stock.gateway)) as address, httpx.Client(base_url=address, timeout=60) as client:
        response = client.post("/v1/messages", data={"destination": "partner"}, files={"file": ("a.txt", b"x")})
        assert (response.status_code, response.json()["type"]) == (507, "/problems/storage-full")
        assert list(stock.store.names()) == []
    stock.close()


def test_a_store_that_does_not_answer_is_to_be_asked_again(
    stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = stock.stored(b"content")

    def no_answer(name: str) -> int:
        raise GatewayError(f"{name}: no answer from the bucket")

    monkeypatch.setattr(stock.store, "size", no_answer)
    with capture_logs() as logs:
        response = http.get(f"/v1/attachments/{record.id}/content")
    assert (response.status_code, response.json()["type"]) == (503, "/problems/unavailable")
    assert response.headers["Retry-After"] == "5"
    assert "bucket" not in response.text
    assert [entry["event"] for entry in logs] == ["storage_failed"]


def test_documentation_needs_no_other_host(shared_http: httpx.Client) -> None:
    page = shared_http.get("/docs")
    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert not re.search(r"(src|href)=\"(https?:)?//", page.text)
    wanted = re.findall(r"(?:src|href)=\"(/[^\"]+)\"", page.text)
    assert len(wanted) == 2
    known = dict(re.findall(r"\| `([^`]+)` \| `([0-9a-f]{64})` \|", (SWAGGER_UI / "README.md").read_text()))
    for path in wanted:
        response = shared_http.get(path)
        assert response.status_code == 200
        assert sha256(response.content).hexdigest() == known[path.rpartition("/")[2]]


def test_formulas_are_escaped_on_request(stock: Stock, http: httpx.Client) -> None:
    texts = ["=1+1", "+a", "-b", "@c", "\tx", "\ry", "plain", "a=b", "", '="q"', None]
    table = pa.table({"=T": pa.array(texts), "N": pa.array([-1.0] * len(texts))})
    path = stock.settings.data / "t.parquet"
    with path.open("wb") as file:
        write_parquet(table.schema, table.to_batches(), file)
    record = stock.stored(path.read_bytes(), kind=AttachmentKind.DATA_SET, qualifier_2="T")
    content = f"/v1/attachments/{record.id}/content?format=csv"
    kept = http.get(content).text.split("\r\n")
    escaped = http.get(f"{content}&formulas=escape").text.split("\r\n")
    assert kept[:3] == ["=T,N", "=1+1,-1", "+a,-1"]
    assert escaped[:5] == ["'=T,N", "'=1+1,-1", "'+a,-1", "'-b,-1", "'@c,-1"]
    assert escaped[5] == "'\tx,-1"
    assert '"\'=""q""",-1' in escaped
    assert "a=b,-1" in escaped
    assert http.get(f"/v1/attachments/{record.id}/content?format=json&formulas=escape").status_code == 422


def test_last_modified_is_not_after_date(stock: Stock, http: httpx.Client) -> None:
    for ahead in (0, 3_600_000_000):  # as the clock of another machine
        stock.clock.fixed = time_ns() // 1000 + ahead
        before = int(time())
        headers = http.get(f"/v1/attachments/{stock.stored(b'x').id}/content").headers
        modified, date = (parsedate_to_datetime(headers[name]).timestamp() for name in ("last-modified", "date"))
        assert modified <= date
        assert before <= date <= time()
        assert len(headers.get_list("date")) == 1
