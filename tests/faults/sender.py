"""A sending program: over MQTT 5 with QoS 1, repeated after every broken connection, until the broker has confirmed."""

import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic, sleep

from tests.faults import packets
from tests.faults.ledger import Ledger
from tests.faults.traffic import Message

IN_FLIGHT = 100
PATIENCE = 60.0
NO_SUBSCRIBER = 0x10


class Sender:
    """A program that sends to a topic and records the broker's confirmations in the ledger."""

    def __init__(self, port: int, topic: str, ledger: Ledger) -> None:
        self._port, self._topic, self._ledger = port, topic, ledger
        self._connection: socket.socket | None = None
        self._stream = packets.Stream()
        self._in_flight: dict[int, Message] = {}
        self._last = 0

    def send(self, messages: Iterable[Message]) -> None:
        """Return when the broker has confirmed all messages. Raises TimeoutError if that takes too long."""
        for message in messages:
            self._ledger.sending(message)
            self._last = self._last % 65_535 + 1
            self._in_flight[self._last] = message
            self._persist(lambda: self._publish(self._last))
            while len(self._in_flight) >= IN_FLIGHT:
                self._persist(self._hear)
        while self._in_flight:
            self._persist(self._hear)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _persist(self, step: Callable[[], None]) -> None:
        """Do a step; after a broken connection, send everything again that is not confirmed."""
        end = monotonic() + PATIENCE
        while True:
            try:
                if self._connection is None:
                    self._connect()
                    for identifier in list(self._in_flight):
                        self._publish(identifier)
                step()
            except OSError:
                self.close()
                if monotonic() > end:
                    raise TimeoutError("the broker confirms nothing") from None
                sleep(0.05)
            else:
                return

    def _connect(self) -> None:
        self._connection = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE)
        self._stream = packets.Stream()
        self._connection.sendall(packets.connect(""))
        while True:
            if any(packet.type == packets.CONNACK for packet in self._stream.feed(self._received())):
                return

    def _publish(self, identifier: int) -> None:
        message = self._in_flight[identifier]
        properties = [("msg-type", str(message.msg_type)), ("encoding", "273"), ("ccsid", "1208")]
        packet = packets.publish(
            self._topic, identifier, message.correl_id, [*properties, *message.properties], message.body
        )
        assert self._connection is not None
        self._connection.sendall(packet)

    def _hear(self) -> None:
        for packet in self._stream.feed(self._received()):
            if packet.type == packets.PUBACK:
                identifier, reason = packets.acknowledged(packet)
                with suppress(KeyError):
                    message = self._in_flight.pop(identifier)
                    if reason != NO_SUBSCRIBER:
                        self._ledger.confirm(message.identity)

    def _received(self) -> bytes:
        assert self._connection is not None
        data = self._connection.recv(1 << 16)
        if not data:
            raise ConnectionError("the broker has closed the connection")
        return data
