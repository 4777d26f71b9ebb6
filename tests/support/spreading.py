"""A load balancer without sticky sessions: each connection goes to another gateway."""

import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from threading import Thread


class Spreading:
    """A port whose connections are passed on to ports that are drawn at random; `counts` says how often to each.

    A client that asks for `Connection: close` reaches another gateway with each request.
    """

    def __init__(self, ports: Sequence[int], seed: int) -> None:
        self._ports, self._random = ports, Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.counts: Counter[int] = Counter()

    def __enter__(self) -> "Spreading":
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                port = self._random.choice(self._ports)
                self.counts[port] += 1
                Thread(target=_serve, args=(client, port), daemon=True).start()


def _serve(client: socket.socket, port: int) -> None:
    with suppress(OSError), client, socket.create_connection(("127.0.0.1", port)) as gateway:
        asking = Thread(target=_pass_on, args=(client, gateway), daemon=True)
        asking.start()
        _pass_on(gateway, client)
        asking.join()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    """Pass on what comes from one socket, and its end, to the other."""
    with suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)
