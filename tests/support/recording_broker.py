"""An MQTT 5 broker that only receives publishes and records every packet, also those that a client never shows."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import NamedTuple

from app.codecs.mqtt.packets import ControlPacket, FixedHeader, PacketType, read_publish
from app.codecs.mqtt.properties import decode
from app.wire import WireError

_CLEAN_START = 0b10


class Published(NamedTuple):
    """One PUBLISH as received: the MsgId in its user properties, its packet identifier, and other varying fields."""

    message_id: bytes
    packet_identifier: int
    dup: bool
    payload: bytes


class RecordingBroker:
    """A broker on a free loopback port that confirms everything.

    It keeps the packet identifiers of QoS 2 from one connection to the next, as a session does.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.packets: list[Published] = []
        self.delivered: list[bytes] = []
        """The MsgIds that subscribers would have received; with QoS 2 once per packet identifier."""
        self._unanswered: int | None = None
        self._until_held: int | None = None
        self.is_holding, self._goes_on = Event(), Event()
        self._received: set[int] = set()
        self._lock = Lock()
        Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "RecordingBroker":
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def break_after(self, publishes: int) -> None:
        """Accept this number of further publishes, answer none of them, and break the connection."""
        self._unanswered = publishes

    def hold_after(self, publishes: int) -> None:
        """Accept this number of further publishes, and answer the last of them, and what follows it on its connection,
        only after `go_on`. `is_holding` is set then."""
        self.is_holding.clear()
        self._goes_on.clear()
        self._until_held = publishes

    def go_on(self) -> None:
        """Answer what is held."""
        self._goes_on.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # A broker closes a connection with malformed packets: another program may have got the port.
        with connection, suppress(OSError, WireError):
            for data, packet in _packets(connection):
                answer = self._answer(data, packet)
                if answer is None:
                    return
                if self._unanswered is None:
                    connection.sendall(answer)

    def _answer(self, data: memoryview, packet: ControlPacket) -> bytes | None:
        """Return the answer to a packet; None breaks the connection."""
        match packet.type:
            case PacketType.CONNECT:
                self._unanswered = None
                return self._session(clean=bool(data[packet.start + 7] & _CLEAN_START))
            case PacketType.PUBLISH:
                return self._publish(data, packet)
            case PacketType.PUBREL:
                mid = bytes(data[packet.start : packet.start + 2])
                self._received.discard(int.from_bytes(mid, "big"))
                return b"\x70\2" + mid
        return b""

    def _session(self, *, clean: bool) -> bytes:
        if clean:
            self._received.clear()
        return bytes((0x20, 3, not clean, 0, 0))

    def _publish(self, data: memoryview, packet: ControlPacket) -> bytes | None:
        content = read_publish(data, packet, "5")
        at = packet.start + 2 + len(content.topic.encode())
        mid = int.from_bytes(data[at : at + 2], "big")
        message_id = bytes.fromhex(dict(decode(content.properties).user)["message-id"])
        with self._lock:
            self.packets.append(Published(message_id, mid, bool(packet.header.dup), bytes(content.payload)))
            if packet.header.qos == 1 or mid not in self._received:
                self.delivered.append(message_id)
            if packet.header.qos == 2:
                self._received.add(mid)
        if self._until_held is not None:
            self._until_held -= 1
            if self._until_held <= 0:
                self._until_held = None
                self.is_holding.set()
                self._goes_on.wait()
        if self._unanswered is not None:
            self._unanswered -= 1
            if self._unanswered <= 0:
                self._unanswered = None
                return None
        return (b"\x40\2" if packet.header.qos == 1 else b"\x50\2") + mid.to_bytes(2, "big")


def _packets(connection: socket.socket) -> Iterator[tuple[memoryview, ControlPacket]]:
    """Yield packets as they arrive, each with its bytes."""
    received = b""
    while more := connection.recv(1 << 16):
        received += more
        while received:
            try:
                header, start = FixedHeader.decode(received)
            except WireError:
                break
            end = start + header.remaining_length
            if end > len(received):
                break
            yield memoryview(received[:end]), ControlPacket(0, header, start, end)
            received = received[end:]
