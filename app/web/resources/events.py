"""Server-sent events about attachments, deliveries and quarantine, as CloudEvents 1.0."""

from functools import partial
from typing import Annotated

from fastapi import Header, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from app.model.event_logs import EventFilter, EventLogs
from app.model.principals import Principal
from app.model.records import EventRecord
from app.service.access.authentication import Authenticator
from app.web.dependencies.caller import CallerDep, LinkDep, resource_router
from app.web.dependencies.known_resources import SHORTEST
from app.web.dependencies.request_gateway import GatewayDep
from app.web.problems import Problem, invalid_parameter, responses
from app.web.responses.event_feed import Feed

router = resource_router(tags=["events"])

_EXAMPLE = (
    "id: 17-3f9a2b01\n"
    'data: {"specversion": "1.0", "id": "17-3f9a2b01", "source": "/v1/events", "type": "attachment.finished", '
    '"subject": "9f2c4b1e0d5a4c3b8e7f6a5d4c3b2a19", "time": "2026-11-21T08:00:00+00:00", '
    '"datacontenttype": "application/json", "data": {"source": "orders", "size": 1048576}}\n\n'
)


@router.get(
    "/events",
    operation_id="stream_events",
    response_class=StreamingResponse,
    responses={
        200: {"description": "events as they happen", "content": {"text/event-stream": {"example": _EXAMPLE}}},
        **responses("events-gone"),
    },
)
async def stream_events(
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    link: LinkDep = None,
    after: Annotated[
        str | None, Query(max_length=60, description="begin after the event with this `id`; 0: with the oldest one")
    ] = None,
    last_event_id: Annotated[
        str | None,
        Header(max_length=60, description="`id` of the last event received; browsers send it when they reconnect"),
    ] = None,
    types: Annotated[
        list[str] | None,
        Query(
            alias="type", max_length=100, description="only these types, such as `attachment.finished` or `delivery.*`"
        ),
    ] = None,
    source: Annotated[
        list[str] | None, Query(max_length=100, description="only events about what these sources received")
    ] = None,
    destination: Annotated[
        list[str] | None, Query(max_length=100, description="only events about deliveries to these destinations")
    ] = None,
    subject: Annotated[
        list[str] | None,
        Query(
            max_length=100,
            description=f"only events about these identifiers, each whole or by its first digits (at least {SHORTEST})",
        ),
    ] = None,
) -> StreamingResponse:
    """Stream the events after `Last-Event-ID` or `after`, then new events as they happen; without either, only new
    events.

    An `id` is a number and the name of a log. Numbers increase by one, so a client notices when it has missed some (old
    events are removed after a time). The problem `events-gone` says that the event named is not in this catalog, which
    was rebuilt, or restored from an older copy: then events may have been lost, and the client reads the resources it
    needs again, and begins without an `id`. Each filter can be given several times. A client whose key is limited to
    sources or destinations gets only their events. Where events are left out, the stream sends the number that it has
    reached as an `id` without data, so that it resumes there.
    """
    del link  # `authorize` has looked at it
    if short := [each for each in subject or () if len(each) < SHORTEST]:
        raise invalid_parameter("subject", f"{short[0]!r} is too short: give at least {SHORTEST} digits")
    try:
        which = EventFilter.of(types or (), source or (), destination or (), subject or ())
    except ValueError as error:
        raise Problem("invalid", str(error), errors=[{"parameter": "type", "detail": str(error)}]) from None
    feed: Feed = request.app.state.feed
    losses = feed.losses
    newest = await run_in_threadpool(gateway.catalog.last_event)
    logs = await run_in_threadpool(gateway.events.look)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}
    principal = caller.principal
    authenticator: Authenticator = request.app.state.authenticator
    is_current = partial(authenticator.is_current, principal)
    begin = _number(logs, last_event_id, after, newest)
    return StreamingResponse(
        feed.stream(begin, losses, which, partial(_is_visible, principal), is_current),
        200,
        headers,
        "text/event-stream",
    )


def _is_visible(principal: Principal, event: EventRecord) -> bool:
    """Tell whether an event is about a source or a destination that a principal knows."""
    if "destination" in event.data:
        return principal.knows_destination(str(event.data["destination"]))
    return principal.sources is None or principal.knows_source(str(event.data.get("source")))


def _number(logs: EventLogs, last_event_id: str | None, after: str | None, newest: int) -> int:
    """Return the number of the event that a client has seen last; without one, of the newest. Raises Problem."""
    asked = after if last_event_id is None else last_event_id
    if asked is None:
        return newest
    try:
        number = logs.number(asked)
    except ValueError as error:
        where = {"parameter": "after"} if last_event_id is None else {"header_field": "Last-Event-ID"}
        raise Problem("invalid", str(error), errors=[{**where, "detail": str(error)}]) from None
    if number is None or number > newest:
        raise Problem(
            "events-gone",
            f"event {asked} is not in this catalog, which was rebuilt or restored since: read again the resources you "
            "need, and begin without an id",
        )
    return number
