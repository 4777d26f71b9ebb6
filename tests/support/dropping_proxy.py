"""A proxy between an MQTT broker and a subscriber that leaves out publishes of QoS 0, as a network of radios does."""

import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from threading import Thread

PUBLISH = 3


class DroppingProxy:
    """Passes everything on but a share, `rate`, of the publishes with QoS 0 that the broker sends, while
    `is_dropping`."""

    def __init__(self, broker_port: int, rate: float, seed: int = 1) -> None:
        self._broker_port, self._rate, self._random = broker_port, rate, Random(seed)
        self.is_dropping = True
        self.passed = self.dropped = 0
        self.dropped_bytes = Counter[bytes]()
        """The bytes of the payloads that were left out, by topic."""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "DroppingProxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
                broker = socket.create_connection(("127.0.0.1", self._broker_port))
            except OSError:
                return
            for work in (lambda c=client, b=broker: _copy(c, b), lambda c=client, b=broker: self._filter(b, c)):
                Thread(target=work, daemon=True).start()

    def _filter(self, broker: socket.socket, client: socket.socket) -> None:
        """Pass on what the broker sends, packet by packet."""
        with broker, broker.makefile("rb") as stream, suppress(OSError, EOFError):
            read = stream.read
            while True:
                head, body = _packet(read)
                if head[0] >> 4 == PUBLISH and not head[0] & 6:
                    if self.is_dropping and self._random.random() < self._rate:
                        self.dropped += 1
                        self.dropped_bytes[body[2 : 2 + int.from_bytes(body[:2], "big")]] += _payload_size(body)
                        continue
                    self.passed += 1
                client.sendall(head + body)
        _close(client)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with source, suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _close(target)


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _packet(read: Callable[[int], bytes]) -> tuple[bytes, bytes]:
    """Return the fixed header and the rest of the next packet. Raises EOFError."""
    head = b""
    while len(head) < 2 or head[-1] & 0x80:
        if not (more := read(1)):
            raise EOFError
        head += more
    return head, read(sum((each & 0x7F) << 7 * place for place, each in enumerate(head[1:])))


def _payload_size(body: bytes) -> int:
    """Return the bytes of the payload of a publish of MQTT 5 with QoS 0: behind its topic and its properties."""
    at = 2 + int.from_bytes(body[:2], "big")
    length = shift = 0
    while True:
        length, shift, at = length | (body[at] & 0x7F) << shift, shift + 7, at + 1
        if not body[at - 1] & 0x80:
            return len(body) - at - length
