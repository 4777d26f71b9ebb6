"""Quarantine in bulk: many entries replayed or dismissed by one request."""

from time import monotonic
from typing import Final

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from app.model.errors import DamagedError, JournalFull
from app.model.records import QuarantineRecord
from app.service.gateway import Gateway
from app.service.quarantine.replays import Replayed
from app.web.dependencies.caller import Caller, CallerDep
from app.web.dependencies.identifiers import entry_identifier
from app.web.dependencies.request_gateway import BaseDep, GatewayDep
from app.web.http.json_body import read_json, request_body
from app.web.problems import responses
from app.web.resources.quarantine.schemas import MOST_AT_ONCE, OneOfSeveral, Several, SeveralView, outcome_view

OUTCOMES_SECONDS: Final = 10.0
"""The time after which a request does not wait for further outcomes of replays."""

Entry = tuple[str, QuarantineRecord | None]
"""The identifier of an entry, and the entry; None for one that the caller does not know."""

router = APIRouter(prefix="/quarantine", tags=["quarantine"])


@router.post(
    "/replay",
    operation_id="replay_many_quarantined",
    openapi_extra=request_body(Several),
    responses=responses("invalid", "too-large"),
)
async def replay_many(request: Request, gateway: GatewayDep, caller: CallerDep, base: BaseDep) -> SeveralView:
    """Process up to 500 quarantined messages again, in the order of the request, or those of a group. Each is done or
    not by itself."""
    asked = await read_json(request, Several)
    return await run_in_threadpool(_replayed, gateway, asked, caller, base)


@router.post(
    "/dismiss",
    operation_id="dismiss_many_quarantined",
    openapi_extra=request_body(Several),
    responses=responses("invalid", "too-large"),
)
async def dismiss_many(request: Request, gateway: GatewayDep, caller: CallerDep) -> SeveralView:
    """Mark up to 500 entries, or those of a group, as not needed. Each is done or not by itself."""
    asked = await read_json(request, Several)
    return await run_in_threadpool(_dismissed, gateway, asked, caller)


def _replayed(gateway: Gateway, asked: Several, caller: Caller, base: str) -> SeveralView:
    entries, following = _entries(gateway, asked, caller)
    begun: list[tuple[OneOfSeveral, Replayed | None]] = [_begun(gateway, *entry) for entry in entries]
    until = monotonic() + OUTCOMES_SECONDS
    for item, outcome in begun:
        if outcome is not None and monotonic() < until:
            item.outcome = outcome_view(outcome(), base)
    return SeveralView(items=[item for item, _ in begun], next=following)


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


def _dismissed(gateway: Gateway, asked: Several, caller: Caller) -> SeveralView:
    items = []
    entries, following = _entries(gateway, asked, caller)
    for given, record in entries:
        is_done = record is not None and gateway.catalog.set_quarantine_state(record.id, "dismissed")
        identifier = given if record is None else record.id
        items.append(OneOfSeveral(id=identifier, result="dismissed" if is_done else "not-found"))
    return SeveralView(items=items, next=following)


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
