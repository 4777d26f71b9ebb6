"""The client library against a gateway that is served, with and without an event loop, over connections that break."""

import asyncio
import inspect
import io
import os
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from attachment_gateway_client import (
    AsyncClient,
    Client,
    ContentChanged,
    DigestMismatch,
    File,
    InvalidPath,
    Problem,
    Unreachable,
    calls,
    sending,
)
from attachment_gateway_client.events import EventReader

from app.model.attachment import AttachmentKind, DeliveryState
from app.model.records import Checkpoint, NewEvent
from app.testing.waiting import until
from app.web.app import create_app
from tests.support import http_server
from tests.support.breaking import breaking
from tests.support.tables import parquet, pupils
from tests.web.stock import Stock, serving

LARGE = bytes(range(256)) * 20_000


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat without long pauses."""
    monkeypatch.setattr(calls, "LONGEST_PAUSE", 0.02)


@pytest.fixture
def address(stock: Stock) -> Iterator[str]:
    with serving(create_app(stock.gateway)) as address:
        yield address


class Both:
    """Either client, called in the same way."""

    def __init__(self, is_async: bool, url: str, token: str | None = None) -> None:
        self._is_async, self._url, self._token = is_async, url, token

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given, **how: self._call(name, given, how)

    def streamed(self, path: str) -> None:
        """Open the body of a response, which the methods of the clients do with `async with` or `with`."""
        if self._is_async:
            asyncio.run(self._stream(path))
            return
        with Client(self._url, self._token) as client, client.stream(path):
            pass

    async def _stream(self, path: str) -> None:
        async with AsyncClient(self._url, self._token) as client, client.stream(path):
            pass

    def _call(self, name: str, given: tuple[Any, ...], how: dict[str, Any]) -> Any:
        most = how.pop("first", None)
        if self._is_async:
            return asyncio.run(self._awaited(name, given, how, most))
        with Client(self._url, self._token) as client:
            result = getattr(client, name)(*given, **how)
            if not inspect.isgenerator(result):
                return result
            found = list(islice(result, most))
            result.close()
            return found

    async def _awaited(self, name: str, given: tuple[Any, ...], how: dict[str, Any], most: int | None) -> Any:
        async with AsyncClient(self._url, self._token) as client:
            result = getattr(client, name)(*given, **how)
            if inspect.isawaitable(result):
                return await result
            found: list[Any] = []
            async for item in result:
                found.append(item)
                if len(found) == most:
                    break
            await result.aclose()
            return found


BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def content(stock: Stock, delivery: dict[str, Any]) -> list[bytes]:
    record = stock.catalog.delivery(delivery["id"])
    assert record is not None
    return [b"".join(stock.store.read(each.object_name)) for each in record.attachments]


@BOTH
def test_listing_goes_over_all_pages(stock: Stock, address: str, is_async: bool) -> None:
    made = {stock.attachment().id for _ in range(120)}
    client = Both(is_async, address)
    assert {each["id"] for each in client.attachments()} == made
    assert len(client.attachments(most=101)) == 101
    assert client.attachments(state="finished") == []
    assert client.deliveries() == client.messages() == client.quarantine() == client.tables() == []


@BOTH
def test_a_small_file_is_sent_in_one_request(stock: Stock, address: str, tmp_path: Path, is_async: bool) -> None:
    (tmp_path / "ä.txt").write_bytes(b"one")
    two = File(b"two", "two.bin", kind="binary-file", description="second")
    told: list[tuple[str, int]] = []
    client = Both(is_async, address)
    how = {"message": "hello", "description": "both", "progress": lambda part, sent: told.append((part, sent))}
    delivery = client.send("partner", tmp_path / "ä.txt", two, **how)
    assert content(stock, delivery) == [b"one", b"two"]
    assert [(each["name"], each["description"]) for each in delivery["attachments"]] == [
        ("ä.txt", "both"),
        ("two.bin", "second"),
    ]
    assert told == [("file-0", 3), ("file-1", 3)]
    assert client.delivery(delivery["id"][:12])["state"] == "queued"
    assert client.cancel(delivery["id"])["state"] == "cancelled"
    assert client.retry(delivery["id"])["state"] == "queued"
    assert list(stock.store.names("uploads/")) == []


@BOTH
def test_a_large_file_is_resumed(stock: Stock, address: str, tmp_path: Path, is_async: bool) -> None:
    (tmp_path / "large.bin").write_bytes(LARGE)
    told: list[int] = []
    with breaking(address, sent=1_500_000, times=2) as relay:
        client = Both(is_async, relay.url)
        how = {"resumable_from": 1000, "progress": lambda _part, sent: told.append(sent)}
        delivery = client.send("partner", tmp_path / "large.bin", File(b"small", "small.txt"), **how)
    assert relay.broken == 2
    assert content(stock, delivery) == [LARGE, b"small"]
    assert delivery["attachments"][0]["sha256"] == sha256(LARGE).hexdigest()
    assert len(LARGE) in told
    assert list(stock.store.names("uploads/")) == [], "it is deleted once it is sent"


@BOTH
def test_a_message_is_sent_once_though_its_response_was_lost(stock: Stock, address: str, is_async: bool) -> None:
    with breaking(address, received=1) as relay:
        delivery = Both(is_async, relay.url).send("partner", File(b"x", "x.txt"))
    assert relay.broken == 1
    assert [each["id"] for each in Both(is_async, address).deliveries()] == [delivery["id"]]


@BOTH
def test_what_cannot_be_sent_is_a_problem_and_leaves_no_upload(stock: Stock, address: str, is_async: bool) -> None:
    client = Both(is_async, address)
    with pytest.raises(Problem) as unknown:
        client.send("nowhere", File(LARGE, "x"), resumable_from=1000)
    assert (unknown.value.type, unknown.value.status) == ("/problems/unknown-destination", 422)
    assert unknown.value.members["known"]
    assert list(stock.store.names("uploads/")) == []
    with pytest.raises(Problem, match="no attachment with the identifier"):
        client.attachment("none")
    with pytest.raises(OSError, match="not a regular file"):
        client.send("partner", stock.settings.data)


@BOTH
def test_a_dry_run(address: str, stock: Stock, is_async: bool) -> None:
    draft, parts = sending.described("partner", [File(parquet(pupils(), 5), "pupils.parquet")])
    rehearsal = Both(is_async, address).dry_run(draft, parts)
    assert rehearsal["attachments"][0]["data_set"]["observations"] == len(pupils())
    assert Both(is_async, address).deliveries() == []


@BOTH
def test_content_is_fetched_over_a_connection_that_breaks(
    stock: Stock, address: str, tmp_path: Path, is_async: bool
) -> None:
    record = stock.stored(LARGE)
    target = tmp_path / "fetched"
    told: list[int] = []
    with breaking(address, received=1_500_000, times=2) as relay:
        Both(is_async, relay.url).fetch(record.id, target, told.append)
    assert relay.broken == 2
    assert target.read_bytes() == LARGE
    assert told[-1] == len(LARGE)
    assert sorted(each.name for each in tmp_path.glob("fetched*")) == ["fetched"]
    with breaking(address, received=1_500_000) as relay:
        stream = io.BytesIO()
        Both(is_async, relay.url).fetch(record.id, stream)
    assert stream.getvalue() == LARGE


@BOTH
def test_a_download_of_a_client_that_asks_too_often_waits(tmp_path: Path, is_async: bool) -> None:
    stock = Stock(tmp_path / "limited", http={"requests_a_second": 1})
    record = stock.stored(LARGE)
    with serving(create_app(stock.gateway)) as address, httpx.Client(base_url=address, timeout=60) as other:
        known = other.get(f"/v1/attachments/{record.id}").json()
        until(lambda: other.get("/v1/attachments").status_code == 429)
        Both(is_async, address).fetch(known, tmp_path / "fetched")
    assert (tmp_path / "fetched").read_bytes() == LARGE


@BOTH
def test_an_earlier_download_goes_on(stock: Stock, address: str, tmp_path: Path, is_async: bool) -> None:
    record = stock.stored(LARGE)
    client, target, part = Both(is_async, address), tmp_path / "f", tmp_path / "f.part"
    part.write_bytes(LARGE[:1000])
    client.fetch(record.id, target)
    assert target.read_bytes() == LARGE
    part.write_bytes(b"another" * 100)
    with pytest.raises(DigestMismatch):
        client.fetch(record.id, target)
    assert not part.exists()
    part.write_bytes(LARGE[:1000])
    changed = {**client.attachment(record.id), "sha256": "0" * 64}
    with pytest.raises(ContentChanged):
        client.fetch(changed, target)
    with pytest.raises(ValueError, match="is receiving and has no content"):
        client.fetch(stock.attachment().id, target)


@BOTH
def test_no_file_takes_the_place_of_a_pipe_or_a_link(
    stock: Stock, address: str, tmp_path: Path, is_async: bool
) -> None:
    record = stock.stored(b"a few bytes")
    client, pipe, link = Both(is_async, address), tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    client.fetch(record.id, pipe)
    assert os.read(reading, 100) == b"a few bytes"
    os.close(reading)
    assert pipe.is_fifo()
    link.symlink_to(tmp_path / "linked")
    client.fetch(record.id, link)
    assert link.is_symlink()
    assert (tmp_path / "linked").read_bytes() == b"a few bytes"


@BOTH
def test_content_in_another_format(stock: Stock, address: str, is_async: bool) -> None:
    record = stock.stored(parquet(pupils(), 100), "application/vnd.apache.parquet", kind=AttachmentKind.DATA_SET)
    csv = Both(is_async, address).read(record.id, format="csv")
    assert csv.count(b"\n") == len(pupils()) + 1


@BOTH
def test_waiting(stock: Stock, address: str, monkeypatch: pytest.MonkeyPatch, is_async: bool) -> None:
    monkeypatch.setattr(sending, "WAIT_SECONDS", 1)
    client = Both(is_async, address)
    finished = stock.stored(b"x")
    assert client.wait_for_attachment(finished.id)["state"] == "finished"
    delivery = client.send("partner", File(b"x", "x"))
    for seconds in (0, 0.4, 1.5):
        assert client.wait_for_delivery(delivery["id"], seconds)["state"] == "queued"
    record = stock.catalog.delivery(delivery["id"])
    assert record is not None
    cancelling = Thread(target=stock.gateway.deliveries.cancel, args=(record,))
    cancelling.start()
    assert client.wait_for_delivery(delivery["id"])["state"] == DeliveryState.CANCELLED
    cancelling.join()


@BOTH
def test_events_go_on_over_connections_that_break(stock: Stock, address: str, is_async: bool) -> None:
    for number in range(60):
        stock.catalog.checkpoint(
            Checkpoint(events=[NewEvent("attachment.finished", f"{number}", 1, {"source": "orders"})])
        )
    with breaking(address, received=3000, times=3) as relay:
        found = Both(is_async, relay.url).events(after=0, type="attachment.finished", first=60)
    assert relay.broken == 3
    assert [event["subject"] for event in found] == [f"{number}" for number in range(60)]
    with pytest.raises(Problem):
        Both(is_async, address).events(after=-1, first=1)


def test_a_stream_tells_its_number_before_any_event(address: str, stock: Stock) -> None:
    """So a client that is cut off before the first event misses none."""
    stock.catalog.checkpoint(Checkpoint(events=[NewEvent("attachment.finished", "x", 1, {})]))
    reader = EventReader()
    with Client(address) as client, client.stream("events") as response:
        for line in response.iter_lines():
            reader.feed(line)
            if not line:
                break
    assert reader.last == stock.catalog.event_logs().identify(stock.catalog.last_event())
    assert reader.headers["Last-Event-ID"] == reader.last
    assert reader.parameters == {"after": None}


@BOTH
def test_a_gateway_that_is_not_there(is_async: bool, tmp_path: Path) -> None:
    client = Both(is_async, "http://127.0.0.1:9")
    attempts: list[Callable[[], Any]] = [
        lambda: client.attachment("x"),
        lambda: client.send("partner", File(b"x", "x")),
        lambda: client.send("partner", File(b"x" * 20, "x"), resumable_from=10),
        lambda: client.events(first=1),
    ]
    for call in attempts:
        with pytest.raises(Unreachable, match="no gateway at") as away:
            call()
        assert away.value.is_refused
    with pytest.raises(ValueError, match="is not the URL of a gateway"):
        Client("gateway:8080")


def test_the_token_is_sent(tmp_path: Path) -> None:
    stock = Stock(tmp_path, http={"tokens": [sha256(b"secret").hexdigest()]})
    with serving(create_app(stock.gateway)) as address:
        with pytest.raises(Problem) as refused:
            Both(is_async=False, url=address).attachments()
        assert refused.value.status == 401
        for is_async in (False, True):
            assert Both(is_async, address, "secret").attachments() == []
    stock.close()


def test_tokens_in_a_file_are_accepted_as_the_file_is_now(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{sha256(b'first').hexdigest()}\n")
    stock = Stock(tmp_path, http={"tokens_file": str(file)})
    with serving(create_app(stock.gateway)) as address:
        for accepted, other in (("first", "second"), ("second", "first")):
            file.write_text(f"{sha256(accepted.encode()).hexdigest()}\n")
            assert Both(False, address, accepted).attachments() == []
            with pytest.raises(Problem) as refused:
                Both(False, address, other).attachments()
            assert refused.value.status == 401
    stock.close()


def test_both_clients_have_the_same_methods() -> None:
    def signatures(client: type) -> dict[str, list[str]]:
        public = {name: value for name, value in vars(client).items() if not name.startswith("_")}
        return {name: list(inspect.signature(value).parameters) for name, value in public.items()}

    assert signatures(Client) == signatures(AsyncClient)


@pytest.mark.parametrize(
    ("status", "word", "is_temporary"),
    [(503, "unavailable", True), (503, "not-served", False), (429, "rate-limited", True), (404, "not-found", False)],
)
def test_a_request_is_repeated_only_where_that_can_help(status: int, word: str, *, is_temporary: bool) -> None:
    assert Problem(status, {"type": f"/problems/{word}"}).is_temporary is is_temporary


@BOTH
def test_only_the_gateway_gets_the_token(is_async: bool) -> None:
    came: list[tuple[str, str | None]] = []

    class Other(http_server.Handler):
        def do_GET(self) -> None:
            came.append((self.path, self.headers["Authorization"]))
            self.answer(200, b'{"items": [], "next": null}')

    class Gateway(Other):
        def do_GET(self) -> None:
            if self.path.startswith("/gw/v1/moved"):
                self.answer(307, headers={"Location": elsewhere})
            else:
                super().do_GET()

    with http_server.serving(Other) as other, http_server.serving(Gateway) as port:
        elsewhere, url = f"http://127.0.0.1:{other}/gw/v1/attachments", f"http://127.0.0.1:{port}/gw"
        client = Both(is_async, url, "secret")
        refused = (elsewhere, f"/{elsewhere}", f"http://localhost:{port}/gw/v1/x", f"{url}/v2/x", "../x", "x/../../x")
        for path in refused:
            for call in (client.get, partial(client.request, "GET"), client.pages, client.streamed):
                with pytest.raises(InvalidPath, match="it is not below http://127"):
                    call(path)
        with pytest.raises(InvalidPath):
            client.request("GET", "moved", follow_redirects=True)
        for call in (client.get, client.pages, client.streamed):
            with pytest.raises(Problem, match=f"it is at {elsewhere}"):
                call("moved")
        assert came == []
        for path in ("x", "/x", f"{url}/v1/x"):
            assert client.pages(path) == []
    assert came == [("/gw/v1/x?limit=100", "Bearer secret")] * 3
