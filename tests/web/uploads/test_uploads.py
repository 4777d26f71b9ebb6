"""Resumable uploads : broken and resumed, kept for a time, deleted."""

import asyncio
import socket
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from app.service.uploads import upload_store
from app.testing.waiting import until
from app.web.app import create_app
from app.web.resources.uploads.upload_receiving import Receivers
from tests.web.conftest import connected
from tests.web.stock import Stock, serving
from tests.web.uploads.uploading import (
    DATA,
    TUS,
    append,
    begun,
    content,
    metadata,
    offset,
    sent,
)


class Writing:
    """A client that announces all of its bytes, sends some of them, and waits."""

    def __init__(self, address: str, path: str, at: int, some: bytes, announced: int) -> None:
        host, port = address.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), 30)
        head = f"PATCH {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/offset+octet-stream\r\n"
        head += f"Tus-Resumable: 1.0.0\r\nUpload-Offset: {at}\r\nContent-Length: {announced}\r\n\r\n"
        self.socket.sendall(head.encode() + some)

    def kill(self) -> None:
        """Break the connection, without its end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def answer(self) -> bytes:
        with self.socket:
            return self.socket.recv(65536)


@pytest.mark.parametrize("kill", [True, False], ids=["broken", "stalled"])
def test_a_broken_upload_goes_on_where_it_ended(stock: Stock, tmp_path: Path, kill: bool) -> None:
    """A client that is gone without a word may still be connected, for the gateway; the next request ends it."""
    with serving(create_app(stock.gateway)) as address, httpx.Client(base_url=address, timeout=30) as http:
        path = begun(http, len(DATA))
        writing = Writing(address, path, 0, DATA[:700_000], len(DATA))
        folder = tmp_path / "content" / ".partial"
        until(lambda: any(each.stat().st_size > 262_144 for each in folder.iterdir()))
        if kill:
            writing.kill()
            until(lambda: http.get(path).json()["offset"] > 0)
        here = offset(http, path)
        assert 262_144 < here <= 700_000
        assert here == offset(http, path)
        if not kill:
            assert b"409 " in writing.answer().partition(b"\r\n")[0]
        again = append(http, path, here, DATA[here:])
        assert (again.status_code, again.headers["upload-offset"]) == (204, f"{len(DATA)}")
        assert again.headers["tus-resumable"] == "1.0.0"
        answer = sent(http, path)
        assert answer.status_code == 202, answer.text
        assert content(stock, answer.json()) == DATA
        (attachment,) = answer.json()["attachments"]
        assert (attachment["size"], attachment["sha256"]) == (len(DATA), sha256(DATA).hexdigest())


def test_another_offset_is_refused_with_the_right_one(stock: Stock, http: httpx.Client) -> None:
    path = begun(http)
    assert append(http, path, 0, b"abc").status_code == 204
    wrong = append(http, path, 2, b"c")
    assert (wrong.status_code, wrong.headers["upload-offset"], wrong.headers["tus-resumable"]) == (409, "3", "1.0.0")
    problem = wrong.json()
    assert problem["type"] == "/problems/mismatching-upload-offset"
    assert problem["detail"] == "the upload must continue at byte 3, not at 2"
    assert append(http, path, 4, b"c").status_code == 409
    assert append(http, path, 3, b"d", Upload_Length="4").status_code == 204
    more = append(http, path, 4, b"e")
    assert (more.status_code, more.json()["type"]) == (400, "/problems/inconsistent-upload-length")
    assert append(http, path, 4, b"").status_code == 204
    assert content(stock, sent(http, path).json()) == b"abcd"


def test_of_two_writers_the_newer_one_goes_on(stock: Stock) -> None:
    app = create_app(stock.gateway)
    with serving(app) as address, httpx.Client(base_url=address, timeout=30) as http:
        path = begun(http, 100)
        older = Writing(address, path, 0, b"x" * 10, 100)
        until(lambda: app.state.receivers._tasks)
        assert append(http, path, 50, b"y" * 5).status_code == 409
        assert b"409 " in older.answer().partition(b"\r\n")[0]
        assert not app.state.receivers._tasks
        here = offset(http, path)
        assert here in (0, 10), "all that had arrived"
        older = Writing(address, path, here, b"", 100 - here)
        until(lambda: app.state.receivers._tasks)
        assert append(http, path, here, b"z" * (100 - here)).status_code == 204
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
            path = begun(http, 10)
            writers = [Writing(address, path, 0, b"x" * 10, 10) for _ in range(5)]
            told = [writer.answer().split()[1] for writer in writers]
            assert set(told) <= {b"204", b"409"}
            assert offset(http, path) == 10


def test_what_a_restarted_gateway_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects of no upload are removed; those that a killed request left to an upload are removed with it."""
    monkeypatch.setattr(upload_store, "PIECE_BYTES", 1000)
    stock = Stock(tmp_path)
    with connected(stock) as http:
        path = begun(http, 4000, Upload_Metadata=metadata(filename="ä.txt", filetype="text/plain"))
        assert append(http, path, 0, DATA[:2500]).headers["upload-offset"] == "2500"
    upload_id = path.rpartition("/")[2]
    left = f"uploads/{upload_id}/{9000:016x}-1"
    for name in (left, "uploads/none/0000000000000000-1"):
        with stock.store.create(name) as target:
            target.write(b"stray")
    stock.close()
    again = Stock(tmp_path)
    with connected(again) as http:
        head = http.head(path, headers=TUS)
        assert (head.status_code, head.headers["upload-offset"], head.headers["upload-length"]) == (200, "2500", "4000")
        assert head.headers["upload-metadata"] == metadata(filename="ä.txt", filetype="text/plain")
        again.gateway.uploads.expire()
        pieces = [f"uploads/{upload_id}/{at:016x}-1" for at in (0, 1000, 2000)]
        assert sorted(again.store.names("uploads/")) == [*pieces, left]
        assert append(http, path, 2500, DATA[2500:4000]).status_code == 204
        answer = sent(http, path)
        assert content(again, answer.json()) == DATA[:4000]
        (attachment,) = answer.json()["attachments"]
        assert (attachment["name"], attachment["kind"]) == ("ä.txt", "text-file")
        assert http.delete(path).status_code == 204
        assert list(again.store.names("uploads/")) == []
    again.close()


def test_an_upload_expires(stock: Stock, http: httpx.Client) -> None:
    path, other = begun(http), begun(http)
    assert append(http, path, 0, b"abc").status_code == 204
    stock.clock.advance(25 * 3600)
    fresh = begun(http)
    for answer in (http.get(path), http.head(path, headers=TUS), append(http, path, 3, b"d"), http.delete(other)):
        assert answer.status_code == 404
    assert "no upload" in sent(http, path).json()["detail"]
    stock.gateway.uploads.expire()
    assert list(stock.store.names("uploads/")) == []
    assert [each["id"] for each in http.get("/v1/uploads").json()["items"]] == [fresh.rpartition("/")[2]]


def test_a_clock_that_is_set_forward_makes_no_upload_older(stock: Stock, http: httpx.Client) -> None:
    path = begun(http)
    assert append(http, path, 0, b"abc").status_code == 204
    stock.clock.fixed = stock.clock.now() + 25 * 3600 * 1_000_000
    stock.gateway.uploads.expire()
    assert append(http, path, 3, b"d").status_code == 204
    assert [each["id"] for each in http.get("/v1/uploads").json()["items"]] == [path.rpartition("/")[2]]


def test_a_sent_upload_stays_for_an_hour_so_that_its_request_can_be_repeated(stock: Stock, http: httpx.Client) -> None:
    path = begun(http, 3)
    append(http, path, 0, b"abc")
    message = {"destination": "partner", "uploads": {"f": path.rpartition("/")[2]}, "attachments": [{"part": "f"}]}
    answers = [http.post("/v1/messages", json=message, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert answers[1].headers["idempotency-replayed"] == "true"
    assert len(http.get("/v1/deliveries").json()["items"]) == 1
    stock.clock.advance(3601)
    assert http.get(path).status_code == 404
    stock.gateway.uploads.expire()
    assert list(stock.store.names("uploads/")) == []
    assert content(stock, answers[0].json()) == b"abc"


def test_termination(stock: Stock, http: httpx.Client) -> None:
    path = begun(http, 3)
    append(http, path, 0, b"ab")
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
