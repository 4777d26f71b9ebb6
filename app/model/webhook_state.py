"""The records of webhooks: the progress of each in the event log, and the events that were given up."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from app.model.records import EventRecord


class WebhookState(StrEnum):
    """Whether events are sent to a webhook."""

    ACTIVE = "active"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class WebhookRecord:
    """The progress of a webhook. Times are microseconds since 1970-01-01 UTC.

    All events up to the number `position` were delivered, left out or given up. `attempts` have failed one after the
    other since `failing_since`, the last one for `reason`; none will be made before `next_attempt_at`. `changes` is how
    often a client has changed the record, `requeues` how often one has queued dead letters.
    """

    name: str
    position: int
    state: WebhookState = WebhookState.ACTIVE
    attempts: int = 0
    failing_since: int | None = None
    next_attempt_at: int = 0
    reason: str | None = None
    updated_at: int = 0
    changes: int = 0
    requeues: int = 0


class DeadLetter(NamedTuple):
    """An event that was given up for a webhook at `failed_at`. If a client has asked to send it again, `queued_at` is
    when."""

    webhook: str
    event: EventRecord
    failed_at: int
    reason: str
    queued_at: int | None = None
