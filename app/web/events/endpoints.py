"""Server-sent events about attachments, deliveries and quarantine, as CloudEvents 1.0."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from app.model.event_filter import EventFilter
from app.service.access.authentication import Authenticator
from app.web.access.caller import CallerDep, LinkDep
from app.web.deps import GatewayDep
from app.web.digits import Digits
from app.web.events.feed import Feed
from app.web.events.visibility import known_events
from app.web.problems import Problem, responses

router = APIRouter(tags=["events"])

_EXAMPLE = (
    "id: 17\n"
    'data: {"specversion": "1.0", "id": "17", "source": "/v1/events", "type": "attachment.finished", '
    '"subject": "9f2c4b1e0d5a4c3b8e7f6a5d4c3b2a19", "time": "2026-11-21T08:00:00+00:00", '
    '"datacontenttype": "application/json", "data": {"source": "orders", "size": 1048576}}\n\n'
)


@router.get(
    "/events",
    operation_id="stream_events",
    response_class=StreamingResponse,
    responses={
        200: {"description": "events as they happen", "content": {"text/event-stream": {"example": _EXAMPLE}}},
        **responses("invalid"),
    },
)
async def stream_events(
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    link: LinkDep = None,
    after: Annotated[Digits | None, Query(ge=0, lt=1 << 63, description="begin after this event")] = None,
    last_event_id: Annotated[
        int | None,
        Header(ge=0, lt=1 << 63, description="number of the last event received; browsers send it when they reconnect"),
    ] = None,
    types: Annotated[
        list[str] | None,
        Query(
            alias="type", max_length=100, description="only these types, such as `attachment.finished` or `delivery.*`"
        ),
    ] = None,
    source: Annotated[
        list[str] | None, Query(max_length=100, description="only events about what came from these sources")
    ] = None,
    destination: Annotated[
        list[str] | None, Query(max_length=100, description="only events about deliveries to these destinations")
    ] = None,
    subject: Annotated[
        list[str] | None, Query(max_length=100, description="only events about these identifiers")
    ] = None,
) -> StreamingResponse:
    """Stream the events after `Last-Event-ID` or `after`, then new events as they happen; without either, only new
    events.

    Event numbers increase by one, so a client can tell when it has missed some (old ones are removed in time). Each
    filter can be given several times. A client whose key is limited to sources or destinations gets only their events.
    Where events are left out, the stream sends the number that it has reached as an `id` without data, so that it
    resumes there.
    """
    del link  # `authorize` has looked at it
    try:
        which = EventFilter.of(types or (), source or (), destination or (), subject or ())
    except ValueError as error:
        raise Problem("invalid", str(error), errors=[{"parameter": "type", "detail": str(error)}]) from None
    feed: Feed = request.app.state.feed
    newest = await run_in_threadpool(gateway.catalog.last_event)
    asked = last_event_id if last_event_id is not None else after
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}
    principal = caller.principal
    visible = partial(known_events, gateway.catalog, principal) if principal.is_limited else None
    authenticator: Authenticator = request.app.state.authenticator
    is_current = partial(authenticator.is_current, principal)
    begin = newest if asked is None else min(asked, newest)
    return StreamingResponse(feed.stream(begin, which, visible, is_current), 200, headers, "text/event-stream")
