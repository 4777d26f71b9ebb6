"""Uploads, downloads and clients that do not read keep nothing else waiting; their numbers are limited."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from select import select
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from adapters.arrow_journal import ArrowJournal
from app.model.attachment import AttachmentKind
from app.model.records import Checkpoint, NewEvent
from app.testing.waiting import until
from app.web.app import create_app
from app.web.server.http_protocol import LimitedProtocol
from app.web.server.thread_pools import TRANSFER_THREADS
from tests.support.tables import parquet
from tests.web.raw import opened
from tests.web.stock import Stock, serving

KIB, MIB = 1 << 10, 1 << 20
PARQUET = "application/vnd.apache.parquet"
ALL_THREADS = 45
"""More than all threads for short work, which are 40."""


def status(client: socket.socket) -> int:
    """The status of the response that comes."""
    return int(client.recv(13).split(b" ")[1])


def begin_upload(client: socket.socket, size: int) -> None:
    """Send the head of an upload of so many bytes; return when the gateway has accepted it and waits for them."""
    client.sendall(upload(size)[:-2] + b"Expect: 100-continue\r\n\r\n")
    assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"


def answers(client: socket.socket, number: int) -> list[bytes]:
    """The contents of the responses that come, which all have a length."""
    found, reading = [], client.makefile("rb")
    for _ in range(number):
        length = 0
        while (field := reading.readline().lower()) != b"\r\n":
            if field.startswith(b"content-length:"):
                length = int(field.split(b":")[1])
        found.append(reading.read(length))
    return found


def is_closed(client: socket.socket) -> bool:
    try:
        while client.recv(MIB):
            pass
    except ConnectionError:
        return True
    return True


@contextmanager
def limited(folder: Path, limits: dict[str, Any], **http: Any) -> Iterator[tuple[Stock, str]]:
    stock = Stock(folder, limits=limits, http=http)
    with serving(create_app(stock.gateway)) as address:
        yield stock, address
    stock.close()


def asking(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def upload(size: int) -> bytes:
    """The head of a request that sends a file of so many bytes."""
    return f"PUT /v1/files/partner/a.bin HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode()


@pytest.mark.parametrize("transfer", ["download", "upload"])
def test_lists_and_health_do_not_wait_for_a_slow_store(tmp_path: Path, transfer: str) -> None:
    with limited(tmp_path, {}) as (stock, address), ExitStack() as stack:
        path = f"/v1/attachments/{stock.stored(b'x').id}/content"
        request = asking(path) if transfer == "download" else upload(1) + b"x"
        goes_on, begun = Event(), 0
        stack.callback(goes_on.set)

        def waiting(given: Callable[..., Any]) -> Callable[..., Any]:
            def wait(*arguments: Any, **named: Any) -> Any:
                nonlocal begun
                begun += 1
                assert goes_on.wait(60)
                return given(*arguments, **named)

            return wait

        stack.enter_context(pytest.MonkeyPatch.context()).setattr(stock.store, "read", waiting(stock.store.read))
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(stock.store, "create", waiting(stock.store.create))
        clients = [stack.enter_context(opened(address)) for _ in range(ALL_THREADS)]
        for client in clients:
            client.sendall(request)
        until(lambda: begun >= TRANSFER_THREADS)
        sleep(0.2)  # for those that there should not be
        with httpx.Client(base_url=address, timeout=20) as others:
            for asked in ("/v1/attachments", "/health/ready", "/v1/deliveries", "/metrics"):
                assert others.get(asked).status_code in (200, 503), asked
        assert begun == TRANSFER_THREADS
        goes_on.set()
        assert {status(client) for client in clients} == {200 if transfer == "download" else 202}


def test_more_uploads_than_allowed_are_refused(tmp_path: Path) -> None:
    with limited(tmp_path, {"uploads": 1}) as (_, address), opened(address) as first:
        begin_upload(first, 4)
        with httpx.Client(base_url=address, timeout=20) as client:

            def sent() -> httpx.Response:
                return client.put("/v1/files/partner/b.bin", content=b"x")

            refused = sent()
            assert (refused.status_code, refused.json()["type"]) == (503, "/problems/busy")
            assert refused.headers["retry-after"] == "5"
            first.sendall(b"abcd")
            assert status(first) == 202
            assert sent().status_code == 202


def test_more_downloads_than_allowed_are_refused(tmp_path: Path) -> None:
    with limited(tmp_path, {"downloads": 1}) as (stock, address), httpx.Client(base_url=address, timeout=20) as client:
        path = f"/v1/attachments/{stock.stored(bytes(16 * MIB)).id}/content"
        with opened(address, receiving=4 * KIB) as reader:
            reader.sendall(asking(path))
            assert status(reader) == 200
            refused = client.get(path)
            assert (refused.status_code, refused.json()["type"]) == (503, "/problems/busy")
            assert client.head(path).status_code == 200
            assert client.get(path, headers={"Range": "bytes=0-99"}).status_code == 206, "it is sent at once"
        until(lambda: client.get(path).status_code == 200)


def test_what_an_upload_announces_is_kept_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ArrowJournal, "free_bytes", lambda _: 4 * MIB)
    with limited(tmp_path, {"free_bytes": MIB}) as (_, address), httpx.Client(base_url=address, timeout=20) as client:

        def sent() -> httpx.Response:
            return client.put("/v1/files/partner/b.bin", content=bytes(MIB))

        assert sent().status_code == 202
        with opened(address) as first:
            begin_upload(first, 3 * MIB // 2)
            assert sent().status_code == 507
        until(lambda: sent().status_code == 202)


def test_one_address_has_a_part_of_the_connections(tmp_path: Path) -> None:
    with limited(tmp_path, {}, connections_a_client=2) as (_, address), ExitStack() as stack:
        silent = [stack.enter_context(opened(address, source="127.0.0.2")) for _ in range(3)]
        closed, _, _ = select(silent, [], [], 10)
        assert len(closed) == 1, "an idle connection makes room for a new one of its address"
        busy = [client for client in silent if client not in closed]
        for client in busy:
            client.sendall(asking("/v1/events"))
            assert status(client) == 200
        for path, expected in (("/v1/caller", 503), ("/health/live", 200), ("/health/live", 200)):
            one_more = stack.enter_context(opened(address, source="127.0.0.2"))
            one_more.sendall(asking(path))
            assert status(one_more) == expected, "health has places of its own"
        other = stack.enter_context(opened(address, source="127.0.0.3"))
        other.sendall(asking("/health/live"))
        assert status(other) == 200


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[LimitedProtocol]:
    """All connections that are made, as the gateway sees them."""
    made: list[LimitedProtocol] = []
    begin = LimitedProtocol.__init__

    def noting(self: LimitedProtocol, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        made.append(self)

    monkeypatch.setattr(LimitedProtocol, "__init__", noting)
    return made


def sent_by_the_system(path: str, address: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Download content until it is sent by the system. Return what says how many bytes were sent so, since."""
    sent = 0
    send = os.sendfile

    def noting(*given: Any) -> int:
        nonlocal sent
        sent += (count := send(*given))
        return count

    monkeypatch.setattr(os, "sendfile", noting)
    with httpx.Client(base_url=address, timeout=20) as client:

        def is_sent() -> bool:
            whole = client.get(path)
            return sent >= len(whole.content)

        until(is_sent)
    sent = 0
    return lambda: sent


def open_sockets_and_objects() -> int:
    """The number of this process's descriptors of sockets and of files in a content store."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            target = str(each.readlink())
            found += target.startswith("socket:") or "/content/" in target
    return found


@pytest.mark.parametrize("again", [False, True], ids=["compared", "sent by the system"])
def test_a_slow_reader_is_served_and_one_that_does_not_read_is_dropped(
    tmp_path: Path, connections: list[LimitedProtocol], monkeypatch: pytest.MonkeyPatch, *, again: bool
) -> None:
    with limited(tmp_path, {}, stall_timeout=0.6) as (stock, address), ExitStack() as stack:
        path = f"/v1/attachments/{stock.stored(bytes(16 * MIB)).id}/content"
        if again:
            sent_by_the_system(path, address, monkeypatch)
            until(lambda: not connections[0].connections)
            connections.clear()
        reader = stack.enter_context(opened(address, receiving=16 * KIB))
        reader.sendall(asking(path))
        began = monotonic()
        while monotonic() - began < 1.5:
            assert reader.recv(32 * KIB)
            sleep(0.05)
        (connection,) = connections
        assert not connection.transport.is_closing(), "it takes some hundred KiB a second"
        until(lambda: connection not in connection.connections)
        assert is_closed(reader)


def test_the_system_sends_what_was_compared_whole_in_ranges_and_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = np.arange(6 * MIB + 5, dtype="<u4").tobytes()
    with limited(tmp_path, {}) as (stock, address), httpx.Client(base_url=address, timeout=20) as client:
        path = f"/v1/attachments/{stock.stored(data).id}/content"
        sent = sent_by_the_system(path, address, monkeypatch)
        assert client.get(path).content == data
        before_all = open_sockets_and_objects()
        for first, last in ((0, len(data) - 1), (MIB - 1, 9 * MIB + 3), (17, 300 * KIB), (23 * MIB, len(data) - 1)):

            def is_sent(first: int = first, last: int = last) -> bool:
                before = sent()
                part = client.get(path, headers={"Range": f"bytes={first}-{last}"})
                assert part.content == data[first : last + 1]
                return sent() - before == len(part.content)

            until(is_sent)  # not where the system has dropped the file from memory meanwhile
        several = client.get(path, headers={"Range": f"bytes=0-{MIB},{4 * MIB}-{5 * MIB}"})
        assert data[: MIB + 1] in several.content
        assert data[4 * MIB : 5 * MIB + 1] in several.content
        with opened(address) as reader:  # requests one after the other, whose answers come in order
            reader.sendall(asking(path) + asking("/v1/caller") + asking(path))
            assert answers(reader, 3) == [data, client.get("/v1/caller").content, data]
        for _ in range(3):
            with opened(address) as reader:
                reader.sendall(asking(path))
                assert status(reader) == 200
        assert client.get(path).content == data
        until(lambda: open_sockets_and_objects() == before_all)


def test_a_file_that_ends_early_is_not_taken_for_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with limited(tmp_path, {}) as (stock, address), opened(address, receiving=16 * KIB) as reader:
        record = stock.stored(bytes(16 * MIB))
        path = f"/v1/attachments/{record.id}/content"
        sent_by_the_system(path, address, monkeypatch)
        reader.sendall(asking(path))
        assert status(reader) == 200
        os.truncate(stock.store.local_path(record.object_name or "") or "", MIB)
        received = 0
        with suppress(ConnectionError):
            while piece := reader.recv(MIB):
                received += len(piece)
        assert received < 16 * MIB


def test_the_unread_rest_of_a_response_keeps_no_connection(tmp_path: Path, connections: list[LimitedProtocol]) -> None:
    with limited(tmp_path, {}, stall_timeout=0.3) as (stock, address), opened(address, receiving=4 * KIB) as reader:
        path = f"/v1/attachments/{stock.stored(bytes(20 * KIB)).id}/content"
        until(lambda: connections)
        (connection,) = connections
        transport = connection.transport
        while not (transport.get_write_buffer_size() or transport.is_closing()):
            reader.sendall(asking(path))
            until(lambda: connection.is_idle or transport.is_closing())
            sleep(0.005)
        assert transport.get_write_buffer_size() < connection.limits.stall_bytes
        until(lambda: connection not in connection.connections, 4)
        assert is_closed(reader)


def test_who_reads_a_conversion_slowly_frees_its_slot(tmp_path: Path) -> None:
    """It reads faster than what stalls, and still too slowly to have one of the few slots."""
    table = parquet(pa.table({"X": [f"{n:>400}" for n in range(50_000)]}), 5_000)
    timeout = {"stall_timeout": 1.0, "stall_bytes": 16 * KIB}
    with limited(tmp_path, {"conversions": 1}, **timeout) as (stock, address), ExitStack() as stack:
        client = stack.enter_context(httpx.Client(base_url=address, timeout=60))
        path = f"/v1/attachments/{stock.stored(table, PARQUET, kind=AttachmentKind.DATA_SET).id}/content?format=csv"
        assert client.get(path + "&limit=1").status_code == 200
        reader = stack.enter_context(opened(address, receiving=16 * KIB))
        reader.sendall(asking(path))
        assert status(reader) == 200

        def read() -> None:
            with suppress(OSError):
                while reader.recv(16 * KIB):
                    sleep(0.05)

        reading = Thread(target=read)
        reading.start()
        assert client.get(path + "&limit=1").status_code == 200
        reading.join(20)
        assert not reading.is_alive()


def test_a_whole_request_has_a_time_limit_and_event_streams_have_none(tmp_path: Path) -> None:
    with limited(tmp_path, {}, request_timeout=0.5) as (stock, address), ExitStack() as stack:
        sending, reading, listening = (stack.enter_context(opened(address, receiving=4 * KIB)) for _ in range(3))
        listening.sendall(asking("/v1/events"))
        assert status(listening) == 200
        reading.sendall(asking(f"/v1/attachments/{stock.stored(bytes(16 * MIB)).id}/content"))
        assert status(reading) == 200
        begin_upload(sending, 4)
        assert status(sending) == 408
        answer = sending.recv(MIB)
        assert b"/problems/request-timeout" in answer
        sleep(0.2)
        assert is_closed(reading)
        stock.catalog.checkpoint(Checkpoint(events=[NewEvent("attachment.finished", "later", 1, {})]))
        stock.gateway.notifier.notify()
        received = b""
        while b"later" not in received:
            received += (piece := listening.recv(MIB))
            assert piece, "the stream has ended"


def test_longer_targets_than_the_parser_takes_are_refused(tmp_path: Path) -> None:
    with limited(tmp_path, {}, header_bytes="1 MiB") as (_, address), opened(address) as client:
        client.sendall(asking("/" + "a" * 70_000))
        assert status(client) == 414


def test_what_is_cut_when_the_server_stops_may_be_sent_again_and_leaves_nothing(tmp_path: Path) -> None:
    stock = Stock(tmp_path)

    def kept() -> int:
        return sum(path.stat().st_size for path in (tmp_path / "content").rglob("*") if path.is_file())

    parts = b'--B\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n' + b"x" * MIB
    multipart = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=B\r\n"
    raw = b"PUT /v1/files/partner/f HTTP/1.1\r\nHost: localhost\r\n"
    rest = b"Content-Length: 3000000\r\n\r\n" + parts
    with ExitStack() as clients:
        with serving(create_app(stock.gateway), grace=1) as address:
            cut = [clients.enter_context(opened(address)) for _ in range(2)]
            for client, head in zip(cut, (multipart, raw), strict=True):
                client.sendall(head + rest)
            until(lambda: kept() > MIB)
        for client in cut:
            answer = client.makefile("rb").read().decode()
            assert answer.startswith("HTTP/1.1 503 ")
            assert "retry-after: 5" in answer.lower()
            assert '"type":"/problems/unavailable"' in answer
    until(lambda: kept() == 0)
    stock.close()
