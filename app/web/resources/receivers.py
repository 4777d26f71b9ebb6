"""Receivers that share a journal: what has been published of each, and having one leave, or forgetting it."""

from datetime import datetime
from typing import Annotated

from fastapi import Depends, Path
from pydantic import BaseModel, Field

from app.model.times import to_time
from app.ports.catalog.shared_journal import ReceiverState, ReceivingJournal
from app.web.dependencies.caller import CallerDep, require_unlimited, resource_router
from app.web.dependencies.request_gateway import GatewayDep
from app.web.problems import Problem, responses
from app.web.resources.schemas import PageView


class ReceiverView(BaseModel):
    """One of several receivers, by its own journal."""

    id: str = Field(description="identifier of its own journal")
    receiver: str = Field(description="name of the process that opened this journal last")
    published: int = Field(description="the last of its segments that the shared journal has; 0 before the first")
    opened_at: datetime = Field(description="when this process opened it")
    seen_at: datetime = Field(description="when the receiver was seen last, as it is every two seconds")
    state: ReceiverState = Field(
        description="`receiving`; `leaving`: it was asked to leave for good; `away`: it has not been seen for a minute"
    )
    sessions: dict[str, str] = Field(
        description="client identifiers for which MQTT brokers keep messages for it alone, by source"
    )

    @classmethod
    def of(cls, found: ReceivingJournal) -> "ReceiverView":
        return cls(
            id=found.id,
            receiver=found.receiver,
            published=found.published,
            opened_at=to_time(found.opened_at),
            seen_at=to_time(found.seen_at),
            state=found.state,
            sessions={**found.sessions},
        )


Journal = Annotated[str, Path(description="identifier of its own journal", max_length=100)]

router = resource_router(prefix="/receivers", tags=["operations"], dependencies=[Depends(require_unlimited)])


@router.get("", operation_id="list_receivers")
def list_receivers(gateway: GatewayDep) -> PageView[ReceiverView]:
    """List the receivers that share a journal, by their own journals. A gateway that receives alone has none."""
    return PageView(items=[ReceiverView.of(each) for each in gateway.catalog.receiving_journals()], next=None)


@router.post(
    "/{journal}/leave",
    operation_id="leave_receiver",
    status_code=202,
    responses=responses("not-found", "last-receiver"),
)
def leave_receiver(journal: Journal, gateway: GatewayDep, caller: CallerDep) -> ReceiverView:
    """Have a receiver leave for good: it receives nothing new, takes what brokers keep for it alone, ends its sessions
    there, and publishes all. Then it is listed no more.

    For a receiver that is away, another one ends the sessions. What it has acknowledged and not published stays missing
    until it comes back. A process that is started again receives again.
    """
    caller.trail.details = {"journal": journal}
    receivers = {each.id: each for each in gateway.catalog.receiving_journals()}
    if journal not in receivers:
        raise _unknown(journal)
    if not any(each.state == "receiving" for each in receivers.values() if each.id != journal):
        raise Problem(
            "last-receiver", f"no other receiver than {receivers[journal].receiver} receives: start one first"
        )
    gateway.catalog.ask_to_leave(journal)
    return ReceiverView.of(receivers[journal]._replace(is_leaving=True))


@router.delete(
    "/{journal}",
    operation_id="forget_receiver",
    status_code=204,
    responses=responses("not-found", "not-ended"),
)
def forget_receiver(journal: Journal, gateway: GatewayDep, caller: CallerDep) -> None:
    """Forget a receiver that does not come back: expiry waits for it no more, and it is not reported as away.

    What brokers keep for it alone stays there, and is lost when they end its sessions: have it leave, instead. What it
    has acknowledged and not published stays missing. A receiver that comes back nevertheless joins again, and
    publishes that.
    """
    caller.trail.details = {"journal": journal}
    found = next((each for each in gateway.catalog.receiving_journals() if each.id == journal), None)
    if found is not None and not found.is_away:
        raise Problem("not-ended", f"the receiver {found.receiver} was seen less than a minute ago: end it first")
    if not gateway.catalog.leave(journal):
        raise _unknown(journal)


def _unknown(journal: str) -> Problem:
    return Problem("not-found", f"there is no receiver with the journal {journal!r}")
