"""Requests as bytes over a socket, and their responses read by the standard library."""

import socket
from contextlib import ExitStack
from http.client import HTTPResponse
from typing import NamedTuple

LEFT = 20
"""Seconds after which a response does not come any more."""
_TOGETHER = 40
"""Fewer than the uploads that a gateway takes at once."""


class Answer(NamedTuple):
    """A response; status 0 is a connection that was closed without one."""

    status: int
    body: bytes
    closes: bool


def opened(address: str, *, receiving: int | None = None, source: str = "127.0.0.1") -> socket.socket:
    """A connection, with a buffer of so many bytes for what it receives. What is sent goes at once."""
    host, port = address.removeprefix("http://").rstrip("/").split(":")
    client = socket.socket()
    client.settimeout(LEFT)
    if receiving is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receiving)
    client.bind((source, 0))
    client.connect((host, int(port)))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def answer(client: socket.socket, method: str = "GET") -> Answer:
    """The response that comes, after interim ones. Nothing of the next response may have come with it."""
    response = HTTPResponse(client, method=method)
    try:
        response.begin()
        return Answer(response.status, response.read(), bool(response.will_close))
    except ConnectionError:
        return Answer(0, b"", closes=True)
    finally:
        response.close()


def answers(client: socket.socket) -> list[int]:
    """The statuses of all responses with a length until the connection is closed."""
    found, reading = [], client.makefile("rb")
    while line := reading.readline():
        status, length = int(line.split()[1]), 0
        while (field := reading.readline().lower()) != b"\r\n":
            if field.startswith(b"content-length:"):
                length = int(field.split(b":")[1])
        reading.read(length)
        if status != 100:
            found.append(status)
    return found


def split_everywhere(address: str, whole: bytes) -> set[int]:
    """The statuses of a request that comes in two segments, split at every byte; some at the same time."""
    splits = [(whole[:at], whole[at:]) for at in range(1, len(whole))]
    found: set[int] = set()
    for batch in (splits[at : at + _TOGETHER] for at in range(0, len(splits), _TOGETHER)):
        with ExitStack() as stack:
            clients = [(stack.enter_context(opened(address)), *both) for both in batch]
            for client, first, _ in clients:
                client.sendall(first)
            with opened(address) as other:  # when it is answered, what was sent before has been read
                other.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert answer(other).status == 200
            for client, _, second in clients:
                client.sendall(second)
            found |= {answer(client).status for client, _, _ in clients}
    return found
