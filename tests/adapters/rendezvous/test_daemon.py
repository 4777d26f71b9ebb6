"""The daemon of the tests behaves as the recorded one, byte for byte, and as is known of it."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from app.codecs.rendezvous.tibrv_message import Field, decode_message, encode_message
from app.testing.waiting import until
from tests.support.rendezvous_daemon import (
    AGREEMENT,
    REQUEST,
    RESPONSE,
    VERSION,
    RendezvousDaemon,
    envelope,
    matches,
    session_of,
)

RECORDED = json.loads(Path("tests/vectors/rendezvous/rvwire_session.json").read_text())["frames"]


class Client:
    """A socket that speaks frames."""

    def __init__(self, daemon: RendezvousDaemon) -> None:
        self.stream = socket.create_connection(("127.0.0.1", daemon.port), timeout=10)

    def read(self, size: int) -> bytes:
        data = b""
        with suppress(ConnectionResetError):
            while len(data) < size and (more := self.stream.recv(size - len(data))):
                data += more
        return data

    def frame(self) -> dict[str | None, Field]:
        head = self.read(8)
        return {field.name: field for field in decode_message(head + self.read(int.from_bytes(head[:4], "big") - 8))}

    def say(self, kind: str, subject: str) -> None:
        self.stream.sendall(encode_message([Field("mtype", 0, "STRING", kind), Field("sub", 0, "SUBJECT", subject)]))

    def initialise(self, service: str = "7500", network: str = "", session: str = "") -> None:
        own = [("mtype", "I"), ("userid", "me"), ("service", service), ("network", network)]
        own += [("session", session)] if session else []
        self.stream.sendall(encode_message([Field(name, 0, "STRING", text) for name, text in own]))

    def connect(self, session: str) -> "Client":
        assert self.read(12) == VERSION
        self.stream.sendall(VERSION)
        assert self.read(64) == REQUEST
        self.stream.sendall(RESPONSE)
        assert self.read(64) == AGREEMENT
        self.initialise()
        assert self.frame()["sub"].value == "RVD.INITRESP"
        self.initialise(session=session)
        assert self.frame()["sub"].value == "_RV.INFO.SYSTEM.RVD.CONNECTED"
        return self


@pytest.fixture
def client() -> Iterator[Callable[[RendezvousDaemon], Client]]:
    """Makes clients, which are closed in the end."""
    with ExitStack() as opened:

        def made(daemon: RendezvousDaemon) -> Client:
            new = Client(daemon)
            opened.callback(new.stream.close)
            return new

        yield made


Clients = Callable[[RendezvousDaemon], Client]


@pytest.fixture
def daemon() -> Iterator[RendezvousDaemon]:
    with RendezvousDaemon() as running:
        yield running


def test_a_recorded_session_goes_as_it_went(daemon: RendezvousDaemon, client: Clients) -> None:
    said = iter(["660C7BDD789F4", "660C7BDE9F9EA"])
    daemon.unique = lambda: next(said)
    clients: dict[int, Client] = {}
    for number, speaker, data in session_of(RECORDED):
        if number not in clients:
            clients[number] = client(daemon)
        speaking = clients[number]
        if speaker == "C>S" and data is not None:
            heard = sum(each.subscriptions.total() for each in daemon.connections())
            speaking.stream.sendall(data)
            if (step := {b"L": 1, b"C": -1}.get(data[17:18], 0)) and data[9:14] == b"mtype":
                until(lambda: sum(e.subscriptions.total() for e in daemon.connections()) == heard + step)  # noqa: B023
        elif speaker == "C>S":
            speaking.stream.shutdown(socket.SHUT_WR)
        else:
            assert speaking.read(len(data or b"x")) == (data or b"")
    until(lambda: not daemon.connections())


@pytest.mark.parametrize(
    ("pattern", "subject", "is_taken"),
    [
        ("A.*", "A.B", True),
        ("A.*", "A", False),
        ("A.*", "A.B.C", False),
        ("A.>", "A.B.C", True),
        ("A.>", "A", False),
        ("A.*.C", "A.B.C", True),
        ("A.B*", "A.BC", False),
        ("a.B", "A.B", False),
        (">", "_INBOX.7F.1", False),
        (">", "_RV.INFO", True),
        ("_INBOX.>", "_INBOX.7F.1", True),
    ],
)
def test_wildcards_take_whole_elements(pattern: str, subject: str, is_taken: bool) -> None:
    assert matches(pattern, subject) is is_taken


def test_a_client_gets_a_message_once_however_often_it_listens_and_its_own_too(
    daemon: RendezvousDaemon, client: Clients
) -> None:
    one = client(daemon).connect("7F000001.1")
    for subject in ("A.*", "A.>", "A.B", "A.B"):
        one.say("L", subject)
    one.stream.sendall(envelope("A.B", "D", [Field("x", 0, "I32", 1)]))
    one.stream.sendall(envelope("A.C", "D", [Field("x", 0, "I32", 2)]))
    assert [one.frame()["data"].value[0].value for _ in range(2)] == [1, 2]
    for subject in ("A.*", "A.>", "A.B", "unknown"):
        one.say("C", subject)
    one.stream.sendall(envelope("A.B", "D", [Field("x", 0, "I32", 3)]))
    one.say("C", "A.B")
    one.stream.sendall(envelope("A.B", "D", [Field("x", 0, "I32", 4)]))
    one.say("L", "END")
    one.stream.sendall(envelope("END", "D", [Field("x", 0, "I32", 5)]))
    assert [one.frame()["data"].value[0].value for _ in range(2)] == [3, 5]


@pytest.mark.parametrize(("service", "network", "error"), [("7500", "eth0", 5), ("x", "", 18), ("7600", "eth0", 0)])
def test_clients_of_a_service_have_one_network(
    daemon: RendezvousDaemon, client: Clients, service: str, network: str, error: int
) -> None:
    client(daemon).connect("7F000001.1")
    other = client(daemon)
    other.read(12)
    other.stream.sendall(VERSION + RESPONSE)
    other.read(128)
    other.initialise(service, network)
    answer = other.frame()
    if error:
        assert (answer["sub"].value, answer["data"].value[0].value) == ("RVD.INITREFUSED", error)
        assert other.read(1) == b""
    else:
        assert answer["sub"].value == "RVD.INITRESP"


@pytest.mark.parametrize(
    "wrong",
    [
        b"\0\0\0\x09no tibrvmsg",
        bytes(8),
        encode_message([Field("mtype", 0, "STRING", "X"), Field("sub", 0, "SUBJECT", "A")]),
        encode_message([Field("sub", 0, "SUBJECT", "A")]),
        encode_message([Field("mtype", 0, "STRING", "L"), Field("sub", 0, "STRING", "A")]),
    ],
)
def test_what_no_client_may_say_ends_its_connection(daemon: RendezvousDaemon, client: Clients, wrong: bytes) -> None:
    one = client(daemon).connect("7F000001.1")
    one.stream.sendall(wrong)
    assert one.read(1) == b""


def test_a_client_that_advises_is_not_heard_any_more(daemon: RendezvousDaemon, client: Clients) -> None:
    one = client(daemon).connect("7F000001.1")
    one.stream.sendall(envelope("A", "A", []))
    one.say("L", "B")
    other = client(daemon).connect("7F000001.2")
    other.say("L", "C")
    until(lambda: daemon.listens("C"))
    assert not daemon.listens("B")


def test_a_client_that_does_not_read_is_closed_after_a_while(client: Clients) -> None:
    with RendezvousDaemon(slow_after=0.3) as daemon:
        lazy = client(daemon).connect("7F000001.1")
        lazy.say("L", "A")
        until(lambda: daemon.listens("A"))
        busy = client(daemon).connect("7F000001.2")
        data = envelope("A", "D", [Field("x", 0, "OPAQUE", bytes(1 << 20))])
        for _ in range(20):
            busy.stream.sendall(data)
        until(lambda: len(daemon.connections()) == 1)
