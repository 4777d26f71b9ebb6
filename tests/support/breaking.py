"""A relay before a gateway, whose connections break."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread


class Relay:
    """A relay to a gateway. A connection breaks when so many bytes went through it, `sent` by the client or
    `received`; at most `times` do so."""

    def __init__(self, address: str, sent: int | None, received: int | None, times: int) -> None:
        self._port, self._sent, self._received, self._times = int(address.rpartition(":")[2]), sent, received, times
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.broken = 0
        self._open: list[socket.socket] = []
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.break_all()

    def break_all(self) -> None:
        """Break all connections; there may be new ones."""
        for each in self._open:
            _end(each)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                self._open += (client, server)
                Thread(target=self._relay, args=(client, server, self._sent), daemon=True).start()
                Thread(target=self._relay, args=(server, client, self._received), daemon=True).start()

    def _relay(self, source: socket.socket, target: socket.socket, most: int | None) -> None:
        total = 0
        with suppress(OSError):
            while data := source.recv(16384):
                is_last = most is not None and total + len(data) >= most and self.broken < self._times
                target.sendall(data[: most - total] if is_last and most is not None else data)
                total += len(data)
                if is_last:
                    self.broken += 1
                    break
        _end(source)
        _end(target)
        source.close()


def _end(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


@contextmanager
def breaking(address: str, *, sent: int | None = None, received: int | None = None, times: int = 1) -> Iterator[Relay]:
    """A relay to the gateway at this address."""
    relay = Relay(address, sent, received, times)
    try:
        yield relay
    finally:
        relay.close()
