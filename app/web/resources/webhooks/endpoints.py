"""Webhooks: their state, the events that were given up, and sending them again."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.ports import BadCursor, Page
from app.service.gateway import Gateway
from app.service.webhooks.webhook import WebhookEndpoint
from app.web.dependencies.caller import CallerDep
from app.web.dependencies.request_gateway import BaseDep, GatewayDep, PagingDep, link_next
from app.web.http.json_body import read_json, request_body
from app.web.http.strict_int import Digits
from app.web.problems import Problem, responses
from app.web.resources.schemas import PageView, page_view
from app.web.resources.webhooks.schemas import Count, DeadLetterView, Replay, WebhookView

Name = Annotated[str, Path(description="its name in the settings", max_length=100)]
Events = Annotated[
    list[Annotated[Digits, Query(ge=1, lt=1 << 63)]] | None,
    Query(alias="event", description="the numbers of their events; without it, all"),
]


async def _about_all(caller: CallerDep) -> None:
    caller.require_unlimited()  # a webhook gets events about all sources and destinations


async def _named(name: Name, caller: CallerDep) -> None:
    caller.trail.details = {"webhook": name}


router = APIRouter(prefix="/webhooks", tags=["events"], dependencies=[Depends(_about_all)])
_NAMED = [Depends(_named)]
"""The audit log tells the webhook."""


@router.get("", operation_id="list_webhooks")
def list_webhooks(gateway: GatewayDep, base: BaseDep) -> PageView[WebhookView]:
    """List the configured webhooks by name."""
    counts = gateway.catalog.dead_letter_counts()
    endpoints = sorted(gateway.webhooks.endpoints.items())
    return PageView(
        items=[WebhookView.of(endpoint, counts.get(name, 0), base) for name, endpoint in endpoints], next=None
    )


@router.get("/{name}", operation_id="get_webhook", responses=responses("not-found", "invalid"))
def get_webhook(name: Name, gateway: GatewayDep, base: BaseDep) -> WebhookView:
    """Return one webhook."""
    return _view(gateway, _endpoint(gateway, name), base)


@router.post(
    "/{name}/enable",
    operation_id="enable_webhook",
    dependencies=_NAMED,
    responses=responses("not-found", "invalid"),
)
def enable_webhook(name: Name, gateway: GatewayDep, base: BaseDep) -> WebhookView:
    """Send events to a webhook that was disabled by status 410, or try one at once that is failing."""
    endpoint = _endpoint(gateway, name)
    endpoint.enable()
    gateway.webhooks.wake()
    return _view(gateway, endpoint, base)


@router.post(
    "/{name}/replay",
    operation_id="replay_webhook",
    dependencies=_NAMED,
    openapi_extra=request_body(Replay),
    responses=responses("not-found", "too-large", "invalid"),
)
async def replay_webhook(name: Name, request: Request, gateway: GatewayDep, base: BaseDep) -> WebhookView:
    """Send the events after a number again. Each keeps its `webhook-id`. Events that `retention.events` has removed
    are left out. A number after the webhook's position skips events."""
    replay = await read_json(request, Replay)
    return await run_in_threadpool(_replayed, gateway, name, replay.after, base)


def _replayed(gateway: Gateway, name: str, after: int, base: str) -> WebhookView:
    endpoint = _endpoint(gateway, name)
    endpoint.rewind(after)
    gateway.webhooks.wake()
    return _view(gateway, endpoint, base)


@router.get("/{name}/dead-letters", operation_id="list_dead_letters", responses=responses("not-found", "invalid"))
def list_dead_letters(
    name: Name, request: Request, response: Response, gateway: GatewayDep, paging: PagingDep
) -> PageView[DeadLetterView]:
    """List the events that were given up for a webhook, in the order of the event log."""
    endpoint = _endpoint(gateway, name)
    after = _number(paging.cursor)
    letters = gateway.catalog.dead_letters(endpoint.name, after, paging.limit + 1)
    following = str(letters[paging.limit - 1].event.number) if len(letters) > paging.limit else None
    page = Page(letters[: paging.limit], following)
    link_next(request, response, page)
    logs = gateway.catalog.event_logs()
    return page_view(page, lambda letter: DeadLetterView.of(letter, logs))


@router.post(
    "/{name}/dead-letters/replay",
    operation_id="replay_dead_letters",
    dependencies=_NAMED,
    status_code=202,
    responses=responses("not-found", "invalid"),
)
def replay_dead_letters(name: Name, gateway: GatewayDep, events: Events = None) -> Count:
    """Send dead letters again, before newer events and in the order of the event log."""
    queued = _endpoint(gateway, name).requeue(events)
    gateway.webhooks.wake()
    return Count(dead_letters=queued)


@router.delete(
    "/{name}/dead-letters",
    operation_id="delete_dead_letters",
    dependencies=_NAMED,
    responses=responses("not-found", "invalid"),
)
def delete_dead_letters(name: Name, gateway: GatewayDep, events: Events = None) -> Count:
    """Delete dead letters for ever."""
    return Count(dead_letters=gateway.catalog.drop_dead_letters(_endpoint(gateway, name).name, events))


def _view(gateway: Gateway, endpoint: WebhookEndpoint, base: str) -> WebhookView:
    return WebhookView.of(endpoint, gateway.catalog.dead_letter_counts().get(endpoint.name, 0), base)


def _endpoint(gateway: Gateway, name: str) -> WebhookEndpoint:
    if (endpoint := gateway.webhooks.endpoints.get(name)) is None:
        raise Problem("not-found", f"there is no webhook {name!r} in the settings")
    return endpoint


def _number(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise BadCursor(cursor)
    return int(cursor)
