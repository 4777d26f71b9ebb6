"""Quarantine: physical messages that the gateway cannot read, with the reason and the bytes."""

from time import monotonic
from typing import Annotated, Final

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.model.errors import DamagedError, JournalFull, NotArchived
from app.model.records import QuarantineRecord, QuarantineState
from app.service.gateway import Gateway
from app.service.quarantine.quarantine_records import quarantined_message
from app.service.quarantine.replays import Replayed
from app.web.dependencies.caller import Caller, CallerDep, resource_router
from app.web.dependencies.known_resources import EntryIdentifier, entry_identifier, unknown
from app.web.dependencies.request_gateway import GatewayDep, PagingDep
from app.web.http.json_body import read_json, request_body
from app.web.http.parameters import DIGITS
from app.web.problems import Problem, responses
from app.web.resources.quarantine.schemas import (
    LONGEST_WHY,
    MOST_AT_ONCE,
    OneOfSeveral,
    QuarantineGroupsView,
    QuarantineView,
    ReplayedView,
    Several,
    SeveralView,
    outcome_view,
)
from app.web.resources.schemas import PageView, page_view
from app.web.resources.trace import FrameView, decoded_message

PREVIEW = 256
"""Number of a message's first bytes that its entry shows."""
_GONE = "the bytes of this message have been deleted"

Code = Annotated[str | None, Query(max_length=100, examples=["truncated"])]
Why = Annotated[
    str | None,
    Query(max_length=LONGEST_WHY, description="a reason; reasons that differ only in numbers and identifiers match"),
]

router = resource_router(prefix="/quarantine", tags=["quarantine"])


@router.get("", operation_id="list_quarantine", responses=responses())
def list_quarantine(
    gateway: GatewayDep,
    caller: CallerDep,
    paging: PagingDep,
    source: Annotated[str | None, Query(max_length=100)] = None,
    state: QuarantineState | None = None,
    code: Code = None,
    why: Why = None,
) -> PageView[QuarantineView]:
    """List the quarantined messages, newest first."""
    page = gateway.catalog.quarantined(source, state, paging.cursor, paging.limit, caller.sources, code, why)
    return page_view(paging, page, lambda record: QuarantineView.of(record, caller.base))


@router.get("/groups", operation_id="list_quarantine_groups", responses=responses())
def list_quarantine_groups(
    gateway: GatewayDep,
    caller: CallerDep,
    source: Annotated[str | None, Query(max_length=100)] = None,
    state: QuarantineState | None = None,
    code: Code = None,
    why: Why = None,
    limit: Annotated[int, Query(description="maximum number of groups", ge=1, le=500), DIGITS] = 50,
) -> QuarantineGroupsView:
    """Count the quarantined messages by source, code and reason, the largest groups first.

    Reasons that differ only in numbers and identifiers belong to one group.
    """
    return QuarantineGroupsView.of(gateway.catalog.quarantine_groups(source, state, limit, caller.sources, code, why))


@router.get("/{quarantine_id}", operation_id="get_quarantine_entry", responses=responses("not-found", "damaged"))
def get_quarantine_entry(quarantine_id: EntryIdentifier, gateway: GatewayDep, caller: CallerDep) -> QuarantineView:
    """Return one entry, with its message's first bytes and its properties."""
    record = _entry(gateway, quarantine_id, caller)
    try:
        message = quarantined_message(record, gateway.context)
    except (KeyError, NotArchived):
        return QuarantineView.of(record, caller.base)
    return QuarantineView.of(record, caller.base, bytes(message.body[:PREVIEW]), message.properties)


@router.get(
    "/{quarantine_id}/body",
    operation_id="get_quarantined_body",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}, **responses("not-found", "gone", "damaged")},
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
    responses=responses("not-found", "gone", "damaged", "malformed", "too-large", "conversion-limit", "busy"),
)
async def trace_quarantined(
    quarantine_id: EntryIdentifier, request: Request, gateway: GatewayDep, caller: CallerDep
) -> Response:
    """Decode the message field by field, by the values of its descriptor, up to the byte where it cannot be read."""
    entry = await run_in_threadpool(_entry, gateway, quarantine_id, caller)
    try:
        message = await run_in_threadpool(quarantined_message, entry, gateway.context)
    except KeyError:
        raise Problem("gone", _GONE) from None
    return await decoded_message(request, message)


@router.post(
    "/{quarantine_id}/replay",
    operation_id="replay_quarantined",
    responses=responses("not-found", "gone", "damaged", "storage-full"),
)
def replay_quarantined(quarantine_id: EntryIdentifier, gateway: GatewayDep, caller: CallerDep) -> ReplayedView:
    """Process a quarantined message again, e.g. after correcting the source's settings.

    It is written to the journal as if it arrived now. If it still cannot be read, a new entry is created. `outcome`
    is the result.
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
    return ReplayedView.of_outcome(_entry(gateway, identifier, caller), outcome, caller.base)


@router.delete(
    "/{quarantine_id}", operation_id="dismiss_quarantined", status_code=204, responses=responses("not-found")
)
def dismiss_quarantined(quarantine_id: EntryIdentifier, gateway: GatewayDep, caller: CallerDep) -> None:
    """Mark an entry as not needed. Its bytes no longer keep a journal segment, and are deleted later by retention."""
    if not gateway.catalog.set_quarantine_state(_entry(gateway, quarantine_id, caller).id, "dismissed"):
        raise unknown("quarantine entry", quarantine_id)


def _entry(gateway: Gateway, quarantine_id: str, caller: Caller) -> QuarantineRecord:
    record = gateway.catalog.quarantine_entry(entry_identifier(quarantine_id))
    if record is None or not caller.knows_source(record.source):
        raise unknown("quarantine entry", quarantine_id)
    caller.trail.details = {"entry": record.id, "source": record.source}
    return record


OUTCOMES_SECONDS: Final = 10.0
"""The time after which a request does not wait for further outcomes of replays."""

Entry = tuple[str, QuarantineRecord | None]
"""The identifier of an entry, and the entry; None for one that the caller does not know."""


@router.post(
    "/replay",
    operation_id="replay_many_quarantined",
    openapi_extra=request_body(Several),
    responses=responses("malformed", "too-large"),
)
async def replay_many(request: Request, gateway: GatewayDep, caller: CallerDep) -> SeveralView:
    """Process up to 500 quarantined messages again, in the order of the request, or all entries of a group. Each
    succeeds or fails on its own."""
    asked = await read_json(request, Several)

    def replay() -> SeveralView:
        entries, following = _entries(gateway, asked, caller)
        begun: list[tuple[OneOfSeveral, Replayed | None]] = [_begun(gateway, *entry) for entry in entries]
        until = monotonic() + OUTCOMES_SECONDS
        for item, outcome in begun:
            if outcome is not None and monotonic() < until:
                item.outcome = outcome_view(outcome(), caller.base)
        return SeveralView(items=[item for item, _ in begun], next=following)

    return await run_in_threadpool(replay)


@router.post(
    "/dismiss",
    operation_id="dismiss_many_quarantined",
    openapi_extra=request_body(Several),
    responses=responses("malformed", "too-large"),
)
async def dismiss_many(request: Request, gateway: GatewayDep, caller: CallerDep) -> SeveralView:
    """Mark up to 500 entries, or all entries of a group, as not needed. Each succeeds or fails on its own."""
    asked = await read_json(request, Several)

    def dismiss() -> SeveralView:
        items = []
        entries, following = _entries(gateway, asked, caller)
        for given, record in entries:
            is_done = record is not None and gateway.catalog.set_quarantine_state(record.id, "dismissed")
            identifier = given if record is None else record.id
            items.append(OneOfSeveral(id=identifier, result="dismissed" if is_done else "not-found"))
        return SeveralView(items=items, next=following)

    return await run_in_threadpool(dismiss)


def _begun(gateway: Gateway, given: str, record: QuarantineRecord | None) -> tuple[OneOfSeveral, Replayed | None]:
    """Begin a replay; return what was done, and the function that waits for the outcome, if it was begun."""
    if record is None:
        return OneOfSeveral(id=given, result="not-found"), None
    try:
        replayed = gateway.replayer.replay(record.id)
    except KeyError:
        return OneOfSeveral(id=record.id, result="gone"), None
    except JournalFull:
        return OneOfSeveral(id=record.id, result="storage-full"), None
    except DamagedError:
        return OneOfSeveral(id=record.id, result="damaged"), None
    return OneOfSeveral(id=record.id, result="not-found" if replayed is None else "replayed"), replayed


def _entries(gateway: Gateway, asked: Several, caller: Caller) -> tuple[list[Entry], str | None]:
    """Return the entries that are asked for, each once, and the cursor of those behind them."""
    found: list[Entry] = []
    following = None
    if asked.group is None:
        for given in dict.fromkeys(map(entry_identifier, asked.ids or ())):
            record = gateway.catalog.quarantine_entry(given)
            is_known = record is not None and caller.knows_source(record.source)
            found.append((given, record if is_known else None))
    else:
        source, code, why = asked.group.source, asked.group.code, asked.group.why
        page = gateway.catalog.quarantined(source, "kept", asked.cursor, MOST_AT_ONCE, caller.sources, code, why)
        found, following = [(record.id, record) for record in page.items], page.next
    caller.trail.details = {"entries": [record.id for _, record in found if record is not None]}
    return found, following
