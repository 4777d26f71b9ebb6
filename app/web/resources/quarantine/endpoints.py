"""Quarantine: physical messages that the gateway cannot read, with the reason and the bytes."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.model.errors import JournalFull
from app.model.message import PhysicalMessage
from app.model.records import QuarantineRecord, QuarantineState
from app.service.gateway import Gateway
from app.service.quarantine.quarantine_records import quarantined_message
from app.web.dependencies.caller import Caller, CallerDep
from app.web.dependencies.identifiers import EntryIdentifier, entry_identifier, unknown
from app.web.dependencies.request_gateway import BaseDep, GatewayDep, PagingDep, link_next
from app.web.http.strict_int import Digits
from app.web.problems import Problem, responses
from app.web.resources.quarantine.schemas import LONGEST_WHY, QuarantineGroupsView, QuarantineView, ReplayedView
from app.web.resources.schemas import PageView, page_view
from app.web.resources.trace.schemas import FrameView
from app.web.resources.trace.traced_message import traced

PREVIEW = 256
"""Number of a message's first bytes that its entry shows."""
_GONE = "the bytes of this message are gone"

Code = Annotated[str | None, Query(max_length=100, examples=["truncated"])]
Why = Annotated[
    str | None,
    Query(max_length=LONGEST_WHY, description="a reason; those that differ in numbers and identifiers only match"),
]

router = APIRouter(prefix="/quarantine", tags=["quarantine"])


@router.get("", operation_id="list_quarantine", responses=responses("invalid"))
def list_quarantine(
    request: Request,
    response: Response,
    gateway: GatewayDep,
    caller: CallerDep,
    base: BaseDep,
    paging: PagingDep,
    source: Annotated[str | None, Query(max_length=100)] = None,
    state: QuarantineState | None = None,
    code: Code = None,
    why: Why = None,
) -> PageView[QuarantineView]:
    """List the quarantined messages, newest first."""
    page = gateway.catalog.quarantined(source, state, paging.cursor, paging.limit, caller.sources, code, why)
    link_next(request, response, page)
    return page_view(page, lambda record: QuarantineView.of(record, base))


@router.get("/groups", operation_id="list_quarantine_groups", responses=responses("invalid"))
def list_quarantine_groups(
    gateway: GatewayDep,
    caller: CallerDep,
    source: Annotated[str | None, Query(max_length=100)] = None,
    state: QuarantineState | None = None,
    code: Code = None,
    why: Why = None,
    limit: Annotated[Digits, Query(description="maximum number of groups", ge=1, le=500)] = 50,
) -> QuarantineGroupsView:
    """Count the quarantined messages by source, code and reason, the largest groups first.

    Reasons that differ in numbers and identifiers only are of one group.
    """
    return QuarantineGroupsView.of(gateway.catalog.quarantine_groups(source, state, limit, caller.sources, code, why))


@router.get("/{quarantine_id}", operation_id="get_quarantine_entry", responses=responses("not-found"))
def get_quarantine_entry(
    quarantine_id: EntryIdentifier, gateway: GatewayDep, caller: CallerDep, base: BaseDep
) -> QuarantineView:
    """Return one entry, with its message's first bytes and its properties."""
    record = _entry(gateway, quarantine_id, caller)
    try:
        message = quarantined_message(record, gateway.context)
    except KeyError:
        return QuarantineView.of(record, base)
    return QuarantineView.of(record, base, bytes(message.body[:PREVIEW]), message.properties)


@router.get(
    "/{quarantine_id}/body",
    operation_id="get_quarantined_body",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}, **responses("not-found", "gone")},
)
def get_quarantined_body(quarantine_id: EntryIdentifier, gateway: GatewayDep, caller: CallerDep) -> Response:
    """Return the message's body as it was received."""
    record = _entry(gateway, quarantine_id, caller)
    try:
        body = bytes(quarantined_message(record, gateway.context).body)
    except KeyError:
        raise Problem("gone", _GONE) from None
    headers = {"Content-Disposition": 'attachment; filename="body.bin"', "X-Content-Type-Options": "nosniff"}
    return Response(body, 200, headers, "application/octet-stream")


@router.get(
    "/{quarantine_id}/trace",
    operation_id="trace_quarantined",
    response_model=list[FrameView],
    responses=responses("not-found", "gone", "too-large", "conversion-limit", "busy"),
)
async def trace_quarantined(
    quarantine_id: EntryIdentifier, request: Request, gateway: GatewayDep, caller: CallerDep
) -> Response:
    """Decode the message field by field, by the values of its descriptor, up to the byte where it cannot be read."""
    message = await run_in_threadpool(_message, gateway, quarantine_id, caller)
    return await traced(request, message)


@router.post(
    "/{quarantine_id}/replay",
    operation_id="replay_quarantined",
    responses=responses("not-found", "gone", "damaged", "storage-full"),
)
def replay_quarantined(
    quarantine_id: EntryIdentifier, gateway: GatewayDep, caller: CallerDep, base: BaseDep
) -> ReplayedView:
    """Process a quarantined message again, e.g. after correcting the source's settings.

    It is written to the journal as if it arrived now. If it still cannot be read, a new entry is created. `outcome`
    says what became of it.
    """
    identifier = _entry(gateway, quarantine_id, caller).id
    try:
        replayed = gateway.replayer.replay(identifier)
    except KeyError:
        raise Problem("gone", _GONE) from None
    except JournalFull as full:
        raise Problem("storage-full", str(full)) from None
    if replayed is None:
        raise unknown("quarantine entry", quarantine_id)
    outcome = replayed()
    return ReplayedView.of_outcome(_entry(gateway, identifier, caller), outcome, base)


@router.delete(
    "/{quarantine_id}", operation_id="dismiss_quarantined", status_code=204, responses=responses("not-found")
)
def dismiss_quarantined(quarantine_id: EntryIdentifier, gateway: GatewayDep, caller: CallerDep) -> None:
    """Mark an entry as not needed. Its bytes no longer keep a journal segment, and are deleted later by retention."""
    if not gateway.catalog.set_quarantine_state(_entry(gateway, quarantine_id, caller).id, "dismissed"):
        raise unknown("quarantine entry", quarantine_id)


def _message(gateway: Gateway, quarantine_id: str, caller: Caller) -> PhysicalMessage:
    try:
        return quarantined_message(_entry(gateway, quarantine_id, caller), gateway.context)
    except KeyError:
        raise Problem("gone", _GONE) from None


def _entry(gateway: Gateway, quarantine_id: str, caller: Caller) -> QuarantineRecord:
    record = gateway.catalog.quarantine_entry(entry_identifier(quarantine_id))
    if record is None or not caller.knows_source(record.source):
        raise unknown("quarantine entry", quarantine_id)
    caller.trail.details = {"entry": record.id, "source": record.source}
    return record
