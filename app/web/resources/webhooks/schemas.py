"""The JSON of webhooks."""

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from app.model.event_logs import EventLogs
from app.model.times import to_time
from app.model.webhook_state import DeadLetter, WebhookState
from app.service.events.event_entries import cloud_event
from app.service.webhooks.webhook import WebhookEndpoint
from app.web.http.iso_times import optional_time
from app.web.resources.schemas import Links


class WebhookView(BaseModel):
    """One webhook, and how far it has got."""

    name: str
    url: str = Field(description="without its query")
    state: WebhookState
    types: list[str]
    sources: list[str]
    destinations: list[str]
    last_event: int = Field(description="number of the last event that is done")
    behind: int = Field(description="events in the log after that one, selected or not")
    dead_letters: int = Field(description="events that were given up and are kept")
    attempts: int = Field(description="failed attempts since the last success")
    failing_since: datetime | None
    next_attempt_at: datetime | None
    reason: str | None = Field(description="why the last attempt failed; null if it did not")
    links: Links

    @classmethod
    def of(cls, endpoint: WebhookEndpoint, dead_letters: int, base: str) -> "WebhookView":
        record, settings = endpoint.record, endpoint.settings
        path = f"{base}/webhooks/{endpoint.name}"
        return cls(
            name=endpoint.name,
            url=urlsplit(settings.url)._replace(query="").geturl(),
            state=record.state,
            types=settings.types,
            sources=settings.sources,
            destinations=settings.destinations,
            last_event=record.position,
            behind=endpoint.behind,
            dead_letters=dead_letters,
            attempts=record.attempts,
            failing_since=optional_time(record.failing_since),
            next_attempt_at=optional_time(record.next_attempt_at or None),
            reason=record.reason,
            links={"self": path, "dead_letters": f"{path}/dead-letters"},
        )


class DeadLetterView(BaseModel):
    """An event that was given up for a webhook."""

    number: int = Field(description="of the event, by which it is sent again")
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
    """How many dead letters it concerned."""

    dead_letters: int
