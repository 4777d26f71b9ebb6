"""What requests of uploads say of sizes, digests and media types, and when they are refused."""

import socket
from base64 import b64encode
from hashlib import sha1

import httpx
import pytest

from app.testing.waiting import until
from app.web.app import create_app
from app.web.resources.uploads import endpoints
from tests.web.stock import Stock, serving
from tests.web.uploads.uploading import (
    DATA,
    OCTETS,
    TUS,
    append,
    begun,
    content,
    digest,
    offset,
    sent,
    whole,
)


def test_digests_of_the_whole_content(stock: Stock, http: httpx.Client) -> None:
    path = begun(http, 6, Repr_Digest=digest(b"abcdef"))
    assert append(http, path, 0, b"abc").status_code == 204
    assert append(http, path, 3, b"def").status_code == 204
    other = begun(http, 6, Repr_Digest=digest(b"abcdef"))
    assert append(http, other, 0, b"abc").status_code == 204
    wrong = append(http, other, 3, b"deF")
    assert (wrong.status_code, wrong.json()["type"]) == (400, "/problems/digest-mismatch")
    assert http.get(other).status_code == 404, "its bytes cannot be mended"
    third = begun(http, 1)
    assert append(http, third, 0, b"x", Repr_Digest=digest(b"y")).status_code == 400
    streamed = begun(http, 1)
    assert append(http, streamed, 0, iter([b"x"]), Repr_Digest=digest(b"y")).status_code == 400
    headers = {**TUS, "Upload-Length": "1", "Repr-Digest": "nonsense"}
    refused = http.post("/v1/uploads", headers=headers)
    assert (refused.status_code, refused.json()["type"]) == (400, "/problems/malformed")


@pytest.mark.parametrize("at_the_end", [False, True])
def test_digests_that_a_killed_gateway_did_not_compare_are_compared_before_sending(
    stock: Stock, http: httpx.Client, monkeypatch: pytest.MonkeyPatch, at_the_end: bool
) -> None:
    given = {"Repr_Digest": digest(b"abcdef")}
    right = begun(http, 6, **({} if at_the_end else given))
    wrong = begun(http, 6, **({} if at_the_end else given))
    with monkeypatch.context() as killed:
        killed.setattr(endpoints, "check_whole", lambda *_given: None)
        for path, data in ((right, b"abcdef"), (wrong, b"abcdeF")):
            assert append(http, path, 0, data, **(given if at_the_end else {})).status_code == 204
    refused = sent(http, wrong)
    assert (refused.status_code, refused.json()["type"]) == (400, "/problems/digest-mismatch")
    assert http.get(wrong).status_code == 404
    assert content(stock, sent(http, right).json()) == b"abcdef"
    assert len(list(stock.store.names("outgoing/"))) == 1


def test_a_digest_that_cannot_be_read_keeps_nothing(http: httpx.Client) -> None:
    path = begun(http, 3)
    assert append(http, path, 0, b"abc", Repr_Digest="nonsense").status_code == 400
    assert append(http, path, 0, b"abc", Repr_Digest=digest(b"abc")).status_code == 204


def test_checksums_of_one_request(http: httpx.Client) -> None:
    path = begun(http, 6)
    checksum = f"sha1 {b64encode(sha1(b'abc').digest()).decode()}"
    wrong = append(http, path, 0, b"abC", Upload_Checksum=checksum)
    assert (wrong.status_code, wrong.json()["type"]) == (460, "/problems/checksum-mismatch")
    assert offset(http, path) == 0
    assert append(http, path, 0, b"abc", Upload_Checksum=checksum).headers["upload-offset"] == "3"
    for unknown in ("crc64 AAAA", "sha1 not base64", "sha1"):
        assert append(http, path, 3, b"abc", Upload_Checksum=unknown).status_code in (400, 460)
    assert offset(http, path) == 3


def test_a_body_with_a_checksum_is_not_kept_in_part(stock: Stock) -> None:
    with serving(create_app(stock.gateway)) as address, httpx.Client(base_url=address, timeout=30) as http:
        path = begun(http, len(DATA))
        checksum = f"sha1 {b64encode(sha1(DATA).digest()).decode()}"
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 30) as half:
            head = f"PATCH {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/offset+octet-stream\r\n"
            head += f"Tus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\nUpload-Checksum: {checksum}\r\n"
            half.sendall(f"{head}Content-Length: {len(DATA)}\r\n\r\n".encode() + DATA[:600_000])
            partial = stock.settings.data / "content" / ".partial"
            until(lambda: any(partial.iterdir()))
        assert offset(http, path) == 0
        assert append(http, path, 0, DATA, Upload_Checksum=checksum).status_code == 204


def test_sizes_that_contradict_each_other(http: httpx.Client) -> None:
    headers = {**TUS, **OCTETS, "Upload-Length": "4"}
    assert http.post("/v1/uploads", content=b"abcde", headers=headers).status_code == 400
    path = begun(http, 4)
    for answer in (
        append(http, path, 0, b"abcde"),
        append(http, path, 0, b"ab", Upload_Length="5"),
        append(http, path, 0, iter([b"abc", b"de"])),
        append(http, path, 0, iter([b"abc"]), Upload_Length="3"),
    ):
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/inconsistent-upload-length"), answer.text
    here = offset(http, path)
    assert append(http, path, here, b"abcd"[here:]).status_code == 204
    unknown = begun(http)
    assert append(http, unknown, 0, b"abc").status_code == 204
    assert append(http, unknown, 3, b"", Upload_Length="2").json()["type"] == "/problems/inconsistent-upload-length"


def test_the_size_is_told_at_the_end(stock: Stock, http: httpx.Client) -> None:
    path = begun(http)
    assert http.head(path, headers=TUS).headers["upload-defer-length"] == "1"
    assert append(http, path, 0, b"abc").status_code == 204
    assert "3 of unknown bytes" in sent(http, path).json()["detail"]
    assert append(http, path, 3, b"d", Upload_Length="4").status_code == 204
    assert content(stock, sent(http, path).json()) == b"abcd"
    unknown = begun(http)
    assert append(http, unknown, 0, iter([b"ab", b"c"])).headers["upload-offset"] == "3"
    assert http.get(unknown).json()["size"] is None
    assert append(http, unknown, 3, b"", Upload_Length="3").headers["upload-length"] == "3"
    assert http.get(unknown).json()["is_complete"]


def test_a_body_of_unknown_size_that_is_empty_ends_nothing(http: httpx.Client) -> None:
    headers = {**TUS, **OCTETS, "Upload-Defer-Length": "1"}
    begun = http.post("/v1/uploads", content=iter([]), headers=headers)
    assert (begun.headers["upload-defer-length"], begun.json()["is_complete"], begun.json()["size"]) == (
        "1",
        False,
        None,
    )
    first = http.post("/v1/uploads", content=iter([b"ab", b"c"]), headers=headers)
    assert (first.headers["upload-offset"], first.json()["size"]) == ("3", None)


def test_one_request_can_bring_everything(stock: Stock, http: httpx.Client) -> None:
    everything = whole(http, b"A\n1\n", filename="ä.csv", filetype="text/csv")
    assert (everything.status_code, everything.headers["upload-offset"]) == (201, "4")
    view = everything.json()
    assert (view["is_complete"], view["name"], view["content_type"], view["size"]) == (True, "ä.csv", "text/csv", 4)
    empty = begun(http, 0)
    assert http.get(empty).json()["is_complete"]
    assert content(stock, sent(http, empty).json()) == b""


@pytest.mark.parametrize(
    ("headers", "status", "says"),
    [
        ({"Tus-Resumable": "0.2.2", "Upload-Length": "3"}, 412, "version 1.0.0"),
        (TUS, 400, "Upload-Length"),
        ({**TUS, "Upload-Length": "3", "Upload-Defer-Length": "1"}, 400, "Upload-Length"),
        ({**TUS, "Upload-Length": "-3"}, 422, "give at least 0"),
        ({**TUS, "Upload-Length": "5_0"}, 422, "upload-length: "),
        ({**TUS, "Upload-Length": "+5"}, 422, "upload-length: "),
        ({**TUS, "Upload-Length": "-0"}, 422, "upload-length: "),
        ({**TUS, "Upload-Length": "3", "Upload-Concat": "partial"}, 400, "concatenation"),
        ({**TUS, "Upload-Length": "3", "Upload-Metadata": "name !"}, 400, "base64"),
        ({**TUS, "Upload-Length": "3", "Upload-Metadata": "name /////w=="}, 400, "UTF-8"),
        ({**TUS, "Upload-Length": f"{1 << 40}"}, 413, "bytes"),
        ({**TUS, "Upload-Length": "3", "Upload-Metadata": "name " + "a" * 4096}, 413, "4096 bytes"),
        ({"Upload-Length": "3"}, 422, "tus-resumable: is required"),
    ],
)
def test_requests_that_begin_nothing(
    shared_stock: Stock, shared_http: httpx.Client, headers: dict[str, str], status: int, says: str
) -> None:
    answer = shared_http.post("/v1/uploads", headers=headers)
    assert answer.headers["tus-resumable"] == "1.0.0"
    assert answer.status_code == status, answer.text
    assert says in answer.json()["detail"]
    assert list(shared_stock.store.names("uploads/")) == []
    if status == 412:
        assert answer.headers["tus-version"] == "1.0.0"


def test_bodies_of_another_media_type(http: httpx.Client) -> None:
    path = begun(http, 3)
    for kind in ("application/octet-stream", "text/plain"):
        answer = append(http, path, 0, b"abc", Content_Type=kind)
        assert (answer.status_code, answer.json()["accepted"]) == (415, ["application/offset+octet-stream"])
        assert answer.headers["accept-patch"] == "application/offset+octet-stream"
    with_body = http.post("/v1/uploads", content=b"abc", headers={**TUS, "Upload-Length": "3"})
    assert with_body.status_code == 415


def test_what_is_supported(http: httpx.Client) -> None:
    told = http.options("/v1/uploads")
    assert told.status_code == 204
    assert told.headers["tus-version"] == "1.0.0"
    assert {"creation", "expiration", "checksum", "termination"} <= set(told.headers["tus-extension"].split(","))
    assert told.headers["tus-max-size"] == f"{16 << 30}"
    assert "sha1" in told.headers["tus-checksum-algorithm"].split(",")
