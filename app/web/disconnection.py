"""Work that ends when its client goes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request
from starlette.types import Receive

from app.service.conversion import Conversions


class ClientLeft(Exception):
    """The client closed its connection before it had its answer."""


def conversions(request: Request) -> Conversions:
    """Return the pool in which this application converts."""
    pool: Conversions = request.app.state.conversions
    return pool


async def disconnected(receive: Receive) -> None:
    """Wait until the client has closed its connection, and ignore what it sends before."""
    while (await receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def while_connected(receive: Receive) -> AsyncIterator[None]:
    """Cancel the block and raise ClientLeft when the client closes its connection. The request's body must have been
    read."""
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
