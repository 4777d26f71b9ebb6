"""The summary: what the gateway does at present, for pages and for people who look on."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from fastapi import Response
from pydantic import BaseModel, Field

from app.model.attachment import AttachmentState, DeliveryState
from app.model.times import to_time
from app.service.gateway import Gateway
from app.service.monitoring.catalog_watch import AGES, CountsSnapshot
from app.service.monitoring.history import SECONDS_A_POINT
from app.settings import Role
from app.web.dependencies.caller import CallerDep, resource_router
from app.web.dependencies.request_gateway import GatewayDep
from app.web.http.entity_tags import weak_tag
from app.web.http.parameters import optional_time
from app.web.problems import responses
from app.web.resources.schemas import shown

_DISCONNECTED: Mapping[str, Any] = {"connected": False, "since": None, "error": None}


class SourceSummary(BaseModel):
    """A source: its connection, what it receives, and the number of its attachments in each of these states."""

    name: str = Field(examples=["orders"])
    adapter: str | None = Field(description="transport; null if the source is no longer configured", examples=["mqtt"])
    framing: str | None = Field(examples=["sas_queue"])
    connected: bool
    since: datetime | None = Field(description="since when it is connected, or was seen without a connection")
    error: str | None = Field(description="why it is not connected", examples=[None])
    messages_per_second: float = Field(description="received in the last ten seconds", examples=[211.3])
    bytes_per_second: float = Field(description="of bodies", examples=[6761600.0])
    messages_per_point: list[int] = Field(
        description="messages received in each of the points of `history`", examples=[[12678]]
    )
    backlog: int | None = Field(
        description="messages that the broker has delivered and that are not on disk yet; null if the transport does "
        "not count them",
        examples=[12],
    )
    unannounced: int = Field(
        description="waiting for a header, which shows whether it is an attachment or an application message",
        examples=[0],
    )
    receiving: int = Field(examples=[3])
    complete: int = Field(description="not finished yet", examples=[0])
    finished: int = Field(examples=[1840])
    quarantined: int = Field(examples=[1])
    last_message_at: datetime | None = Field(
        description="to the second; if nothing was received since the gateway's start, that of the newest attachment"
    )

    @classmethod
    def of(cls, gateway: Gateway, standing: CountsSnapshot, name: str, until: int) -> "SourceSummary":
        receiver, settings = gateway.receivers.get(name), gateway.settings.sources.get(name)
        status = _DISCONNECTED if receiver is None else receiver.status()
        rate = gateway.history.received(name)
        states = standing.tallies.attachments.get(name, {})
        heard_at = gateway.history.heard_at(name) or standing.heard_at.get(name)
        return cls(
            name=shown(name),
            adapter=None if settings is None else settings.transport,
            framing=None if settings is None else settings.framing,
            **_connection(gateway, f"source {name}", status),
            messages_per_second=rate.messages,
            bytes_per_second=rate.bytes,
            messages_per_point=[point.activity.messages for point in gateway.history.points({name}, until)],
            backlog=status.get("unacknowledged"),
            unannounced=standing.tallies.unannounced.get(name, 0),
            receiving=states.get(AttachmentState.RECEIVING, 0),
            complete=states.get(AttachmentState.COMPLETE, 0),
            finished=states.get(AttachmentState.FINISHED, 0),
            quarantined=states.get(AttachmentState.QUARANTINED, 0),
            last_message_at=optional_time(heard_at),
        )


class DestinationSummary(BaseModel):
    """A destination: its connection, and its deliveries."""

    name: str = Field(examples=["replies"])
    connected: bool
    since: datetime | None = Field(description="since when it is connected, or was seen without a connection")
    error: str | None = Field(examples=[None])
    queued: int = Field(examples=[0])
    sending: int = Field(examples=[1])
    sent: int = Field(examples=[310])
    failed: int = Field(examples=[0])
    messages_per_second: float = Field(description="confirmed by the broker in the last ten seconds", examples=[88.0])

    @classmethod
    def of(cls, gateway: Gateway, standing: CountsSnapshot, name: str) -> "DestinationSummary":
        outbox = gateway.deliveries.outboxes.get(name)
        status = _DISCONNECTED if outbox is None else outbox.status()
        states = standing.tallies.deliveries.get(name, {})
        return cls(
            name=shown(name),
            **_connection(gateway, f"destination {name}", status),
            queued=states.get(DeliveryState.QUEUED, 0),
            sending=states.get(DeliveryState.SENDING, 0),
            sent=states.get(DeliveryState.SENT, 0),
            failed=states.get(DeliveryState.FAILED, 0),
            messages_per_second=gateway.history.sent(name),
        )


class OpenQuarantine(BaseModel):
    """The entries of the quarantine that are neither replayed nor dismissed."""

    open: int = Field(examples=[2])


class AgeCount(BaseModel):
    """Number of attachments being received by the age of their last message: less than `under_seconds`, and not in an
    earlier entry. Null: all older ones."""

    under_seconds: int | None = Field(examples=[600])
    count: int = Field(examples=[4])


class JournalSummary(BaseModel):
    """The journal on its disk. Receiving pauses while less than `reserve_bytes` are free."""

    size: int = Field(description="bytes of its segments", examples=[268435456])
    free_bytes: int = Field(examples=[54087696384])
    reserve_bytes: int = Field(examples=[268435456])
    segments: int = Field(examples=[2])

    @classmethod
    def of(cls, gateway: Gateway) -> "JournalSummary":
        segments = gateway.journal.segments()
        return cls(
            size=sum(segment.size for segment in segments),
            free_bytes=gateway.receiving.free_bytes(),
            reserve_bytes=gateway.settings.limits.free_bytes,
            segments=len(segments),
        )


class HistoryPoint(BaseModel):
    """What happened in the interval that begins at a time."""

    time: datetime
    messages: int = Field(examples=[12678])
    size: int = Field(description="bytes of the received bodies", examples=[405696000])
    finished: int = Field(examples=[31])
    quarantined: int = Field(examples=[0])


class HistoryView(BaseModel):
    """The last hour, or the time since the gateway's start. The last point is still incomplete."""

    seconds_per_point: int = Field(examples=[60])
    points: list[HistoryPoint]


class SummaryView(BaseModel):
    """What the gateway does at present. A caller with limits sees its own sources and destinations only."""

    time: datetime
    sources: list[SourceSummary]
    destinations: list[DestinationSummary]
    attachments: dict[str, int] = Field(
        description="number of attachments in each state", examples=[{"receiving": 3, "finished": 1840}]
    )
    unannounced: int = Field(
        description="what waits for a header, which shows whether it is an attachment or an application message; not "
        "included in the other numbers",
        examples=[0],
    )
    quarantine: OpenQuarantine
    partials_by_age: list[AgeCount]
    journal: JournalSummary | None = Field(
        description="null for a caller with limits, and where this process does not receive"
    )
    history: HistoryView


router = resource_router(tags=["operations"])


@router.get("/summary", operation_id="get_summary", responses=responses("unavailable"))
def get_summary(gateway: GatewayDep, caller: CallerDep, response: Response) -> SummaryView:
    """Return what the gateway does at present: its sources and destinations, numbers of attachments, the journal, and
    the last hour.

    Numbers from the catalog may be a second old, or longer where counting takes long.
    """
    standing = gateway.counting.standing()
    who = caller.principal
    sources = _known(gateway.receivers, standing.tallies.attachments, who.knows_source)
    destinations = _known(gateway.deliveries.outboxes, standing.tallies.deliveries, who.knows_destination)
    waiting = [standing.tallies.waiting[name] for name in sources if name in standing.tallies.waiting]
    shares = [standing.tallies.attachments.get(name, {}) for name in sources]
    kept = standing.tallies.quarantine  # its sources may have nothing else
    now = gateway.clock.now()
    points = gateway.history.points(caller.sources, now)
    view = SummaryView(
        time=to_time(now),
        sources=[SourceSummary.of(gateway, standing, name, now) for name in sources],
        destinations=[DestinationSummary.of(gateway, standing, name) for name in destinations],
        attachments={str(state): sum(share.get(state, 0) for share in shares) for state in AttachmentState},
        unannounced=sum(standing.tallies.unannounced.get(name, 0) for name in sources),
        quarantine=OpenQuarantine(
            open=sum(states.get("kept", 0) for name, states in kept.items() if who.knows_source(name))
        ),
        partials_by_age=[
            AgeCount(under_seconds=seconds, count=sum(counts[at] for counts in waiting))
            for at, seconds in enumerate((*AGES, None))
        ],
        journal=None if who.is_limited or Role.RECEIVE not in gateway.settings.roles else JournalSummary.of(gateway),
        history=HistoryView(
            seconds_per_point=SECONDS_A_POINT,
            points=[HistoryPoint(time=to_time(point.time), **point.activity._asdict()) for point in points],
        ),
    )
    response.headers["ETag"] = weak_tag(view, "time")
    return view


def _known(configured: Iterable[str], counted: Iterable[str], knows: Callable[[str], bool]) -> list[str]:
    """Return the names that a caller knows: the configured ones in their order, then others of which the catalog has
    something."""
    return [name for name in dict.fromkeys((*configured, *sorted(counted))) if knows(name)]


def _connection(gateway: Gateway, name: str, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether a source or destination is connected, since when, and why not."""
    connected, error = bool(status["connected"]), status.get("error")
    since = status.get("since") if connected else gateway.history.lost_at(name)
    return {
        "connected": connected,
        "since": to_time(since) if since else None,
        "error": None if error is None else shown(str(error)),
    }
