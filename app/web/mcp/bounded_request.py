"""Requests that this process makes to its own application, with a bound of the answer."""

import asyncio
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope

from app.web.responses.disconnection import disconnected


class Answer(NamedTuple):
    """An answer, with the first bytes of its body. `is_whole`: these are all."""

    status: int
    headers: Headers
    body: bytes
    is_whole: bool


async def ask(app: ASGIApp, scope: Scope, body: bytes, most: int, outer: Receive) -> Answer:
    """Return an application's answer to a request with this scope and body, and at most so many bytes of its body.

    If there are more, or if the client of the `outer` request disconnects, whose body has been read, the application
    sees that its client has disconnected.
    """
    has_left = asyncio.Event()
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    received = bytearray()
    status, headers = 0, Headers()

    async def receive() -> Message:
        if unread:
            return unread.pop()
        await has_left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], Headers(raw=message["headers"])
        elif len(received) <= most:
            received.extend(message.get("body", b"")[: most + 1 - len(received)])
            if len(received) > most:
                has_left.set()

    async def watch() -> None:
        await disconnected(outer)
        has_left.set()

    watching = asyncio.create_task(watch())
    try:
        await app(scope, receive, send)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
    return Answer(status, headers, bytes(received[:most]), len(received) <= most)
