"""A proxy between the broker and the gateway that records the gateway's acknowledgements and breaks connections."""

import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock, Thread

from tests.faults import packets
from tests.faults.ledger import Ledger
from tests.faults.packets import Identity


class Proxy:
    """A proxy that listens on its own port and forwards everything to the broker's."""

    def __init__(self, broker_port: int, ledger: Ledger) -> None:
        self._broker_port, self._ledger = broker_port, ledger
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = Lock()
        self._is_deaf = False
        Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break all connections, in the middle of a packet if one is being sent."""
        with self._lock:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def swallow(self, on: bool) -> None:
        """Withhold acknowledgements from the broker, or forward them again; the ledger records them in both cases."""
        self._is_deaf = on

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                gateway, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self._broker_port), timeout=5)
                except OSError:
                    gateway.close()
                    continue
                broker.settimeout(None)
                with self._lock:
                    self._open |= {gateway, broker}
                under_way: dict[int, Identity] = {}
                for one, other, heard in (
                    (broker, gateway, partial(self._delivered, packets.Stream(), under_way)),
                    (gateway, broker, partial(self._answered, packets.Stream(), under_way)),
                ):
                    Thread(target=self._pass_on, args=(one, other, heard), daemon=True).start()

    @staticmethod
    def _delivered(stream: packets.Stream, under_way: dict[int, Identity], data: bytes) -> bytes:
        for packet in stream.feed(data):
            if packet.type == packets.PUBLISH:
                identifier, message = packets.published(packet)
                under_way[identifier] = message
        return data

    def _answered(self, stream: packets.Stream, under_way: dict[int, Identity], data: bytes) -> bytes:
        passed = []
        for packet in stream.feed(data):
            if packet.type == packets.PUBACK:
                self._ledger.acknowledge(under_way.pop(packets.acknowledged(packet)[0]))
                if self._is_deaf:
                    continue
            passed.append(packet.encoded)
        return b"".join(passed)

    def _pass_on(self, one: socket.socket, other: socket.socket, heard: Callable[[bytes], bytes]) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 18):
                other.sendall(heard(data))
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open -= {one}
        one.close()
