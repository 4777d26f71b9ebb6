"""Resumable uploads by both protocols over one store: broken and resumed, refused, expired, sent."""

import asyncio
import json
import socket
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha1, sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.arrow_journal import ArrowJournal
from app.service.uploads import Uploads, pieces
from app.web.api import create_app
from app.web.uploads.receiving import Receivers
from tests.support.tables import parquet, pupils
from tests.support.waiting import until
from tests.web.conftest import connected
from tests.web.stock import Stock, serving

MIB = 1 << 20
DATA = bytes(range(256)) * 4000
IETF = "https://iana.org/assignments/http-problem-types#"
TUS = {"Tus-Resumable": "1.0.0"}


def digest(data: bytes) -> str:
    return f"sha-256=:{b64encode(sha256(data).digest()).decode()}:"


def metadata(**pairs: str) -> str:
    return ",".join(f"{key} {b64encode(value.encode()).decode()}" for key, value in pairs.items())


def begun(http: httpx.Client, **headers: str) -> str:
    """The address of an upload by HTTP's protocol that was begun without any bytes."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = http.post("/v1/uploads", headers={"Upload-Complete": "?0", **given})
    assert answer.status_code == 201, answer.text
    return str(answer.headers["location"])


def begun_by_tus(http: httpx.Client, size: int, **headers: str) -> str:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = http.post("/v1/uploads", headers={**TUS, "Upload-Length": f"{size}", **given})
    assert answer.status_code == 201, answer.text
    return str(answer.headers["location"])


def append(http: httpx.Client, path: str, offset: int, data: Any, complete: str = "?0", **more: str) -> httpx.Response:
    headers = {"Upload-Offset": f"{offset}", "Upload-Complete": complete, "Content-Type": "application/partial-upload"}
    return http.patch(path, content=data, headers=headers | {k.replace("_", "-"): v for k, v in more.items()})


def append_by_tus(http: httpx.Client, path: str, offset: int, data: bytes, **more: str) -> httpx.Response:
    headers = {**TUS, "Upload-Offset": f"{offset}", "Content-Type": "application/offset+octet-stream"}
    return http.patch(path, content=data, headers=headers | {k.replace("_", "-"): v for k, v in more.items()})


def offset(http: httpx.Client, path: str) -> int:
    return int(http.head(path).headers["upload-offset"])


def sent(http: httpx.Client, path: str, **more: Any) -> httpx.Response:
    uploads = {"file": path.rpartition("/")[2]}
    message = {"destination": "partner", "uploads": uploads, "attachments": [{"part": "file"}], **more}
    return http.post("/v1/messages", json=message)


def content(stock: Stock, delivery: dict[str, Any]) -> bytes:
    record = stock.catalog.delivery(delivery["id"])
    assert record is not None
    (attachment,) = record.attachments
    return b"".join(stock.store.read(attachment.object_name))


class Writing:
    """A client that announces all of its bytes, sends some of them, and waits."""

    def __init__(self, address: str, path: str, at: int, some: bytes, announced: int, tus: bool) -> None:
        host, port = address.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), 30)
        kind = "application/offset+octet-stream" if tus else "application/partial-upload"
        about = "Tus-Resumable: 1.0.0" if tus else "Upload-Complete: ?1"
        self.socket.sendall(
            f"PATCH {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n{about}\r\nUpload-Offset: {at}\r\n"
            f"Content-Length: {announced}\r\n\r\n".encode()
            + some
        )

    def kill(self) -> None:
        """Break the connection, without its end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def answer(self) -> bytes:
        with self.socket:
            return self.socket.recv(65536)


@pytest.mark.parametrize("tus", [True, False], ids=["tus", "http"])
@pytest.mark.parametrize("kill", [True, False], ids=["broken", "stalled"])
def test_a_broken_upload_goes_on_where_it_ended(stock: Stock, tmp_path: Path, tus: bool, kill: bool) -> None:
    """A client that is gone without a word may still be connected, for the gateway; the next request ends it."""
    with serving(create_app(stock.gateway)) as address, httpx.Client(base_url=address, timeout=30) as http:
        path = begun_by_tus(http, len(DATA)) if tus else begun(http, Upload_Length=f"{len(DATA)}")
        upload = stock.gateway.uploads.open()[path.rpartition("/")[2]]
        writing = Writing(address, path, 0, DATA[:700_000], len(DATA), tus)
        folder = tmp_path / "content" / ".partial"
        until(lambda: any(each.stat().st_size > 262_144 for each in folder.iterdir()))
        if kill:
            writing.kill()
            until(lambda: upload.offset > 0)
        here = offset(http, path)
        assert 262_144 < here <= 700_000
        assert here == offset(http, path)
        if not kill:
            assert b"409 " in writing.answer().partition(b"\r\n")[0]
        again = append_by_tus(http, path, here, DATA[here:]) if tus else append(http, path, here, DATA[here:], "?1")
        assert (again.status_code, again.headers["upload-offset"]) == (204, f"{len(DATA)}")
        assert again.headers["tus-resumable" if tus else "upload-complete"] == ("1.0.0" if tus else "?1")
        answer = sent(http, path)
        assert answer.status_code == 202, answer.text
        assert content(stock, answer.json()) == DATA
        (attachment,) = answer.json()["attachments"]
        assert (attachment["size"], attachment["sha256"]) == (len(DATA), sha256(DATA).hexdigest())


def test_another_offset_is_refused_with_the_right_one(stock: Stock, http: httpx.Client) -> None:
    path = begun(http)
    assert append(http, path, 0, b"abc").status_code == 204
    wrong = append(http, path, 2, b"c")
    assert (wrong.status_code, wrong.headers["upload-offset"]) == (409, "3")
    problem = wrong.json()
    assert (problem["type"], problem["expected-offset"], problem["provided-offset"]) == (
        f"{IETF}mismatching-upload-offset",
        3,
        2,
    )
    by_tus = append_by_tus(http, path, 4, b"c")
    assert (by_tus.status_code, by_tus.headers["tus-resumable"]) == (409, "1.0.0")
    assert append(http, path, 3, b"d", "?1").status_code == 204
    more = append(http, path, 4, b"e", "?1")
    assert (more.status_code, more.json()["type"]) == (400, f"{IETF}completed-upload")
    assert append(http, path, 4, b"", "?1").status_code == 204
    assert content(stock, sent(http, path).json()) == b"abcd"


def test_of_two_writers_the_newer_one_goes_on(stock: Stock) -> None:
    app = create_app(stock.gateway)
    with serving(app) as address, httpx.Client(base_url=address, timeout=30) as http:
        path = begun(http)
        older = Writing(address, path, 0, b"x" * 10, 100, tus=False)
        until(lambda: app.state.receivers._tasks)
        assert append(http, path, 50, b"y" * 5).status_code == 409
        assert b"409 " in older.answer().partition(b"\r\n")[0]
        assert not app.state.receivers._tasks
        here = offset(http, path)
        assert here in (0, 10), "all that had arrived"
        older = Writing(address, path, here, b"", 100 - here, tus=False)
        until(lambda: app.state.receivers._tasks)
        assert append(http, path, here, b"z" * (100 - here), "?1").status_code == 204
        assert b"409 " in older.answer().partition(b"\r\n")[0]
        assert content(stock, sent(http, path).json()) == b"x" * here + b"z" * (100 - here)


@pytest.mark.timeout(10)
def test_an_older_writer_that_has_just_ended_is_not_waited_for() -> None:
    async def older() -> None:
        pass

    async def newer(receivers: Receivers) -> None:
        # Goes on when the task of the older writer is done, and its callback is still to be called.
        await asyncio.sleep(0)
        await receivers.end("upload")

    async def both() -> None:
        receivers = Receivers()
        await asyncio.gather(receivers.run("upload", older()), newer(receivers))
        assert not receivers._tasks

    asyncio.run(both())


@pytest.mark.timeout(60)
def test_many_writers_at_once_end_each_other_and_nothing_else(stock: Stock) -> None:
    with serving(create_app(stock.gateway)) as address, httpx.Client(base_url=address, timeout=30) as http:
        for _ in range(5):
            path = begun(http)
            writers = [Writing(address, path, 0, b"x" * 10, 10, tus=False) for _ in range(5)]
            told = [writer.answer().split()[1] for writer in writers]
            assert set(told) <= {b"204", b"409"}
            assert offset(http, path) == 10


def test_what_a_restarted_gateway_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces that are no continuation, and those of no upload, are removed."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 1000)
    stock = Stock(tmp_path)
    with connected(stock) as http:
        path = begun_by_tus(http, 4000, Upload_Metadata=metadata(filename="ä.txt", filetype="text/plain"))
        assert append_by_tus(http, path, 0, DATA[:2500]).headers["upload-offset"] == "2500"
    upload_id = path.rpartition("/")[2]
    stray = [f"uploads/{upload_id}/{9000:016x}", "uploads/none/0000000000000000", "uploads/bad/upload.json"]
    for name in stray:
        with stock.store.create(name) as target:
            target.write(b"stray")
    stock.close()
    again = Stock(tmp_path)
    with connected(again) as http:
        head = http.head(path, headers=TUS)
        assert (head.status_code, head.headers["upload-offset"], head.headers["upload-length"]) == (200, "2500", "4000")
        assert head.headers["upload-metadata"] == metadata(filename="ä.txt", filetype="text/plain")
        assert sorted(again.store.names("uploads/")) == [
            *(f"uploads/{upload_id}/{at:016x}" for at in (0, 1000, 2000)),
            f"uploads/{upload_id}/upload.json",
        ]
        assert append_by_tus(http, path, 2500, DATA[2500:4000]).status_code == 204
        answer = sent(http, path)
        assert content(again, answer.json()) == DATA[:4000]
        (attachment,) = answer.json()["attachments"]
        assert (attachment["name"], attachment["kind"]) == ("ä.txt", "text-file")
    again.close()


def test_an_upload_expires(stock: Stock, http: httpx.Client) -> None:
    path, other = begun(http), begun(http)
    assert append(http, path, 0, b"abc").status_code == 204
    stock.clock.fixed = stock.clock.now() + 25 * 3600 * 1_000_000
    fresh = begun(http)
    for answer in (http.get(path), http.head(path), append(http, path, 3, b"d"), http.delete(other)):
        assert answer.status_code == 404
    assert "no upload" in sent(http, path).json()["detail"]
    stock.gateway.uploads.expire()
    assert list(stock.store.names("uploads/")) == [f"uploads/{fresh.rpartition('/')[2]}/upload.json"]


def test_a_sent_upload_stays_for_an_hour_so_that_its_request_can_be_repeated(stock: Stock, http: httpx.Client) -> None:
    path = begun(http)
    append(http, path, 0, b"abc", "?1")
    message = {"destination": "partner", "uploads": {"f": path.rpartition("/")[2]}, "attachments": [{"part": "f"}]}
    answers = [http.post("/v1/messages", json=message, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert answers[1].headers["idempotency-replayed"] == "true"
    assert len(http.get("/v1/deliveries").json()["items"]) == 1
    stock.clock.fixed = stock.clock.now() + 3601 * 1_000_000
    assert http.get(path).status_code == 404
    stock.gateway.uploads.expire()
    assert list(stock.store.names("uploads/")) == []
    assert content(stock, answers[0].json()) == b"abc"


def test_digests_of_the_whole_content(stock: Stock, http: httpx.Client) -> None:
    path = begun(http, Repr_Digest=digest(b"abcdef"))
    assert append(http, path, 0, b"abc").status_code == 204
    assert append(http, path, 3, b"def", "?1").status_code == 204
    other = begun(http, Repr_Digest=digest(b"abcdef"))
    assert append(http, other, 0, b"abc").status_code == 204
    wrong = append(http, other, 3, b"deF", "?1")
    assert (wrong.status_code, wrong.json()["type"]) == (400, "/problems/digest-mismatch")
    assert http.get(other).status_code == 404, "its bytes cannot be mended"
    third = begun(http)
    assert append(http, third, 0, b"x", "?1", Repr_Digest=digest(b"y")).status_code == 400
    assert http.post("/v1/uploads", headers={"Repr-Digest": "nonsense"}).status_code == 400


def test_digests_and_checksums_of_one_request(stock: Stock, http: httpx.Client) -> None:
    path = begun(http)
    assert append(http, path, 0, b"abc", Content_Digest=digest(b"abC")).status_code == 400
    assert offset(http, path) == 0
    assert append(http, path, 0, b"abc", Content_Digest=digest(b"abc")).status_code == 204
    by_tus = begun_by_tus(http, 6)
    checksum = f"sha1 {b64encode(sha1(b'abc').digest()).decode()}"
    wrong = append_by_tus(http, by_tus, 0, b"abC", Upload_Checksum=checksum)
    assert (wrong.status_code, wrong.json()["type"]) == (460, "/problems/checksum-mismatch")
    assert offset(http, by_tus) == 0
    assert append_by_tus(http, by_tus, 0, b"abc", Upload_Checksum=checksum).headers["upload-offset"] == "3"
    for unknown in ("crc64 AAAA", "sha1 not base64", "sha1"):
        assert append_by_tus(http, by_tus, 3, b"abc", Upload_Checksum=unknown).status_code in (400, 460)
    assert offset(http, by_tus) == 3


def test_a_body_with_a_checksum_is_not_kept_in_part(stock: Stock) -> None:
    with serving(create_app(stock.gateway)) as address, httpx.Client(base_url=address, timeout=30) as http:
        path = begun_by_tus(http, len(DATA))
        checksum = f"sha1 {b64encode(sha1(DATA).digest()).decode()}"
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 30) as half:
            head = f"PATCH {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/offset+octet-stream\r\n"
            head += f"Tus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\nUpload-Checksum: {checksum}\r\n"
            half.sendall(f"{head}Content-Length: {len(DATA)}\r\n\r\n".encode() + DATA[:600_000])
            partial = stock.settings.data / "content" / ".partial"
            until(lambda: any(partial.iterdir()))
        assert offset(http, path) == 0
        assert append_by_tus(http, path, 0, DATA, Upload_Checksum=checksum).status_code == 204


def test_sizes_that_contradict_each_other(http: httpx.Client) -> None:
    wrong = http.post("/v1/uploads", content=b"abc", headers={"Upload-Complete": "?1", "Upload-Length": "4"})
    assert (wrong.status_code, wrong.json()["type"]) == (400, f"{IETF}inconsistent-upload-length")
    path = begun(http, Upload_Length="4")
    for answer in (
        append(http, path, 0, b"abcde"),
        append(http, path, 0, b"abc", "?1"),
        append(http, path, 0, b"ab", Upload_Length="5"),
        append(http, path, 0, iter([b"abc", b"de"])),
        append(http, path, 0, iter([b"abc"]), "?1"),
    ):
        assert (answer.status_code, answer.json()["type"]) == (400, f"{IETF}inconsistent-upload-length"), answer.text
    here = offset(http, path)
    assert append(http, path, here, b"abcd"[here:], "?1").status_code == 204


def test_the_size_is_told_at_the_end(stock: Stock, http: httpx.Client) -> None:
    deferred = http.post("/v1/uploads", headers={**TUS, "Upload-Defer-Length": "1"})
    path = deferred.headers["location"]
    assert http.head(path, headers=TUS).headers["upload-defer-length"] == "1"
    assert append_by_tus(http, path, 0, b"abc").status_code == 204
    assert "3 of unknown bytes" in sent(http, path).json()["detail"]
    assert append_by_tus(http, path, 3, b"d", Upload_Length="4").status_code == 204
    assert content(stock, sent(http, path).json()) == b"abcd"
    unknown = begun(http)
    assert append(http, unknown, 0, iter([b"ab", b"c"]), "?1").headers["upload-complete"] == "?1"
    assert http.get(unknown).json()["length"] == 3


def test_a_body_of_unknown_size_that_is_empty_ends_nothing(http: httpx.Client) -> None:
    begun = http.post("/v1/uploads", content=iter([]), headers={"Upload-Complete": "?0"})
    assert (begun.headers["upload-complete"], begun.json()["length"]) == ("?0", None)
    first = http.post("/v1/uploads", content=iter([b"ab", b"c"]), headers={"Upload-Complete": "?0"})
    assert (first.headers["upload-offset"], first.json()["length"]) == ("3", None)


def test_one_request_can_bring_everything(stock: Stock, http: httpx.Client) -> None:
    name = {"Content-Disposition": "attachment; filename*=UTF-8''%c3%a4.csv", "Content-Type": "text/csv"}
    whole = http.post("/v1/uploads", content=b"A\n1\n", headers={"Upload-Complete": "?1", **name})
    assert (whole.status_code, whole.headers["upload-complete"]) == (201, "?1")
    view = whole.json()
    assert (view["complete"], view["name"], view["content_type"], view["length"]) == (True, "ä.csv", "text/csv", 4)
    plain = http.post("/v1/uploads", content=b"abc")
    assert plain.json()["complete"]
    by_tus = http.post(
        "/v1/uploads",
        content=b"abc",
        headers={**TUS, "Upload-Length": "3", "Content-Type": "application/offset+octet-stream"},
    )
    assert (by_tus.status_code, by_tus.headers["upload-offset"]) == (201, "3")
    empty = begun_by_tus(http, 0)
    assert http.get(empty).json()["complete"]
    assert content(stock, sent(http, empty).json()) == b""


@pytest.mark.parametrize(
    ("headers", "status", "says"),
    [
        ({"Tus-Resumable": "0.2.2", "Upload-Length": "3"}, 412, "version 1.0.0"),
        (TUS, 400, "Upload-Length"),
        ({**TUS, "Upload-Length": "3", "Upload-Defer-Length": "1"}, 400, "Upload-Length"),
        ({**TUS, "Upload-Length": "-3"}, 422, "greater than or equal to 0"),
        ({**TUS, "Upload-Length": "5_0"}, 422, "upload-length: "),
        ({**TUS, "Upload-Length": "+5"}, 422, "upload-length: "),
        ({**TUS, "Upload-Length": "-0"}, 422, "upload-length: "),
        ({**TUS, "Upload-Length": "3", "Upload-Concat": "partial"}, 400, "concatenation"),
        ({**TUS, "Upload-Length": "3", "Upload-Metadata": "name !"}, 400, "base64"),
        ({**TUS, "Upload-Length": "3", "Upload-Metadata": "name /////w=="}, 400, "UTF-8"),
        ({**TUS, "Upload-Length": f"{1 << 40}"}, 413, "bytes"),
        ({"Upload-Complete": "?0", "Upload-Length": f"{1 << 40}"}, 413, "bytes"),
        ({"Upload-Complete": "yes"}, 422, "give ?1 or ?0"),
        ({"Upload-Complete": "?0", "Upload-Draft-Interop-Version": "3"}, 400, "interop version 8"),
    ],
)
def test_requests_that_begin_nothing(
    shared_stock: Stock, shared_http: httpx.Client, headers: dict[str, str], status: int, says: str
) -> None:
    answer = shared_http.post("/v1/uploads", headers=headers)
    assert answer.headers.get("tus-resumable") == ("1.0.0" if "Tus-Resumable" in headers else None)
    assert answer.status_code == status, answer.text
    assert says in answer.json()["detail"]
    assert list(shared_stock.store.names("uploads/")) == []
    if status == 412:
        assert answer.headers["tus-version"] == "1.0.0"


def test_bodies_of_another_media_type(http: httpx.Client) -> None:
    path = begun(http)
    for kind in ("application/offset+octet-stream", "text/plain"):
        answer = append(http, path, 0, b"abc", Content_Type=kind)
        assert (answer.status_code, answer.json()["accepted"]) == (415, ["application/partial-upload"])
    with_body = http.post("/v1/uploads", content=b"abc", headers={**TUS, "Upload-Length": "3"})
    assert with_body.status_code == 415


def test_what_is_supported(http: httpx.Client) -> None:
    told = http.options("/v1/uploads")
    assert told.status_code == 204
    assert told.headers["tus-version"] == "1.0.0"
    assert {"creation", "expiration", "checksum", "termination"} <= set(told.headers["tus-extension"].split(","))
    assert told.headers["tus-max-size"] == f"{16 << 30}"
    assert told.headers["upload-limit"] == f"max-size={16 << 30}, max-age=86400"
    assert "sha1" in told.headers["tus-checksum-algorithm"].split(",")


def test_termination(stock: Stock, http: httpx.Client) -> None:
    path = begun_by_tus(http, 3)
    append_by_tus(http, path, 0, b"ab")
    gone = http.delete(path, headers=TUS)
    assert (gone.status_code, gone.headers["tus-resumable"]) == (204, "1.0.0")
    assert list(stock.store.names("uploads/")) == []
    assert http.head(path, headers=TUS).status_code == 404


def test_a_deleted_upload_gets_nothing_more(stock: Stock) -> None:
    upload = stock.gateway.uploads.create("me", 3)
    writer = stock.gateway.uploads.append(upload)
    writer.write(b"abc")
    stock.gateway.uploads.delete(upload)
    with pytest.raises(Exception, match="was deleted"):
        writer.keep()
    assert list(stock.store.names("uploads/")) == []


@pytest.mark.parametrize(
    ("settings", "status", "problem"),
    [
        ({"upload_bytes": 10}, 413, "too-large"),
        ({"free_bytes": 1 << 60}, 507, "storage-full"),
        ({"resumable_uploads": 1}, 429, "too-many-uploads"),
        ({"resumable_uploads_a_client": 1}, 429, "too-many-uploads"),
        ({"resumable_bytes_a_client": 10}, 429, "upload-quota"),
    ],
)
def test_limits(tmp_path: Path, settings: dict[str, int], status: int, problem: str) -> None:
    stock = Stock(tmp_path, limits=settings)
    with connected(stock) as http:
        if problem == "too-many-uploads":
            begun(http)
        answers = [http.post("/v1/uploads", content=b"x" * 11)]
        if problem in ("too-large", "upload-quota"):
            path = begun(http)
            answers += [append(http, path, 0, b"x" * 11), append(http, path, 0, b"x", Upload_Length="11")]
        for answer in answers:
            assert (answer.status_code, answer.json()["type"]) == (status, f"/problems/{problem}"), answer.text
    stock.close()


@pytest.mark.parametrize("chunks", [[200_000] * 3, [200_000, 140_000], [200_000]])
def test_the_reserve_is_kept_while_bytes_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks: list[int]
) -> None:
    """Also the last bytes of a body whose size was not announced must have space."""
    monkeypatch.setattr(ArrowJournal, "free_bytes", lambda _: 2 * MIB + 199_999)
    stock = Stock(tmp_path, limits={"free_bytes": MIB})
    with connected(stock) as http:
        path = begun(http)
        full = append(http, path, 0, iter([DATA[:size] for size in chunks]))
        assert (full.status_code, offset(http, path)) == (507, 0)
        assert append(http, path, 0, iter([DATA[:199_999]])).status_code == 204
    stock.close()


def test_a_quota_holds_for_all_uploads_of_a_client_and_what_is_announced(tmp_path: Path) -> None:
    stock = Stock(tmp_path, limits={"resumable_bytes_a_client": 100})
    with connected(stock) as http:
        announced = begun(http, Upload_Length="60")
        assert append(http, announced, 0, b"x" * 10).status_code == 204
        unknown = begun(http)
        assert append(http, unknown, 0, iter([b"x" * 30])).status_code == 204
        over = append(http, unknown, 30, iter([b"x" * 5, b"x" * 6]))
        assert (over.status_code, over.json()["type"]) == (429, "/problems/upload-quota")
        assert (over.json()["limit"], over.json()["used"], over.headers["retry-after"]) == (100, 90, "60")
        assert offset(http, unknown) == 30
        assert append(http, unknown, 30, b"", Upload_Length="41").status_code == 429
        assert append(http, unknown, 30, iter([b"x" * 10]), "?1").status_code == 204
        stock.gateway.uploads.create("key:other", 100)
        http.delete(announced)
        begun(http, Upload_Length="60")
    stock.close()


def test_a_client_lists_its_uploads_and_an_operator_all(stock: Stock, http: httpx.Client) -> None:
    own = [begun(http, Upload_Length=f"{size}").rpartition("/")[2] for size in (1, 2, 3)]
    other = stock.gateway.uploads.create("key:other", 9).record.id
    expired = stock.gateway.uploads.create("key:other", 9)
    expired.record = replace(expired.record, expires_at=1)
    first = http.get("/v1/uploads?limit=3")
    assert {each["owner"] for each in first.json()["items"]} == {"anonymous:anonymous", "key:other"}
    rest = http.get("/v1/uploads", params={"cursor": first.json()["next"]})
    listed = [each["id"] for answer in (first, rest) for each in answer.json()["items"]]
    assert (sorted(listed), rest.json()["next"]) == (sorted([*own, other]), None)
    assert http.get("/v1/uploads?cursor=x").status_code == 422
    assert [each.record.id for each in stock.gateway.uploads.of("key:other")] == [other]


def test_metrics_count_uploads(stock: Stock, http: httpx.Client) -> None:
    append(http, begun(http), 0, b"abc")
    begun(http)
    stock.gateway.uploads.expire()
    text = stock.gateway.metrics.text().decode()
    for line in ("uploads 2.0", "uploads_bytes 3.0", "uploads_expired_total 0.0"):
        assert f"\nattachment_gateway_{line}\n" in text


def test_messages_name_uploads_in_place_of_parts(stock: Stock, http: httpx.Client) -> None:
    upload = http.post(
        "/v1/uploads", content=parquet(pupils(), 100), headers={"Content-Disposition": "; filename=p.parquet"}
    )
    message = {
        "destination": "partner",
        "uploads": {"table": upload.json()["id"]},
        "attachments": [{"part": "table", "name": "WORK.PUPILS"}, {"part": "note", "name": "note.txt"}],
    }
    parts: dict[str, Any] = {"message": (None, json.dumps(message), "application/json"), "note": ("n", b"note")}
    answer = http.post("/v1/messages", files=parts)
    assert answer.status_code == 202, answer.text
    assert [(each["name"], each["kind"]) for each in answer.json()["attachments"]] == [
        ("PUPILS", "data-set"),
        ("note.txt", "text-file"),
    ]
    rehearsed = http.post("/v1/messages?dry_run=true", json=message | {"attachments": [{"part": "table"}]})
    assert rehearsed.json()["attachments"][0]["data_set"]["format"] == "parquet"
    record = stock.catalog.delivery(answer.json()["id"])
    assert record is not None
    assert set(stock.store.names("outgoing/")) == {each.object_name for each in record.attachments}


def test_a_message_continues_the_trace_of_its_request_or_of_its_upload(stock: Stock, http: httpx.Client) -> None:
    ours, uploads = (f"00-{number * 32}-{number * 16}-01" for number in "12")
    path = begun(http, traceparent=uploads)
    append(http, path, 0, b"abc", "?1")
    message = {"destination": "partner", "uploads": {"f": path.rpartition("/")[2]}, "attachments": [{"part": "f"}]}
    stock.gateway.uploads = _as_after_a_restart(stock)
    given: list[tuple[list[tuple[str, str]], str]] = [
        ([("traceparent", ours)], ours),
        ([], uploads),
        ([("traceparent", ours), ("traceparent", ours)], uploads),
        ([("traceparent", ours.upper().replace("1", "A"))], uploads),
    ]
    for headers, expected in given:
        answer = http.post("/v1/messages", json=message, headers=headers).raise_for_status().json()
        assert answer["trace_parent"] == expected
        assert http.get(f"/v1/deliveries/{answer['id']}").json()["trace_parent"] == expected


def _as_after_a_restart(stock: Stock) -> Uploads:
    return Uploads(stock.store, stock.clock, 10**12, stock.gateway.settings.limits, stock.gateway.metrics)


def _unknown(http: httpx.Client) -> str:
    del http
    return "0" * 32


def _unfinished(http: httpx.Client) -> str:
    return begun(http, Upload_Length="3").rpartition("/")[2]


@pytest.mark.parametrize(
    ("upload", "says"),
    [(_unknown, "there is no upload with this identifier"), (_unfinished, "not complete: 0 of 3 bytes")],
)
def test_uploads_that_cannot_be_sent(
    stock: Stock, http: httpx.Client, upload: Callable[[httpx.Client], str], says: str
) -> None:
    answer = sent(http, f"/{upload(http)}")
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid")
    assert answer.json()["errors"][0]["pointer"] == "#/uploads/file"
    assert says in answer.json()["detail"]
    assert list(stock.store.names("outgoing/")) == []


def test_descriptions_that_do_not_fit_their_uploads(http: httpx.Client) -> None:
    unused = {"destination": "partner", "uploads": {"x": "0" * 32}, "attachments": [{"part": "y"}]}
    assert "'x' of uploads" in http.post("/v1/messages", json=unused).json()["detail"]
    absent = {"destination": "partner", "attachments": [{"part": "y"}]}
    assert "there is no part 'y'" in http.post("/v1/messages", json=absent).json()["detail"]
    long = http.post("/v1/messages", content=b" " * 70_000, headers={"Content-Type": "application/json"})
    assert long.status_code == 413
    assert http.post("/v1/messages", content=b"\xff", headers={"Content-Type": "application/json"}).status_code == 400
