"""Signed links to content and events, for browsers and for services without credentials."""

import re
from datetime import datetime
from typing import Annotated
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from app.model.times import to_time
from app.service.access.signed_links import Links
from app.service.gateway import Gateway
from app.web.dependencies.caller import LINK, Caller, CallerDep
from app.web.dependencies.request_gateway import API, GatewayDep
from app.web.http.json_body import read_json, request_body
from app.web.problems import Problem, responses

LONGEST_SECONDS = 7 * 86400

_LINKED = re.compile(rf"{API}/(attachments/[0-9a-f]{{4,32}}/content|events)")

router = APIRouter(tags=["operations"])


class LinkDraft(BaseModel):
    """The address of content or of the event stream, and for how many seconds it works without credentials."""

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
    responses=responses("too-large", "invalid"),
)
async def create_link(request: Request, gateway: GatewayDep, caller: CallerDep) -> LinkView:
    """Make a link that works without credentials for a time, for reading one content or the events.

    It shows what the caller's key may read, and ends with that key. Whoever has the link may use it.
    """
    return await run_in_threadpool(_linked, await read_json(request, LinkDraft), request, gateway, caller)


def _linked(draft: LinkDraft, request: Request, gateway: Gateway, caller: Caller) -> LinkView:
    base = request.scope.get("root_path", "")
    parts = urlsplit(draft.path.removeprefix(base))
    if parts.scheme or parts.netloc or parts.fragment or not _LINKED.fullmatch(parts.path):
        why = "give the path of an attachment's content, or of the events"
        raise Problem("invalid", f"path: {why}", errors=[{"pointer": "#/path", "detail": why}])
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != LINK]
    until = gateway.clock.now() + draft.seconds * 1_000_000
    if caller.principal.expires_at is not None:
        until = min(until, caller.principal.expires_at)
    links: Links = request.app.state.links
    signed = links.sign(parts.path, query, caller.principal, until)
    caller.trail.details = {"linked": parts.path, "seconds": draft.seconds}
    return LinkView(url=f"{base}{quote(parts.path)}?{urlencode([*query, (LINK, signed)])}", expires_at=to_time(until))
