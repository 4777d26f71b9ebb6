"""Hundreds of clients that are slow, closed one way, or nonsense: another one is told about health meanwhile."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from select import select
from threading import Event, Thread
from time import monotonic
from typing import Any, NamedTuple

import httpx
import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from app.testing.waiting import until
from app.web.app import create_app
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess
from tests.web.raw import answer, opened
from tests.web.stock import Stock, serving

pytestmark = pytest.mark.process

TOKEN = "known"
HASHED = sha256(TOKEN.encode()).hexdigest()
KNOWN = f"Authorization: Bearer {TOKEN}\r\n".encode()
CLIENTS, ADDRESSES = 500, ("127.0.0.2", "127.0.0.3")
AGAIN = 5
"""How many of those who were sent away come again in a fifth of a second: being slow costs them nothing."""
ASKED = 20
"""How often health is asked while all are connected. Who waits behind them gets no answer: they always come again."""

SIGN_IN = b"POST /v1/sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n"
UPLOAD = b"PUT /v1/files/away/a.bin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n"
LIST = b"GET /v1/attachments HTTP/1.1\r\nHost: localhost\r\n"


class Campaign(NamedTuple):
    """What each client sends at once, and then again and again."""

    first: bytes
    drip: bytes = b"x"
    is_half_closed: bool = False


CAMPAIGNS = {
    "heads": Campaign(LIST, b"X: y\r\n"),
    "heads byte by byte": Campaign(b"G", b"E"),
    "sign-in": Campaign(SIGN_IN),
    "uploads without a key": Campaign(UPLOAD + b"\r\n"),
    "uploads with a key": Campaign(UPLOAD + KNOWN + b"\r\n"),
    "event streams with a key": Campaign(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n" + KNOWN + b"\r\n", b""),
    "half-closed": Campaign(LIST + KNOWN + b"\r\n", is_half_closed=True),
    "half-closed uploads": Campaign(UPLOAD + KNOWN + b"\r\n", is_half_closed=True),
    "nonsense": Campaign(b"GET /x\r\n\r\n"),
    "other codings": Campaign(UPLOAD.replace(b"Content-Length: 9000", b"Transfer-Encoding: gzip, chunked") + b"\r\n"),
}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    http = f'tokens = ["{HASHED}"]\nheader_timeout = 3\n'
    oidc = '[oidc]\nissuer = "https://127.0.0.1:1"\naudience = "x"\nclient_id = "x"\n'
    away = '[destinations.away]\ntransport = "memory"\nqueue = "away"\n'
    with ForkedGateway(tmp_path_factory.mktemp("slow"), oidc + away, http=http) as process:
        yield process


class Crowd:
    """The clients, who come again when they are sent away."""

    def __init__(self, address: str, campaign: Campaign) -> None:
        self._address, self._campaign = address, campaign
        self._is_over, self.is_complete = Event(), Event()
        self._thread = Thread(target=self._run)
        self.failed: BaseException | None = None

    def __enter__(self) -> "Crowd":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with ExitStack() as stack:
                clients: list[Any] = [None] * CLIENTS
                may_come = CLIENTS
                while not self._is_over.wait(0.2):
                    for number in range(CLIENTS):
                        if not _goes_on(clients[number], self._campaign.drip) and may_come:
                            clients[number] = stack.enter_context(self._begun(ADDRESSES[number % 2]))
                            may_come -= 1
                    self.is_complete.set()
                    may_come = AGAIN
        except BaseException as error:
            self.failed = error
            self.is_complete.set()
            raise

    def _begun(self, source: str) -> Any:
        client = opened(self._address, source=source)
        client.setblocking(False)
        try:
            client.sendall(self._campaign.first)
            if self._campaign.is_half_closed:
                client.shutdown(1)
        except OSError:
            pass
        return client


def _goes_on(client: Any, drip: bytes) -> bool:
    """Send a bit more. Return whether the connection is still open; if not, close it."""
    if client is None:
        return False
    try:
        if client.recv(4096):
            return _goes_on(client, drip)
    except BlockingIOError:
        with suppress(OSError):
            client.send(drip)
        return True
    except OSError:
        pass
    client.close()
    return False


def descriptors(process: GatewayProcess) -> int:
    assert process.process is not None
    return len(list(Path(f"/proc/{process.process.pid}/fd").iterdir()))


@pytest.mark.parametrize("kind", CAMPAIGNS)
def test_health_is_told_whatever_slow_clients_do(process: GatewayProcess, kind: str) -> None:
    address = f"http://127.0.0.1:{process.port}"
    with Crowd(address, CAMPAIGNS[kind]) as crowd:
        assert crowd.is_complete.wait(60)
        for _ in range(ASKED):
            with opened(address, source="127.0.0.4") as client:
                client.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert answer(client).status == 200
    assert crowd.failed is None
    until(lambda: descriptors(process) < CLIENTS // 2)  # nobody who has left keeps a connection


def test_who_is_unknown_has_seconds_for_content_at_every_operation(tmp_path: Path) -> None:
    stock = Stock(
        tmp_path,
        http={"tokens": [HASHED], "header_timeout": 1, "stall_timeout": 300},
        oidc={"issuer": "https://127.0.0.1:1", "audience": "x", "client_id": "x"},
    )
    app = create_app(stock.gateway)
    operations = [
        (method, route.path)
        for route in (context.original_route for context in iter_route_contexts(app.routes))
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    ]
    assert len(operations) > 70
    begun = monotonic()
    with serving(app) as address, ExitStack() as stack:
        known = stack.enter_context(opened(address))
        known.sendall(UPLOAD.replace(b"away", b"partner") + KNOWN + b"\r\n")
        dripping = {}
        for method, path in operations:
            given = path if path.startswith(("/v1", "/health", "/docs", "/problems", "/metrics")) else f"/v1{path}"
            client = stack.enter_context(opened(address))
            client.sendall(f"{method} {given} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n".encode())
            dripping[client] = (method, given)
        while dripping and monotonic() - begun < 60:
            for client in list(dripping):
                try:
                    client.send(b"x")
                    if select([client], [], [], 0)[0] and not client.recv(4096):
                        del dripping[client]
                except OSError:
                    del dripping[client]
            known.send(b"x")
            assert not select([known], [], [], 0.05)[0], "who is known has the time of uploads"
        assert not dripping
        assert monotonic() - begun > 1
    stock.close()


def test_who_is_unknown_has_seconds_and_is_told_so(tmp_path: Path) -> None:
    stock = Stock(
        tmp_path,
        http={"tokens": [HASHED], "header_timeout": 0.5, "stall_timeout": 300},
        oidc={"issuer": "https://127.0.0.1:1", "audience": "x", "client_id": "x"},
    )
    with serving(create_app(stock.gateway)) as address:
        with opened(address) as client:
            client.sendall(SIGN_IN)
            while not select([client], [], [], 0.02)[0]:
                client.send(b" ")
            got = answer(client)
            assert (got.status, got.closes) == (408, True)
            assert json.loads(got.body)["type"] == "/problems/request-timeout"
        page = httpx.get(f"{address}/docs", timeout=60).text
        script = next(word.split('"')[1] for word in page.split("src=")[1:])
        with opened(address, receiving=4096) as reader:
            reader.sendall(f"GET {script} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 20)
            begun = monotonic()
            while monotonic() - begun < 60 and not _is_reset(reader):
                pass
            assert monotonic() - begun < 60, "who reads nothing has seconds, too"
    stock.close()


def _is_reset(client: Any) -> bool:
    """Return whether the other end has closed the connection, without reading from it."""
    select([], [], [], 0.05)
    try:
        client.send(b"\r\n")
    except OSError:
        return True
    return False
