"""A Rendezvous daemon inside the tests: what is known of the client protocol, and of how the daemon behaves.

Clients speak TCP. The daemon begins with its version, the two agree on parameters, the client names a service, a
network and its session. Then it listens to subjects and publishes; every frame is a tibrvMsg. There are no
acknowledgements: what a connection had not read when it ended is lost.

`python -m tests.support.rendezvous_daemon 7500` runs one until it is interrupted.
"""

import os
import signal
import socket
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Event, Lock, RLock, Thread
from time import time_ns
from typing import Any, Final

from app.codecs.rendezvous.tibrv_message import Field, decode_message, encode_message
from app.wire import WireError

VERSION: Final = struct.pack(">3I", 0, 4, 0)
_PARAMETERS: Final = (2, 0, 1, 0, 0x04000000, 0x04000000, *[0] * 9)
REQUEST, RESPONSE, AGREEMENT = (struct.pack(">16I", word, *_PARAMETERS) for word in (2, 3, 1))
_STUCK: Final = frozenset("RSA")
"""Kinds of message that a client must not send: the daemon reads nothing more of it, without a word."""

Message = Sequence[Field]


def matches(pattern: str, subject: str) -> bool:
    """Whether a subscription takes a subject: `*` is any one element, `>` at the end any number of them."""
    wanted, found = pattern.split("."), subject.split(".")
    if wanted == [">"] and found[0] == "_INBOX":
        return False
    if wanted[-1] == ">":
        if len(found) < len(wanted):
            return False
        wanted, found = wanted[:-1], found[: len(wanted) - 1]
    return len(wanted) == len(found) and all(each in ("*", other) for each, other in zip(wanted, found, strict=True))


class Connection:
    """One client."""

    def __init__(self, daemon: "RendezvousDaemon", stream: socket.socket) -> None:
        self.daemon, self.stream = daemon, stream
        self.subscriptions: Counter[str] = Counter()
        self.session = ""
        self.service = ""
        self._writing = Lock()

    def run(self) -> None:
        try:
            self._agree()
            while self._frame(self._read_frame()):
                pass
        except (OSError, WireError, EOFError):
            pass
        finally:
            self.daemon.forget(self)
            self.stream.close()

    def write(self, data: bytes) -> None:
        """Write all of a frame; whoever does not read holds up the writer, until it is given up."""
        try:
            with self._writing:
                self.stream.sendall(data)
        except OSError:
            self.end()

    def end(self) -> None:
        with suppress(OSError):
            self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.stream.shutdown(socket.SHUT_RDWR)

    def _agree(self) -> None:
        self.stream.sendall(VERSION)
        if self._read(12) != VERSION:
            raise EOFError
        self.stream.sendall(REQUEST)
        self._read(64)
        self.stream.sendall(AGREEMENT)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.stream.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def _read_frame(self) -> bytes:
        head = self._read(8)
        size = int.from_bytes(head[:4], "big")
        if size < 8 or head[4:] != bytes.fromhex("9955EEAA"):
            raise WireError("frame", 0, "no tibrvMsg")
        parts, left = [head], size - 8
        while left:
            more = self.stream.recv(min(left, 1 << 16))
            if not more:
                raise EOFError
            parts.append(more)
            left -= len(more)
        return b"".join(parts)

    def _frame(self, frame: bytes) -> bool:
        """Take one frame; False ends the connection."""
        if len(frame) == 8:
            return True
        fields = {field.name: field for field in decode_message(frame)}
        kind = fields["mtype"].value if "mtype" in fields else ""
        if "sub" in fields and fields["sub"].type != "SUBJECT":
            return False
        if kind in _STUCK:
            self.daemon.ended.wait()
            return False
        subject = fields["sub"].value if "sub" in fields else ""
        match kind:
            case "I":
                return self._initialised(fields)
            case "L":
                self.subscriptions[subject] += 1
            case "C" if self.subscriptions[subject]:
                self.subscriptions -= Counter([subject])
            case "C":
                pass
            case "D":
                self.daemon.publish(subject, frame)
            case _:
                return False
        return True

    def _initialised(self, fields: dict[str | None, Field]) -> bool:
        if "session" in fields:
            self.session = fields["session"].value
            self.write(advisory("_RV.INFO.SYSTEM.RVD.CONNECTED", kind="D"))
            return True
        service, network = fields["service"].value, fields["network"].value
        error = self.daemon.refusal(self, service, network)
        data: list[Field] = [Field("error", 0, "I32", error)]
        if not error:
            data = [
                Field("ipaddr", 0, "IPADDR32", "127.0.0.1"),
                Field("ipport", 0, "IPPORT16", int(service)),
                *(Field(name, 0, "I32", number) for name, number in (("vmaj", 5), ("vmin", 4), ("vupd", 2))),
                Field("gob", 0, "STRING", self.daemon.unique()),
            ]
        self.write(envelope(f"RVD.INIT{'REFUSED' if error else 'RESP'}", "R", data))
        return not error


class RendezvousDaemon:
    """Listens on a loopback port, a free one unless it is told which."""

    def __init__(self, port: int = 0, *, slow_after: float = 16.0) -> None:
        self.unique: Callable[[], str] = lambda: f"{time_ns() // 1000:X}"
        """What a client may name its session by."""
        self.ended = Event()
        self.published: list[tuple[str, bytes]] = []
        """Every publication, in order: its subject and its whole frame."""
        self._slow_after = slow_after
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._connections: list[Connection] = []
        self._lock = RLock()
        self.refuse_with = 0
        """An error to refuse every client with."""
        Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "RendezvousDaemon":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End at once, as one that is killed: what is on its way is lost."""
        self.ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.break_connections()

    def break_connections(self) -> None:
        with self._lock:
            broken = list(self._connections)
        for connection in broken:
            connection.end()

    def connections(self) -> list[Connection]:
        with self._lock:
            return [each for each in self._connections if each.session]

    def listens(self, subject: str) -> bool:
        """Whether anybody's subscription takes this subject."""
        return any(matches(pattern, subject) for each in self.connections() for pattern in list(each.subscriptions))

    def publish(self, subject: str, frame: bytes) -> None:
        """Give a frame to every connection that wants it, once; one that does not read is closed after a while."""
        with self._lock:
            self.published.append((subject, frame))
            takers = [
                each for each in self._connections if any(matches(one, subject) for one in list(each.subscriptions))
            ]
        if all(subject.split(".")):
            for each in takers:
                each.write(frame)

    def advise(self, subject: str, **texts: str) -> None:
        """Publish an advisory."""
        self.publish(subject, advisory(subject, kind="A", **texts))

    def refusal(self, connection: Connection, service: str, network: str) -> int:
        """Why a client is refused: 5 for another network of the same service, 18 for a bad service; 0 if it is not."""
        if self.refuse_with:
            return self.refuse_with
        if not service.isdigit() or not 0 < int(service) < 65536:
            return 18
        with self._lock:
            others = {each.service for each in self._connections if each is not connection and each.service}
            if any(each.partition("/")[0] == service and each != f"{service}/{network}" for each in others):
                return 5
            connection.service = f"{service}/{network}"
        return 0

    def forget(self, connection: Connection) -> None:
        with self._lock:
            if connection in self._connections:
                self._connections.remove(connection)

    def _accept(self) -> None:
        with suppress(OSError):
            while not self.ended.is_set():
                stream, _ = self._listener.accept()
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                seconds = int(self._slow_after)
                micros = int((self._slow_after - seconds) * 1e6)
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", seconds, micros))
                connection = Connection(self, stream)
                with self._lock:
                    self._connections.append(connection)
                Thread(target=connection.run, daemon=True).start()


def envelope(subject: str, kind: str, data: Iterable[Field], reply: str | None = None) -> bytes:
    """A frame of a subject, a kind of message and data."""
    back = [] if reply is None else [Field("return", 0, "STRING", reply)]
    return encode_message(
        [
            Field("sub", 0, "SUBJECT", subject),
            Field("mtype", 0, "STRING", kind),
            *back,
            Field("data", 0, "MSG", tuple(data)),
        ]
    )


def advisory(subject: str, *, kind: str, **texts: str) -> bytes:
    """What the daemon tells of itself: its class, source and name are in the subject, too."""
    _, level, source, name = subject.split(".", 3)
    told = {"ADV_CLASS": level, "ADV_SOURCE": source, "ADV_NAME": name, **texts}
    return envelope(subject, kind, [Field(key, 0, "STRING", text) for key, text in told.items()])


def real_daemon() -> tuple[str, int] | None:
    """The address of a real daemon that tests are to run against, by RENDEZVOUS_DAEMON=host:port."""
    given = os.environ.get("RENDEZVOUS_DAEMON")
    if not given:
        return None
    host, _, port = given.partition(":")
    return host, int(port or 7500)


def session_of(frames: Iterable[dict[str, Any]]) -> list[tuple[int, str, bytes | None]]:
    """A recorded session: the connection, who speaks, and the bytes; None where the connection ends."""
    return [(int(each["conn"]), each["dir"], bytes.fromhex(each["hex"]) if "hex" in each else None) for each in frames]


if __name__ == "__main__":
    with RendezvousDaemon(int(sys.argv[1]) if len(sys.argv) > 1 else 7500) as serving:
        print(f"Rendezvous daemon (a double, for tests) on tcp:127.0.0.1:{serving.port}; Ctrl-C ends it", flush=True)  # noqa: T201
        signal.sigwait([signal.SIGINT, signal.SIGTERM])
