"""Requests in any segments, from clients that close one way, and such as are not HTTP/1.1."""

import json
import socket
import subprocess
from base64 import b64encode
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from hashlib import sha256, sha512
from pathlib import Path
from select import select
from time import monotonic, sleep

import httpx
import pyarrow as pa
import pytest

from app.model.attachment import AttachmentKind
from app.testing.waiting import until
from app.web.server.http_protocol import LimitedProtocol
from tests.support.tables import parquet
from tests.web.raw import answer, answers, opened, split_everywhere
from tests.web.stock import Stock
from tests.web.test_transfers import MIB, PARQUET, connections, limited

pytestmark = pytest.mark.process

__all__ = ["connections"]

CONTENT = b"abcdefghij"
DIGEST = b"Content-Digest: sha-256=:" + b64encode(sha256(CONTENT).digest()) + b":\r\n"
"""With this field the gateway itself refuses an upload of which a byte is lost."""
PUT = b"PUT /v1/files/partner/a.bin HTTP/1.1\r\nHost: localhost\r\n" + DIGEST
LIST = b"GET /v1/attachments HTTP/1.1\r\nHost: localhost\r\n\r\n"
SIZED = PUT + b"Content-Length: 10\r\n\r\n" + CONTENT
CHUNKED = PUT + b"Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n7\r\ndefghij\r\n0\r\nTrailer: t\r\n\r\n"
TOKEN = b"Authorization: Bearer " + b"t" * 7000 + b"\r\n"


@pytest.mark.parametrize(("request_", "status"), [(LIST, 200), (SIZED, 202), (CHUNKED, 202)])
def test_requests_are_read_at_every_split(shared_http: httpx.Client, request_: bytes, status: int) -> None:
    assert split_everywhere(f"{shared_http.base_url}", request_) == {status}


def _bytes(head: bytes) -> Iterable[bytes]:
    return (head[at : at + 1] for at in range(len(head)))


def _pieces(head: bytes) -> Iterable[bytes]:
    return (head[at : at + 50] for at in range(0, len(head), 50))


def _lines(head: bytes) -> Iterable[bytes]:
    return head.splitlines(keepends=True)


@pytest.mark.parametrize(
    ("head", "cut"),
    [
        (LIST, _bytes),
        (LIST[:-2] + b"".join(b"X-%d: y\r\n" % n for n in range(100)) + b"\r\n", _lines),
        (LIST[:-2] + TOKEN + b"\r\n", _pieces),
    ],
)
def test_a_head_may_come_in_many_segments(shared_http: httpx.Client, head: bytes, cut: object) -> None:
    assert callable(cut)
    with opened(f"{shared_http.base_url}") as client:
        for _ in range(2):  # the second one on a connection that is used again
            for piece in cut(head):
                client.sendall(piece)
                sleep(0.0005)
            assert answer(client).status == 200


@pytest.mark.parametrize("before", [b"", LIST])
def test_a_slow_head_is_refused_when_its_time_is_over(tmp_path: Path, before: bytes) -> None:
    with limited(tmp_path, {}, header_timeout=0.5) as (_, address), opened(address) as client:
        if before:
            client.sendall(before)
            assert answer(client).status == 200
        begun = monotonic()
        client.sendall(LIST[:-2])
        while not select([client], [], [], 0.02)[0]:
            client.sendall(b"X: y\r\n")
        assert answer(client).status == 408
        assert monotonic() - begun >= 0.4


def test_a_slow_head_is_refused_after_the_response_before_it(tmp_path: Path) -> None:
    with limited(tmp_path, {}, header_timeout=0.3) as (stock, address), opened(address) as client:
        waiting = f"GET /v1/attachments/{stock.receiving([], 5).id}?wait=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        client.sendall(waiting.encode() + LIST[:20])
        assert answers(client) == [200, 408]


def test_empty_lines_are_no_request_and_hold_no_connection(tmp_path: Path) -> None:
    with limited(tmp_path, {}, header_timeout=0.5) as (_, address), opened(address) as client:
        client.sendall(LIST)
        assert answer(client).status == 200
        begun = monotonic()
        with suppress(ConnectionError):
            while monotonic() - begun < 60:
                client.sendall(b"\r\n")
                sleep(0.05)
        assert monotonic() - begun < 60


# --- half-closed ------------------------------------------------------------------------------------------------------


def half_closed(client: socket.socket, request: bytes) -> socket.socket:
    client.sendall(request)
    client.shutdown(socket.SHUT_WR)
    return client


def test_half_closed_connections_are_answered_and_closed(tmp_path: Path) -> None:
    table = parquet(pa.table({"X": list(range(1000))}), 100)
    with limited(tmp_path, {}) as (stock, address):
        data_set = stock.stored(table, PARQUET, kind=AttachmentKind.DATA_SET).id
        big = stock.stored(bytes(4 * MIB)).id
        slow = f"GET /v1/attachments/{stock.receiving([], 5).id}?wait=1 HTTP/1.%d\r\nHost: localhost\r\n\r\n"
        requests = [
            (LIST, 200),
            (LIST.replace(b"1.1", b"1.0"), 200),
            (SIZED, 202),
            (CHUNKED, 202),
            (SIZED.replace(b"Content-Length", b"Expect: 100-continue\r\nContent-Length"), 202),
            (f"GET /v1/attachments/{data_set}/content?format=csv HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), 200),
            (f"GET /v1/attachments/{big}/content HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), 200),
            ((slow % 1).encode(), 200),
            ((slow % 0).encode(), 200),
            (b"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ]
        with ExitStack() as stack:
            clients = [half_closed(stack.enter_context(opened(address)), request) for request, _ in requests]
            for client, (request, status) in zip(clients, requests, strict=True):
                got = answer(client)
                assert (got.status, got.closes) == (status, True), request
                if b"/content " in request:
                    assert got.body == bytes(4 * MIB)
                assert client.recv(1) == b"", "it is closed"
        with opened(address) as client:
            assert answers(half_closed(client, 5 * SIZED + LIST)) == [*[202] * 5, 200], "pipelined"
        with opened(address) as client:
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b"", "without a request there is no answer"
        with opened(address) as client:
            stream = half_closed(client, LIST.replace(b"attachments", b"events?after=0"))
            assert stream.recv(20).startswith(b"HTTP/1.1 200"), "an event stream begins, and ends at once"
            while stream.recv(1000):
                pass


def test_a_client_that_has_left_frees_its_place(tmp_path: Path, connections: list[LimitedProtocol]) -> None:
    with limited(tmp_path, {}) as (stock, address):
        waiting = (
            f"GET /v1/attachments/{stock.receiving([], 5).id}?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )
        for number, request in enumerate((waiting, b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")):
            client = opened(address)
            client.sendall(request)
            until(lambda: len(connections) > number and connections[number].cycle is not None)  # noqa: B023
            client.close()
            until(connections[number].is_closing, 3)


@pytest.mark.parametrize("length", [1, len(LIST) - 1, len(PUT) + 30, len(SIZED) - 1])
def test_an_incomplete_request_is_told_so_and_leaves_nothing(stock: Stock, http: httpx.Client, length: int) -> None:
    request = LIST if length < len(LIST) else SIZED
    with opened(f"{http.base_url}") as client:
        got = answer(half_closed(client, request[:length]))
    assert got.status == 400
    problem = json.loads(got.body)
    assert problem["type"] == "/problems/malformed"
    assert "the connection was closed before the request had all of its" in problem["detail"]
    until(lambda: not list(stock.store.names()))


# --- what is no HTTP/1.1 ----------------------------------------------------------------------------------------------

POST = b"POST /v1/trace HTTP/1.1\r\nHost: localhost\r\n"
LONG = b"a" * 70_000
CHUNKS = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "status", "told"),
    [
        (b"GET /v1/attachments?" + LONG + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414, "http.header_bytes"),
        (LIST[:-2] + b"X: " + LONG + b"\r\n\r\n", 431, "http.header_bytes"),
        (CHUNKS + b"1;" + 2 * LONG, 431, "http.header_bytes"),
        (LIST.replace(b"Host: localhost\r\n", b""), 400, "0 header fields Host"),
        (LIST.replace(b"Host: localhost\r\n", b"Host: localhost\r\nHost: y\r\n"), 400, "2 header fields Host"),
        (b"GET / HTTP/1.0\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400, "2 header fields Host"),
        (b"nonsense\r\n\r\n", 400, "does not begin with a method such as GET (in the request line)"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "does not begin with a method"),
        (b"GET /x\r\n\r\n", 400, "no version"),
        (b"GET /x\r\n", 400, "no version"),
        (b"GET /x\r\nHost: localhost\r\n\r\n", 400, "no version"),
        (b"GET /x HTTP/2.0\r\nHost: localhost\r\n\r\n", 505, "HTTP/1.1"),
        (b"GET /x HTTP/2.0\r\n", 505, "HTTP/1.1"),
        (b"GET /x HTTP/3.0\r\nHost: localhost\r\n\r\n", 505, "HTTP/1.1"),
        (b"GET /x HTTP/1.2\r\nHost: localhost\r\n\r\n", 505, "HTTP/1.1"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/1.1"),
        (b"GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "a blank in its target"),
        (b"GET /\xc3\xbc HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "percent-encoded"),
        (b"GET /?\xc3\xbc HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "percent-encoded"),
        (b"GET x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "neither a path nor an http URL"),
        (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "the request target '*' has no path"),
        (b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 400, "the request target 'a:80' cannot be read"),
        (LIST[:-2] + b"A B: c\r\n\r\n", 400, "name is empty, or has a character that names cannot have (after the"),
        (LIST[:-2] + b"A : c\r\n\r\n", 400, "a character that names cannot have"),
        (LIST[:-2] + b"A: c\x00\r\n\r\n", 400, "a control character"),
        (LIST[:-2] + b"A: c\r\n d\r\n\r\n", 400, "line folding"),
        (POST + b"Content-Length: -1\r\n\r\n", 400, "Content-Length is not one number"),
        (POST + b"Content-Length: 1, 1\r\n\r\n", 400, "Content-Length is not one number"),
        (POST + b"Content-Length: 99999999999999999999\r\n\r\n", 400, "Content-Length is too large"),
        (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "more than one Content-Length"),
        (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "both Content-Length and Transfer"),
        (POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "HTTP/1.0"),
        *(
            (
                POST + b"Transfer-Encoding: " + codings + b"\r\n\r\n0\r\n\r\n",
                501,
                "Transfer-Encoding has another coding",
            )
            for codings in (
                *(b"gzip, chunked", b"gzip,chunked", b"chunked, gzip", b"gzip", b"identity", b"x", b"xchunked"),
                *(
                    b"gzip\r\nTransfer-Encoding: chunked",
                    b"chunked, chunked",
                    b"GZIP , Chunked",
                    b"deflate;q=1, chunked",
                ),
            )
        ),
        (SIZED.replace(b"Host:", b"Content-Range: bytes 0-9/20\r\nHost:"), 400, "no request can change a part"),
        (CHUNKS + b"xyz\r\n", 400, "a chunk's size is not a hexadecimal number (after 0 bytes of content)"),
        (CHUNKS + b"3\r\nabcdef\r\n", 400, "a chunk is longer than its size (after 3 bytes of content)"),
        (CHUNKS + b"ffffffffffffffffff\r\n", 400, "a chunk's size is too large"),
        (CHUNKS + b"3\nabc", 400, "a chunk's size does not end with CR and LF"),
    ],
)
def test_what_cannot_be_read_is_refused_and_told(
    shared_http: httpx.Client, request_: bytes, status: int, told: str
) -> None:
    with opened(f"{shared_http.base_url}") as client:
        client.sendall(request_)
        got = answer(client)
        assert (got.status, got.closes) == (status, True), got
        assert client.recv(1) == b"", "one response, and the end"
    problem = json.loads(got.body)
    assert problem["status"] == status
    assert told in problem["detail"]
    assert (problem["type"] == "/problems/malformed") is (status == 400)
    assert (problem["type"] == "about:blank") is (status != 400)


def test_what_is_wrong_after_a_request_is_told_after_its_response(shared_http: httpx.Client) -> None:
    with opened(f"{shared_http.base_url}") as client:
        client.sendall(2 * LIST + b"nonsense\r\n\r\n" + LIST)
        assert answers(client) == [200, 200, 400]


@pytest.mark.parametrize(
    "request_",
    [
        LIST.replace(b"1.1", b"1.0"),
        LIST.replace(b"/v1", b"http://localhost/v1").replace(b"Host: localhost", b"Host: evil.example"),
        LIST.replace(b"GET", b"\r\n\r\nGET"),
        LIST.replace(b"Host", b"Transfer-Encoding: Chunked\r\nHost") + b"0\r\n\r\n",
    ],
)
def test_unusual_requests_are_answered(shared_http: httpx.Client, request_: bytes) -> None:
    with opened(f"{shared_http.base_url}") as client:
        client.sendall(request_)
        assert answer(client).status == 200


def test_the_host_of_a_whole_url_counts(shared_http: httpx.Client) -> None:
    with opened(f"{shared_http.base_url}") as client:
        client.sendall(LIST.replace(b"/v1", b"http://localhost@evil.example:80/v1"))
        refused = json.loads(answer(client).body)
    assert (refused["type"], "'evil.example:80'" in refused["detail"]) == ("/problems/cross-origin", True)


WRONG = b64encode(sha512(b"other").digest())
TAG = b"the entity tag of the list"


@pytest.mark.parametrize(
    ("request_", "field", "values", "status"),
    [
        (LIST, b"If-None-Match", [b'"x"', TAG], 304),
        (LIST.replace(b"GET", b"HEAD"), b"If-None-Match", [TAG, b'"x"'], 304),
        (LIST, b"Accept-Encoding", [b"identity;q=0", b"gzip"], 200),
        (SIZED, b"Content-Digest", [b"md5=:eA==:", b"sha-512=:" + WRONG + b":"], 400),
        (SIZED, b"Repr-Digest", [b"md5=:eA==:", b"sha-512=:" + WRONG + b":"], 400),
        (SIZED, b"Content-Encoding", [b"identity", b"gzip"], 415),
    ],
)
def test_lines_of_one_field_mean_what_one_line_means(
    shared_http: httpx.Client, request_: bytes, field: bytes, values: list[bytes], status: int
) -> None:
    tag = shared_http.get("/v1/attachments").headers["etag"].encode()
    values = [tag if each == TAG else each for each in values]
    lines = b"".join(field + b": " + each + b"\r\n" for each in values)
    got = []
    for fields in (lines, field + b": " + b", ".join(values) + b"\r\n"):
        with opened(f"{shared_http.base_url}") as client:
            client.sendall(request_.replace(b"Host:", fields + b"Host:"))
            got.append(answer(client).status)
    assert got == [status, status]


@pytest.mark.parametrize("request_", [SIZED, CHUNKED])
def test_an_offer_of_another_protocol_is_ignored_and_no_content_lost(
    shared_http: httpx.Client, request_: bytes
) -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\nHost:"
    offering = request_.replace(b"Host:", offer)
    assert split_everywhere(f"{shared_http.base_url}", offering) == {202}
    with opened(f"{shared_http.base_url}") as client:
        client.sendall(2 * offering + LIST)
        client.shutdown(socket.SHUT_WR)
        assert answers(client) == [202, 202, 200]


def test_curl_may_offer_http_2(shared_http: httpx.Client, tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(CONTENT)
    command = ["curl", "-sS", "--http2", "-T", str(file), "-w", "%{http_code}", "-o", str(tmp_path / "answer")]
    digest = DIGEST.decode().strip()
    url = f"{shared_http.base_url}/v1/files/partner/a.bin"
    done = subprocess.run([*command, "-H", digest, url], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"202"
