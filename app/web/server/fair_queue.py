"""A fair queue of requests: a few begin in each round of the event loop, from the client addresses by turns.

Hundreds of requests that come at once would otherwise all begin in one round, and whoever comes after them, such as a
probe of health, would wait for each of their steps. So a client waits for few requests of each other address.
"""

import asyncio
from collections import deque

from starlette.types import ASGIApp, Receive, Scope, Send

A_ROUND = 4
"""Requests that begin in one round of the event loop. One takes about a millisecond of it."""


class FairQueue:
    """The requests that wait for their beginning. Only the thread of the event loop may use it."""

    def __init__(self) -> None:
        self._begun = 0
        """Requests that have begun in this round."""
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By address. The address whose turn is next is the first."""
        self._is_scheduled = False

    async def wait(self, address: str) -> None:
        """Return when a request of an address may begin."""
        if self._waiting or self._begun >= A_ROUND:
            begin = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(address, deque()).append(begin)
            await begin
        else:
            self._begun += 1
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        self._is_scheduled, self._begun = False, 0
        while self._waiting and self._begun < A_ROUND:
            address = next(iter(self._waiting))
            waiters = self._waiting.pop(address)
            begin = waiters.popleft()
            if waiters:
                self._waiting[address] = waiters
            if not begin.done():  # the request may have been cancelled
                begin.set_result(None)
                self._begun += 1
        if self._begun:
            self._schedule()


class FairQueueMiddleware:
    """Middleware that lets each request wait for its turn."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._queue = app, FairQueue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            client = scope.get("client")
            await self._queue.wait(client[0] if client else "")
        await self._app(scope, receive, send)
