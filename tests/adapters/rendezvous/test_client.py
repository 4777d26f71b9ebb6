"""One connection to a daemon: how it begins, what it carries, and how it ends."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from adapters.rendezvous.client import DaemonClient, DaemonError, Oversized
from adapters.rendezvous.settings import DaemonSettings
from app.codecs.rendezvous import daemon as protocol
from app.codecs.rendezvous.tibrv_message import Field, encode_message
from app.testing.waiting import until
from tests.support.rendezvous_daemon import RendezvousDaemon, envelope

MOST = 1 << 20


@pytest.fixture
def daemon() -> Iterator[RendezvousDaemon]:
    with RendezvousDaemon() as running:
        yield running


def settings(port: int, **more: object) -> DaemonSettings:
    return DaemonSettings.model_validate({"daemon": f"127.0.0.1:{port}", "connect_timeout": 5, **more})


@pytest.fixture
def client(daemon: RendezvousDaemon) -> Iterator[DaemonClient]:
    made = DaemonClient(settings(daemon.port), MOST)
    yield made
    made.close()


def published(subject: str, value: int) -> bytes:
    return envelope(subject, "D", [Field("x", 0, "I32", value)])


def test_a_request_is_answered(daemon: RendezvousDaemon, client: DaemonClient) -> None:
    other = DaemonClient(settings(daemon.port), MOST)
    other.listen("SERVICE")
    until(lambda: daemon.listens("SERVICE"))

    def answer() -> None:
        frames: list[bytes | Oversized] = []
        while not frames:
            frames = other.frames(5)
        assert isinstance(frames[0], bytes)
        asked = protocol.read_frame(frames[0])
        assert asked.reply
        other.publish(protocol.publish(protocol.publish_head(asked.reply), asked.data, is_message=True), 5)

    answering = threading.Thread(target=answer)
    answering.start()
    question = encode_message([Field("question", 0, "STRING", "ping")])
    reply = client.request("SERVICE", question, 5)
    answering.join()
    assert bytes(reply.data) == question
    assert reply.subject.startswith(f"_INBOX.{client.session}.")
    with pytest.raises(DaemonError, match=r"gave no answer within 0\.2 s"):
        client.request("NOBODY", question, 0.2)
    other.close()


def test_what_is_confirmed_the_daemon_has(daemon: RendezvousDaemon, client: DaemonClient) -> None:
    client.publish([published("A", number) for number in range(500)], 5)
    client.confirm(5)
    assert [subject for subject, _ in daemon.published].count("A") == 500


def test_a_subject_is_listened_to_until_each_listen_is_taken_back(
    daemon: RendezvousDaemon, client: DaemonClient
) -> None:
    for change, listens in [("listen", True), ("listen", True), ("cancel", True), ("cancel", False)]:
        getattr(client, change)("A.*")
        client.confirm(5)
        assert daemon.listens("A.B") is listens


def test_a_frame_that_is_too_long_is_passed_over(daemon: RendezvousDaemon, client: DaemonClient) -> None:
    client.listen("A")
    client.confirm(5)
    other = DaemonClient(settings(daemon.port), MOST)
    sent = [
        b"".join(map(bytes, protocol.publish(protocol.publish_head("A"), bytes(size), is_message=False)))
        for size in (10, 3 * MOST, 20)
    ]
    other.publish(sent, 5)
    found: list[bytes | Oversized] = []
    while len(found) < 3:
        found += client.frames(5)
    assert found == [sent[0], Oversized(len(sent[1]), sent[1][:4096]), sent[2]]
    other.close()


def test_frames_come_whole_however_they_are_cut() -> None:
    frames = [published("A", number) for number in range(50)]
    data = b"".join(frames)
    for step in (1, 7, 100, len(data)):
        near, far = socket.socketpair()
        client = DaemonClient.__new__(DaemonClient)
        client.address, client._most_bytes, client._received, client._skipped = "here", MOST, bytearray(), None
        client._stream = near
        found: list[bytes | Oversized] = []
        for at in range(0, len(data), step):
            far.sendall(data[at : at + step])
            found += client.frames(1)
        assert found == frames
        far.sendall(b"\0\0\0\x09nonsense")
        with pytest.raises(DaemonError, match="no tibrvMsg"):
            client.frames(1)
        far.close()
        client.close()


@pytest.mark.parametrize(("error", "why"), [(5, "another network"), (2, "no such network interface")])
def test_a_daemon_that_refuses_says_why(daemon: RendezvousDaemon, error: int, why: str) -> None:
    daemon.refuse_with = error
    with pytest.raises(DaemonError, match=why):
        DaemonClient(settings(daemon.port), MOST)


def test_a_session_has_a_name_of_its_own(daemon: RendezvousDaemon) -> None:
    clients = [DaemonClient(settings(daemon.port), MOST) for _ in range(20)]
    assert len({client.session for client in clients}) == 20
    assert all(client.session.startswith("7F000001.") for client in clients)
    for client in clients:
        client.close()


def speaking(script: Callable[[socket.socket], None]) -> int:
    """The port of something that speaks as the script says to whoever connects."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener:
            stream, _ = listener.accept()
            with stream:
                script(stream)

    threading.Thread(target=serve, daemon=True).start()
    port: int = listener.getsockname()[1]
    return port


def _drained(stream: socket.socket) -> None:
    while stream.recv(1000):
        pass


def _parameters(word: int) -> bytes:
    return struct.pack(">16I", word, 2, 0, 1, 0, 0x04000000, 0x04000000, *[0] * 9)


def _disagreeing(stream: socket.socket) -> None:
    stream.sendall(protocol.VERSION + _parameters(2) * 9)
    _drained(stream)


def _answering(answer: bytes) -> Callable[[socket.socket], None]:
    """Agrees with the client, and answers its introduction so."""

    def script(stream: socket.socket) -> None:
        stream.sendall(protocol.VERSION)
        stream.recv(12)
        stream.sendall(_parameters(1))
        stream.recv(1000)
        stream.sendall(answer)

    return script


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (lambda stream: stream.sendall(b"HTTP/1.1 400 Bad request\r\n"), "is no Rendezvous daemon"),
        (lambda stream: None, "closed the connection"),
        (lambda stream: stream.recv(1), "gave no answer within 0.5 s"),
        (_disagreeing, "unknown parameters"),
        (_answering(b"\x7f" * 8), "sent a frame of"),
        (_answering(published("A", 1)), "sent an invalid answer"),
        (_answering(envelope("RVD.INITRESP", "R", [])), "not say the client"),
    ],
)
def test_what_is_no_daemon_is_told_of(script: Callable[[socket.socket], None], why: str) -> None:
    with pytest.raises(DaemonError, match=why):
        DaemonClient(settings(speaking(script), connect_timeout=0.5), MOST)


def test_nobody_there_is_told_of() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(DaemonError, match="cannot be reached"):
        DaemonClient(settings(port), MOST)
