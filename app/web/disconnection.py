"""Cancellation of work when its client disconnects."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request
from starlette.types import Receive

from app.service.conversion import Conversions


class ClientLeft(Exception):
    """An error for a client that closed its connection before it got its response."""


def conversions(request: Request) -> Conversions:
    """Return the pool for the conversions of this application."""
    pool: Conversions = request.app.state.conversions
    return pool


async def disconnected(receive: Receive) -> None:
    """Wait until the client has closed its connection; ignore everything it sends before."""
    while (await receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def while_connected(receive: Receive) -> AsyncIterator[None]:
    """Cancel the block and raise ClientLeft when the client closes its connection.

    The request's body must have been read before.
    """
    task = asyncio.current_task()
    assert task is not None
    left = False

    async def watch() -> None:
        nonlocal left
        await disconnected(receive)
        left = True
        task.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if left and not task.uncancel():
            raise ClientLeft from None
        raise
    finally:
        watching.cancel()
        await asyncio.wait([watching])
