"""Cancellation of work when its client disconnects."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from fastapi import FastAPI, Request, Response
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import Receive

from app.service.access.token_buckets import client_of
from app.service.conversion import Conversions, Slot, SlotUse
from app.web.access.audit_trail import trail_of
from app.web.problems import Problem

T = TypeVar("T")
CLIENT_LEFT = 499
"""The status, not a registered one, that proxies use in their logs for this as well."""


class ClientLeft(Exception):
    """An error for a client that closed its connection before it got its response."""


async def disconnected(receive: Receive) -> None:
    """Wait until the client has closed its connection; ignore everything it sends before."""
    while (await receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def while_connected(receive: Receive) -> AsyncIterator[None]:
    """Cancel the block and raise ClientLeft when the client closes its connection.

    The request's body must have been read before.
    """
    connected = asyncio.timeout(None)

    async def watch() -> None:
        await disconnected(receive)
        connected.reschedule(0)

    watching = asyncio.create_task(watch())
    try:
        async with connected:
            yield
    except TimeoutError:
        if connected.expired():
            raise ClientLeft from None
        raise
    finally:
        watching.cancel()
        await asyncio.wait([watching])


@asynccontextmanager
async def converting(connection: HTTPConnection, receive: Receive, use: SlotUse) -> AsyncIterator[Slot]:
    """Yield a slot for a conversion of this caller. Cancel the block and raise ClientLeft when the client closes its
    connection. Raises Busy."""
    pool: Conversions = connection.app.state.conversions
    trail = trail_of(connection)
    who = client_of(trail.principal, connection.client.host if connection.client else None)
    try:
        async with while_connected(receive), pool.slot(use, who) as slot:
            yield slot
    except ClientLeft:
        trail.is_abandoned = True
        raise


async def convert(request: Request, use: SlotUse, work: Callable[[Slot], T]) -> T:
    """Return what `work` makes in a conversion slot while the client is connected. Raises ClientLeft, Busy and
    LimitExceeded."""
    async with converting(request, request.receive, use) as slot:
        return await slot.within_time(lambda: work(slot))


def install(app: FastAPI) -> None:
    """Register handlers for clients that leave before their response begins."""
    # Nobody receives this response; metrics and traces count its status.
    app.add_exception_handler(ClientLeft, lambda _request, _error: Response(status_code=CLIENT_LEFT))
    app.add_exception_handler(ClientDisconnect, _on_client_disconnect)


def _on_client_disconnect(request: Request, _error: Exception) -> Response:
    """Return the response to a body that ends too early; a client that only closed its own direction reads it."""
    trail_of(request).is_abandoned = True
    return Problem("malformed", "the client disconnected before the request was complete").response(request.url.path)
