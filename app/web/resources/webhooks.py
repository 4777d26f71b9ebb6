"""Webhooks: their state, the events that were given up, and sending them again."""

from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from app.model.event_logs import EventLogs
from app.model.times import to_time
from app.model.webhook_state import DeadLetter, WebhookState
from app.ports import BadCursor, Page
from app.service.events.event_entries import cloud_event
from app.service.gateway import Gateway
from app.web.dependencies.caller import CallerDep, require_unlimited, resource_router
from app.web.dependencies.request_gateway import BaseDep, GatewayDep, PagingDep
from app.web.http.json_body import read_json, request_body
from app.web.http.parameters import DIGITS, optional_time
from app.web.problems import Problem, invalid_content, responses
from app.web.resources.schemas import Links, PageView, page_view


class WebhookView(BaseModel):
    """One webhook, and its progress."""

    name: str
    url: str = Field(description="address, without its query")
    state: WebhookState
    types: list[str]
    sources: list[str]
    destinations: list[str]
    last_event: int = Field(description="number of the last event that was processed")
    behind: int = Field(description="number of later events in the log, whether the webhook selects them or not")
    dead_letters: int = Field(description="events that were given up and are kept")
    attempts: int = Field(description="failed attempts since the last success")
    failing_since: datetime | None
    next_attempt_at: datetime | None
    reason: str | None = Field(description="why the last attempt failed; null if it did not")
    links: Links

    @classmethod
    def of(cls, gateway: Gateway, name: str, dead_letters: int, base: str) -> "WebhookView":
        desk = gateway.webhooks
        record, settings = desk.record(name), desk.settings[name]
        path = f"{base}/webhooks/{name}"
        next_attempt = 0 if record.state is WebhookState.DISABLED else record.next_attempt_at
        return cls(
            name=name,
            url=urlsplit(settings.url)._replace(query="").geturl(),
            state=record.state,
            types=settings.types,
            sources=settings.sources,
            destinations=settings.destinations,
            last_event=record.position,
            behind=desk.behind(record),
            dead_letters=dead_letters,
            attempts=record.attempts,
            failing_since=optional_time(record.failing_since),
            next_attempt_at=optional_time(next_attempt or None),
            reason=record.reason,
            links={"self": path, "dead_letters": f"{path}/dead-letters"},
        )


class DeadLetterView(BaseModel):
    """An event that was given up for a webhook."""

    number: int = Field(description="number of the event, by which it is sent again")
    event: dict[str, Any] = Field(description="the CloudEvent")
    failed_at: datetime
    reason: str
    queued_at: datetime | None = Field(description="when it was queued to be sent again; null if it is not")

    @classmethod
    def of(cls, letter: DeadLetter, logs: EventLogs) -> "DeadLetterView":
        return cls(
            number=letter.event.number,
            event=cloud_event(letter.event, logs),
            failed_at=to_time(letter.failed_at),
            reason=letter.reason,
            queued_at=optional_time(letter.queued_at),
        )


class Replay(BaseModel):
    """Where a webhook begins again."""

    model_config = ConfigDict(extra="forbid")

    after: int = Field(ge=0, lt=1 << 63, description="the number of an event; those after it are sent again")


class Count(BaseModel):
    """The number of dead letters that were changed."""

    dead_letters: int


Name = Annotated[str, Path(description="its name in the settings", max_length=100)]
Events = Annotated[
    list[Annotated[int, Query(ge=1, lt=1 << 63), DIGITS]] | None,
    Query(alias="event", description="the numbers of their events; without it, all"),
]


async def _named(name: Name, caller: CallerDep) -> None:
    caller.trail.details = {"webhook": name}


router = resource_router(prefix="/webhooks", tags=["events"], dependencies=[Depends(require_unlimited)])
_NAMED = [Depends(_named)]
"""The audit log tells the webhook."""


@router.get("", operation_id="list_webhooks")
def list_webhooks(gateway: GatewayDep, base: BaseDep) -> PageView[WebhookView]:
    """List the configured webhooks by name."""
    counts = gateway.catalog.dead_letter_counts()
    names = sorted(gateway.webhooks.settings)
    return PageView(items=[WebhookView.of(gateway, name, counts.get(name, 0), base) for name in names], next=None)


@router.get("/{name}", operation_id="get_webhook", responses=responses("not-found"))
def get_webhook(name: Name, gateway: GatewayDep, base: BaseDep) -> WebhookView:
    """Return one webhook."""
    return _view(gateway, _known(gateway, name), base)


@router.post(
    "/{name}/enable",
    operation_id="enable_webhook",
    dependencies=_NAMED,
    responses=responses("not-found"),
)
def enable_webhook(name: Name, gateway: GatewayDep, base: BaseDep) -> WebhookView:
    """Send events to a webhook that was disabled by status 410, or try one at once that is failing."""
    gateway.webhooks.enable(_known(gateway, name))
    return _view(gateway, name, base)


@router.post(
    "/{name}/replay",
    operation_id="replay_webhook",
    dependencies=_NAMED,
    openapi_extra=request_body(Replay),
    responses=responses("not-found", "malformed", "too-large"),
)
async def replay_webhook(name: Name, request: Request, gateway: GatewayDep, base: BaseDep) -> WebhookView:
    """Send the events after a number again. Each keeps its `webhook-id`. Events that `retention.events` has removed
    are left out. A number after the webhook's position skips events; one after the newest event is refused."""
    replay = await read_json(request, Replay)

    def rewind() -> WebhookView:
        try:
            gateway.webhooks.rewind(_known(gateway, name), replay.after)
        except ValueError as error:
            raise invalid_content("#/after", str(error)) from None
        return _view(gateway, name, base)

    return await run_in_threadpool(rewind)


@router.get("/{name}/dead-letters", operation_id="list_dead_letters", responses=responses("not-found"))
def list_dead_letters(name: Name, gateway: GatewayDep, paging: PagingDep) -> PageView[DeadLetterView]:
    """List the events that were given up for a webhook, in the order of the event log."""
    _known(gateway, name)
    after = paging.cursor or "0"
    if not (after.isascii() and after.isdigit() and len(after) <= 18):
        raise BadCursor(after)
    letters = gateway.catalog.dead_letters(name, int(after), paging.limit + 1)
    following = str(letters[paging.limit - 1].event.number) if len(letters) > paging.limit else None
    page = Page(letters[: paging.limit], following)
    logs = gateway.catalog.event_logs()
    return page_view(paging, page, lambda letter: DeadLetterView.of(letter, logs))


@router.post(
    "/{name}/dead-letters/replay",
    operation_id="replay_dead_letters",
    dependencies=_NAMED,
    status_code=202,
    responses=responses("not-found"),
)
def replay_dead_letters(name: Name, gateway: GatewayDep, events: Events = None) -> Count:
    """Send dead letters again, before newer events and in the order of the event log."""
    return Count(dead_letters=gateway.webhooks.requeue(_known(gateway, name), events))


@router.delete(
    "/{name}/dead-letters",
    operation_id="delete_dead_letters",
    dependencies=_NAMED,
    responses=responses("not-found"),
)
def delete_dead_letters(name: Name, gateway: GatewayDep, events: Events = None) -> Count:
    """Delete dead letters for ever."""
    return Count(dead_letters=gateway.catalog.drop_dead_letters(_known(gateway, name), events))


def _view(gateway: Gateway, name: str, base: str) -> WebhookView:
    return WebhookView.of(gateway, name, gateway.catalog.dead_letter_counts().get(name, 0), base)


def _known(gateway: Gateway, name: str) -> str:
    """Return the name of a webhook of the settings. Raises Problem for any other name."""
    if name not in gateway.webhooks.settings:
        raise Problem("not-found", f"there is no webhook {name!r} in the settings")
    return name
