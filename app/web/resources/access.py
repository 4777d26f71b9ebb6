"""Who the caller is, the audit log for administrators, and signed links to content and events."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from app.model.principals import PrincipalKind, Scope
from app.model.times import to_time
from app.service.access.audit import AuditLog, Entry, Repeats
from app.service.access.signed_links import Links
from app.web.access.operations import READ_AUDIT
from app.web.dependencies.caller import LINK, CallerDep, resource_router
from app.web.dependencies.request_gateway import API, BaseDep, GatewayDep, PagingDep
from app.web.http.entity_tags import weak_tag
from app.web.http.json_body import read_json, request_body
from app.web.http.parameters import Timestamp, optional_time, to_microseconds
from app.web.problems import Problem, responses
from app.web.resources.schemas import PageView, page_view

NO_ENTRY: Entry = {"time": "", "action": "", "result": ""}
router = resource_router(tags=["operations"])


class WhoView(BaseModel):
    """A principal. `id` is the identifier of an API key, or the first digits of a configured token's SHA-256."""

    kind: str = Field(examples=["key"])
    name: str = Field(examples=["billing"])
    id: str = Field(default="", examples=["5f0c2a9be1d4"])


class AuditEntryView(BaseModel, extra="allow"):
    """One entry of the audit log. Further members depend on the action: `attachment`, `source`, `destination` ..."""

    time: str = Field(examples=["2026-11-22T19:40:00.123456+00:00"])
    action: str = Field(examples=["read-content"])
    result: str = Field(
        description="`done`, `refused`, `failed`, or `abandoned` if the client disconnected before the response",
        examples=["done"],
    )
    who: WhoView | None = Field(default=None, description="null if the caller was not authenticated")
    from_: str | None = Field(default=None, alias="from", description="the client's address", examples=["127.0.0.1"])
    method: str | None = None
    path: str | None = None
    status: int | None = None
    reason: str | None = Field(default=None, description="why it was refused")


class CallerView(BaseModel):
    """The caller of a request, and what it may do. `sources` and `destinations` are null for a caller without
    limits."""

    kind: PrincipalKind
    name: str = Field(examples=["billing"])
    id: str = Field(
        description="of an API key, or the first digits of a configured token's SHA-256", examples=["5f0c2a9be1d4"]
    )
    scopes: list[Scope] = Field(description="`admin` includes all others", examples=[["read", "send"]])
    sources: list[str] | None = Field(examples=[["orders"]])
    destinations: list[str] | None
    expires_at: datetime | None = Field(description="when the key or the access token expires")


class ToolView(BaseModel):
    """A tool of the Model Context Protocol, which is an operation of REST."""

    name: str = Field(description="that of the operation", examples=["list_attachments"])
    description: str
    changes: bool = Field(description="whether it does more than read", examples=[False])


class ToolsView(BaseModel):
    """The tools for language models that the caller may use."""

    mcp: str | None = Field(
        description="path where the protocol is spoken; null where `http.mcp` is false", examples=["/mcp"]
    )
    items: list[ToolView]


@router.get("/caller", operation_id="get_caller")
def get_caller(caller: CallerDep) -> CallerView:
    """Return who the caller is, its scopes and its limits, so that a client offers only what is allowed."""
    who = caller.principal
    return CallerView(
        kind=who.kind,
        name=who.name,
        id=who.id,
        scopes=sorted(who.scopes),
        sources=None if who.sources is None else sorted(who.sources),
        destinations=None if who.destinations is None else sorted(who.destinations),
        expires_at=optional_time(who.expires_at),
    )


@router.get("/tools", operation_id="list_tools")
def list_tools(request: Request, caller: CallerDep, base: BaseDep) -> ToolsView:
    """List the tools for language models (Model Context Protocol) that the caller may use, and say where they are."""
    offering = getattr(request.app.state, "model_context", None)
    if offering is None:
        return ToolsView(mcp=None, items=[])
    items = [
        ToolView(name=each.name, description=each.description, changes=not each.annotations.read_only_hint)
        for each in offering.offered(caller.principal)
    ]
    return ToolsView(mcp=base.removesuffix(API) + "/mcp", items=items)


@router.get("/audit", operation_id="list_audit", response_model=PageView[AuditEntryView], responses=responses())
def list_audit(
    request: Request,
    response: Response,
    caller: CallerDep,
    paging: PagingDep,
    action: Annotated[str | None, Query(max_length=100, examples=["sign-in"])] = None,
    result: Literal["done", "refused", "failed", "abandoned"] | None = None,
    who: Annotated[str | None, Query(max_length=200, description="name or identifier of a principal")] = None,
    after: Annotated[Timestamp | None, Query(examples=["2026-11-21T08:00:00Z"])] = None,
    before: Annotated[Timestamp | None, Query(examples=["2026-11-22T08:00:00Z"])] = None,
) -> Any:
    """List the entries of the audit log, newest first: failed sign-ins, everything that was sent, read, deleted and
    replayed, changes of keys, and all refusals.

    The entity tag identifies the newest entry on the page that is not itself a reading of this log.
    """
    caller.require_unlimited()
    repeats: Repeats = request.app.state.repeats
    repeats.flush()
    log: AuditLog = request.app.state.audit
    log.flush()
    wanted = {"action": action, "result": result}
    since, until = (optional_time(to_microseconds(time)) for time in (after, before))
    first, end = _text(since), _text(until)

    def matches(entry: Entry) -> bool:
        about = entry.get("who") or {}
        return (
            all(value is None or entry.get(name) == value for name, value in wanted.items())
            and (who is None or who in (about.get("name"), about.get("id")))
            and (first is None or str(entry.get("time")) >= first)
            and (end is None or str(entry.get("time")) < end)
        )

    texts = [value for value in (who, action, result) if value is not None]
    page = log.page(matches, paging.cursor, paging.limit, texts=texts, since=since)
    counted = (each for each in page.items if action == READ_AUDIT or each.get("action") != READ_AUDIT)
    response.headers["ETag"] = weak_tag(AuditEntryView.model_validate(next(counted, NO_ENTRY)))
    return page_view(paging, page, AuditEntryView.model_validate)


def _text(time: datetime | None) -> str | None:
    """Return a time as entries have it, which order as texts."""
    return None if time is None else time.isoformat(timespec="microseconds")


LONGEST_SECONDS = 7 * 86400

_LINKED = re.compile(rf"{API}/(attachments/[0-9a-f]{{4,32}}/(content|receipt)|events)")


class LinkDraft(BaseModel):
    """The address of content, a receipt or the event stream, and for how many seconds it works without credentials."""

    model_config = ConfigDict(extra="forbid")

    path: Annotated[str, Field(max_length=2000)] = Field(
        description="path, and query if there is one",
        examples=["/v1/attachments/9f2c4b1e0d5a4c3b8e7f6a5d4c3b2a19/content?format=csv"],
    )
    seconds: int = Field(default=3600, ge=1, le=LONGEST_SECONDS)


class LinkView(BaseModel):
    """A signed link."""

    url: str = Field(description="path and query, which are valid only together and unchanged")
    expires_at: datetime


@router.post(
    "/links",
    operation_id="create_link",
    status_code=201,
    openapi_extra=request_body(LinkDraft),
    responses=responses("malformed", "too-large"),
)
async def create_link(request: Request, gateway: GatewayDep, caller: CallerDep) -> LinkView:
    """Make a link that works without credentials for a time, for reading one content, one receipt, or the events.

    It shows what the caller's key may read, and ends with that key. Whoever has the link may use it.
    """
    draft = await read_json(request, LinkDraft)
    base = request.scope.get("root_path", "")
    parts = urlsplit(draft.path.removeprefix(base))
    if parts.scheme or parts.netloc or parts.fragment or not _LINKED.fullmatch(parts.path):
        why = "give the path of an attachment's content, or of its receipt, or of the events"
        raise Problem("invalid", f"path: {why}", errors=[{"pointer": "#/path", "detail": why}])
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != LINK]
    until = gateway.clock.now() + draft.seconds * 1_000_000
    if caller.principal.expires_at is not None:
        until = min(until, caller.principal.expires_at)
    links: Links = request.app.state.links
    signed = await run_in_threadpool(links.sign, parts.path, query, caller.principal, until)
    caller.trail.details = {"linked": parts.path, "seconds": draft.seconds}
    return LinkView(url=f"{base}{quote(parts.path)}?{urlencode([*query, (LINK, signed)])}", expires_at=to_time(until))
