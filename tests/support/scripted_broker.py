"""An MQTT broker that sends the packets of a test's script, for answers that a real broker rarely gives."""

import select
import socket
from typing import NamedTuple

from app.codecs.mqtt.packets import FixedHeader, PacketType, length_bytes
from app.wire import WireError

_PATIENCE = 10.0


class Packet(NamedTuple):
    header: FixedHeader
    rest: bytes


class ScriptedBroker:
    """A broker on a free loopback port; `accept` takes the next connection, which the other methods use."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_PATIENCE)
        self.port: int = self._listener.getsockname()[1]
        self._connection: socket.socket | None = None
        self._received = b""

    def __enter__(self) -> "ScriptedBroker":
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self._listener.close()

    def accept(self, answer: str) -> Packet:
        """Accept a connection, read its CONNECT and answer with these bytes, in hexadecimal digits."""
        self.hang_up()
        self._connection, _ = self._listener.accept()
        self._connection.settimeout(_PATIENCE)
        self._received = b""
        connect = self.expect(PacketType.CONNECT)
        self.send(answer)
        return connect

    def send(self, packets: str) -> None:
        """Send bytes, given as hexadecimal digits."""
        assert self._connection is not None
        self._connection.sendall(bytes.fromhex(packets))

    def publish(self, mid: int, qos: int, topic: str, rest: bytes, *, dup: bool = False) -> None:
        """Send a PUBLISH; `rest` is the part after the packet identifier."""
        body = len(topic.encode()).to_bytes(2, "big") + topic.encode() + mid.to_bytes(2, "big") + rest
        self.send((bytes((0x30 | dup << 3 | qos << 1,)) + length_bytes(len(body)) + body).hex())

    def expect(self, *types: PacketType) -> Packet:
        """Return the next packet, which must be of one of these types."""
        while True:
            try:
                header, end = FixedHeader.decode(self._received)
            except WireError:
                pass
            else:
                whole = end + header.remaining_length
                if len(self._received) >= whole:
                    packet = Packet(header, self._received[end:whole])
                    self._received = self._received[whole:]
                    assert header.type in types, packet
                    return packet
            self._receive()

    def has_more(self) -> bool:
        """Tell whether the client has sent something that was not read."""
        assert self._connection is not None
        return bool(self._received or select.select([self._connection], [], [], 0)[0])

    def expect_end(self) -> None:
        """Wait until the client has closed the connection, ignoring all packets before."""
        assert self._connection is not None
        while self._connection.recv(4096):
            pass

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _receive(self) -> None:
        assert self._connection is not None
        more = self._connection.recv(65536)
        if not more:
            raise ConnectionError("the client has closed the connection")
        self._received += more
