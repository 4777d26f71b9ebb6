import base64
from collections.abc import Iterator
from dataclasses import replace
from email.parser import BytesParser
from email.policy import HTTP
from hashlib import sha256

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from app.model.attachment import AttachmentKind
from app.model.errors import GatewayError
from app.model.records import AttachmentRecord
from app.web.responses import content_response as content
from tests.support.length import examples
from tests.web.stock import Stock

DATA = np.arange(1 << 20, dtype=">u4").tobytes()
SMALL = bytes(range(256)) * 4


class StoredAttachments:
    """A served gateway with one large attachment in its store, one in its journal, and a small one."""

    def __init__(self, stock: Stock, client: httpx.Client) -> None:
        self.stock, self.client = stock, client
        self.stored = stock.stored(DATA, qualifier_2="große Datei.bin")
        self.journalled = stock.journalled(DATA)
        self.small = stock.stored(SMALL, "text/plain; charset=iso-8859-15", kind=AttachmentKind.TEXT_FILE)

    def get(self, record: AttachmentRecord, method: str = "GET", **headers: str) -> httpx.Response:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.request(method, f"/v1/attachments/{record.id}/content", headers=fields)


@pytest.fixture(scope="module")
def stored(shared_stock: Stock, shared_http: httpx.Client) -> StoredAttachments:
    return StoredAttachments(shared_stock, shared_http)


def test_the_whole(stored: StoredAttachments) -> None:
    for record in (stored.stored, stored.journalled):
        response = stored.get(record)
        assert response.status_code == 200
        assert sha256(response.content).digest() == sha256(DATA).digest()
        assert response.headers["etag"] == f'"{sha256(DATA).hexdigest()}"'


def test_what_the_headers_say(stored: StoredAttachments) -> None:
    response = stored.get(stored.small)
    digest = base64.b64encode(sha256(SMALL).digest()).decode()
    expected = {
        "content-length": str(len(SMALL)),
        "content-type": "text/plain; charset=iso-8859-15",
        "accept-ranges": "bytes",
        "repr-digest": f"sha-256=:{digest}:",
        "x-content-type-options": "nosniff",
        "content-disposition": "attachment; filename=\"file-3.bin\"; filename*=UTF-8''file-3.bin",
    }
    assert {name: response.headers[name] for name in expected} == expected
    assert "filename*=UTF-8''gro%C3%9Fe%20Datei.bin" in stored.get(stored.stored).headers["content-disposition"]


def test_head_says_the_same_without_the_bytes(stored: StoredAttachments) -> None:
    whole, head = stored.get(stored.small), stored.get(stored.small, "HEAD")
    assert head.content == b""
    assert {**head.headers, "date": ""} == {**whole.headers, "date": ""}
    assert stored.get(stored.small, "HEAD", Range="bytes=0-1").status_code == 200


def test_a_query_that_asks_for_nothing_changes_nothing(stored: StoredAttachments) -> None:
    waiting = stored.stock.receiving([(1, 1)], 2)
    for record in (stored.small, stored.journalled, waiting, replace(stored.small, id="f" * 32)):
        for method, fields in (("GET", {}), ("HEAD", {}), ("GET", {"Range": "bytes=1-3"}), ("GET", {"Accept": "a/b"})):
            path = f"/v1/attachments/{record.id}/content"
            plain, asking = (
                stored.client.request(method, path + query, headers=fields) for query in ("", "?partial=false")
            )
            assert (plain.status_code, plain.content) == (asking.status_code, asking.content)
            assert {**plain.headers, "date": ""} == {**asking.headers, "date": ""}


def test_a_content_type_that_is_none_is_not_passed_on(stored: StoredAttachments) -> None:
    record = stored.stock.stored(b"x", "text/html\r\nX-Evil: 1")
    response = stored.get(record)
    assert response.headers["content-type"] == "application/octet-stream"
    assert "x-evil" not in response.headers


def test_nothing_is_content_too(stored: StoredAttachments) -> None:
    for record in (stored.stock.stored(b""), stored.stock.journalled(b"")):
        response = stored.get(record, Range="bytes=0-")
        assert (response.status_code, response.content, response.headers["content-length"]) == (200, b"", "0")


@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_any_range_is_that_slice(stored: StoredAttachments, data: st.DataObject) -> None:
    record = data.draw(st.sampled_from([stored.stored, stored.journalled]))
    edge = st.one_of(st.integers(0, len(DATA) - 1), st.sampled_from([0, 31999, 32000, 1 << 20, (1 << 20) - 1]))
    first, last = sorted((data.draw(edge), data.draw(edge)))
    response = stored.get(record, Range=f"bytes={first}-{last}")
    assert response.status_code == 206
    assert response.headers["content-range"] == f"bytes {first}-{last}/{len(DATA)}"
    assert response.content == DATA[first : last + 1]


def test_a_suffix(stored: StoredAttachments) -> None:
    response = stored.get(stored.small, Range="bytes=-5")
    assert (response.status_code, response.content) == (206, SMALL[-5:])
    assert stored.get(stored.small, Range="bytes=-99999").content == SMALL


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1023), st.integers(0, 1023)), min_size=2, max_size=8))
def test_several_ranges_are_multipart(stored: StoredAttachments, pairs: list[tuple[int, int]]) -> None:
    ranges = [(min(pair), max(pair)) for pair in pairs]
    response = stored.get(stored.small, Range="bytes=" + ",".join(f"{first}-{last}" for first, last in ranges))
    assert response.status_code == 206
    wanted = set().union(*(range(first, last + 1) for first, last in ranges))
    got: list[int] = []
    for head, body in parts(response):
        first, last = (int(number) for number in head["content-range"].removeprefix("bytes ").split("/")[0].split("-"))
        assert body == SMALL[first : last + 1]
        assert head["content-range"].endswith("/1024")
        got += range(first, last + 1)
    assert set(got) == wanted
    assert len(got) == len(wanted)


def parts(response: httpx.Response) -> list[tuple[dict[str, str], bytes]]:
    kind = response.headers["content-type"]
    if not kind.startswith("multipart/byteranges"):
        return [({name.lower(): value for name, value in response.headers.items()}, response.content)]
    boundary = kind.partition("boundary=")[2].encode()
    found = []
    for piece in response.content.split(b"\r\n--" + boundary)[1:-1]:
        head, _, body = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        fields = BytesParser(policy=HTTP).parsebytes(head)
        assert fields["content-type"].replace('"', "") == "text/plain; charset=iso-8859-15"
        found.append(({name.lower(): value for name, value in fields.items()}, body))
    assert response.content.endswith(b"\r\n--" + boundary + b"--\r\n")
    return found


def test_a_range_beyond_the_end(stored: StoredAttachments) -> None:
    response = stored.get(stored.small, Range="bytes=1024-")
    assert response.status_code == 416
    assert response.headers["content-range"] == "bytes */1024"
    assert response.json()["type"] == "/problems/range-not-satisfiable"


def test_conditions(stored: StoredAttachments) -> None:
    tag = f'"{sha256(SMALL).hexdigest()}"'
    unchanged = stored.get(stored.small, If_None_Match=tag)
    assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", tag)
    assert stored.get(stored.small, If_None_Match='"other"').status_code == 200
    changed = stored.get(stored.small, If_Match='"other"')
    assert (changed.status_code, changed.headers["etag"]) == (412, tag)
    assert stored.get(stored.small, Range="bytes=0-1", If_Range=tag).status_code == 206
    assert stored.get(stored.small, Range="bytes=0-1", If_Range='"other"').status_code == 200
    modified = stored.get(stored.small).headers["last-modified"]
    assert stored.get(stored.small, If_Modified_Since=modified).status_code == 304


def test_slow_content_is_read_ahead_by_threads(stored: StoredAttachments, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "_QUICK_SECONDS", 0.0)
    for record in (stored.stored, stored.journalled):
        assert stored.get(record).content == DATA
        assert stored.get(record, Range="bytes=1000000-3999999").content == DATA[1000000:4000000]


class Torn:
    """Content whose end cannot be read."""

    size = len(DATA)

    def sendable(self, offset: int, length: int) -> Iterator[memoryview]:
        yield memoryview(DATA)[: 3 << 20]
        raise GatewayError("the object is shorter than it was")


def test_content_that_fails_midway_is_not_taken_for_whole(
    stored: StoredAttachments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored.stock.gateway.contents, "open", lambda record: Torn())
    with capture_logs() as logged, pytest.raises(httpx.RemoteProtocolError):
        stored.get(stored.stored)
    assert [entry["event"] for entry in logged if entry["log_level"] == "error"] == ["request_failed"]


def test_a_client_that_leaves_stops_the_reading(stored: StoredAttachments) -> None:
    for _ in range(3):
        with stored.client.stream("GET", f"/v1/attachments/{stored.stored.id}/content") as response:
            next(response.iter_raw(10))
    assert stored.get(stored.small).status_code == 200
