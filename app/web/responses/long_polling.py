"""Requests that wait for a change: `?wait=30` on an attachment or a delivery.

The wait costs neither a thread nor a query: the task that feeds the event streams wakes it.
"""

import asyncio
from contextlib import suppress
from typing import Annotated, Final

from fastapi import Depends, Query, Request
from starlette.concurrency import run_in_threadpool

from app.model.attachment import AttachmentState, DeliveryState
from app.ports import Identified
from app.service.gateway import Gateway
from app.web.dependencies.caller import Caller, CallerDep
from app.web.dependencies.known_resources import Identifier, whole
from app.web.dependencies.request_gateway import GatewayDep
from app.web.responses.disconnection import ClientLeft, while_connected
from app.web.responses.event_feed import Feed

LONGEST: Final = 60
"""The longest wait in seconds: proxies close connections that are silent for longer."""

Wait = Annotated[
    float | None,
    Query(
        ge=0,
        le=LONGEST,
        description="answer when its state changes or after this time (seconds); at once if its state is final",
    ),
]

_CHANGING: Final = (
    AttachmentState.RECEIVING,
    AttachmentState.COMPLETE,
    DeliveryState.QUEUED,
    DeliveryState.SENDING,
)


async def _attachment(
    request: Request, gateway: GatewayDep, caller: CallerDep, attachment_id: Identifier, wait: Wait = None
) -> None:
    if wait:
        await _changed(request, gateway, caller, "attachments", attachment_id, wait)


async def _delivery(
    request: Request, gateway: GatewayDep, caller: CallerDep, delivery_id: Identifier, wait: Wait = None
) -> None:
    if wait:
        await _changed(request, gateway, caller, "deliveries", delivery_id, wait)


AttachmentWait = Depends(_attachment)
"""A dependency that waits before an attachment is read."""
DeliveryWait = Depends(_delivery)
"""A dependency that waits before a delivery is read."""


async def _changed(
    request: Request, gateway: Gateway, caller: Caller, of: Identified, given: str, seconds: float
) -> None:
    """Wait for the next event about something whose state is not final, or until its client leaves.

    What the caller does not know is not waited for: the time of the response would tell that it exists.
    """
    feed: Feed = request.app.state.feed
    identifier = await run_in_threadpool(whole, gateway, of, given, caller)
    with feed.awaiting(identifier) as signal:
        before = await run_in_threadpool(_state, gateway, caller, of, identifier)
        if before not in _CHANGING:
            return
        with suppress(ClientLeft, TimeoutError):
            async with while_connected(request.receive), asyncio.timeout(seconds):
                while True:
                    await signal.wait()
                    signal.clear()
                    if feed.has_ended or await run_in_threadpool(_state, gateway, caller, of, identifier) is not before:
                        return


def _state(gateway: Gateway, caller: Caller, of: Identified, given: str) -> AttachmentState | DeliveryState | None:
    """Return the state of what the caller knows; None for anything else."""
    if of == "attachments":
        attachment = gateway.catalog.attachment(given)
        return attachment.state if attachment and caller.principal.knows_source(attachment.source) else None
    delivery = gateway.catalog.delivery(given)
    return delivery.state if delivery and caller.principal.knows_destination(delivery.destination) else None
