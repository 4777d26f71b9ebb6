"""The summary: what the gateway does at present, for pages and for people who look on."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastapi import APIRouter, Response

from app.model.attachment import AttachmentState, DeliveryState
from app.model.times import to_time
from app.service.gateway import Gateway
from app.service.monitoring.counts import AGES, CountsSnapshot
from app.service.monitoring.history import SECONDS_A_POINT
from app.web.dependencies.caller import Caller, CallerDep
from app.web.dependencies.request_gateway import GatewayDep
from app.web.http.entity_tags import weak_tag
from app.web.http.iso_times import optional_time
from app.web.problems import responses
from app.web.resources.schemas import shown
from app.web.resources.summary.schemas import (
    AgeCount,
    DestinationSummary,
    HistoryPoint,
    HistoryView,
    JournalSummary,
    OpenQuarantine,
    SourceSummary,
    SummaryView,
)

router = APIRouter(tags=["operations"])

_DISCONNECTED: Mapping[str, Any] = {"connected": False, "since": None, "error": None}


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
    now = gateway.clock.now()
    points = gateway.history.points(caller.sources, now)
    view = SummaryView(
        time=to_time(now),
        sources=[_source(gateway, standing, name, now) for name in sources],
        destinations=[_destination(gateway, standing, name) for name in destinations],
        attachments=_summed(AttachmentState, standing.tallies.attachments, sources),
        unannounced=sum(standing.tallies.unannounced.get(name, 0) for name in sources),
        quarantine=OpenQuarantine(open=_open(standing, caller)),
        partials_by_age=[
            AgeCount(under_seconds=seconds, count=sum(counts[at] for counts in waiting))
            for at, seconds in enumerate((*AGES, None))
        ],
        journal=None if who.is_limited else _journal(gateway),
        history=HistoryView(
            seconds_per_point=SECONDS_A_POINT,
            points=[HistoryPoint(time=to_time(point.time), **point.activity._asdict()) for point in points],
        ),
    )
    response.headers["ETag"] = weak_tag(view, "time")
    return view


def _known(configured: Iterable[str], counted: Iterable[str], knows: Callable[[str], bool]) -> list[str]:
    """Return the names that a caller knows: those configured, in their order, then those of which something is left."""
    return [name for name in dict.fromkeys((*configured, *sorted(counted))) if knows(name)]


def _source(gateway: Gateway, standing: CountsSnapshot, name: str, until: int) -> SourceSummary:
    receiver, settings = gateway.receivers.get(name), gateway.settings.sources.get(name)
    status = _DISCONNECTED if receiver is None else receiver.status()
    rate = gateway.history.received(name)
    states = standing.tallies.attachments.get(name, {})
    heard_at = gateway.history.heard_at(name) or standing.heard_at.get(name)
    return SourceSummary(
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


def _destination(gateway: Gateway, standing: CountsSnapshot, name: str) -> DestinationSummary:
    outbox = gateway.deliveries.outboxes.get(name)
    status = _DISCONNECTED if outbox is None else outbox.status()
    states = standing.tallies.deliveries.get(name, {})
    return DestinationSummary(
        name=shown(name),
        **_connection(gateway, f"destination {name}", status),
        queued=states.get(DeliveryState.QUEUED, 0),
        sending=states.get(DeliveryState.SENDING, 0),
        sent=states.get(DeliveryState.SENT, 0),
        failed=states.get(DeliveryState.FAILED, 0),
        messages_per_second=gateway.history.sent(name),
    )


def _connection(gateway: Gateway, name: str, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether a source or destination is connected, since when, and why not."""
    connected, error = bool(status["connected"]), status.get("error")
    since = status.get("since") if connected else gateway.history.lost_at(name)
    return {
        "connected": connected,
        "since": to_time(since) if since else None,
        "error": None if error is None else shown(str(error)),
    }


def _summed(
    states: Iterable[str], by_source: Mapping[str, Mapping[str, int]], sources: Iterable[str]
) -> dict[str, int]:
    shares = [by_source.get(name, {}) for name in sources]
    return {str(state): sum(share.get(state, 0) for share in shares) for state in states}


def _open(standing: CountsSnapshot, caller: Caller) -> int:
    """Return the number of open entries that a caller knows. Their sources may have nothing else."""
    kept = standing.tallies.quarantine
    return sum(states.get("kept", 0) for source, states in kept.items() if caller.principal.knows_source(source))


def _journal(gateway: Gateway) -> JournalSummary:
    segments = gateway.journal.segments()
    return JournalSummary(
        size=sum(segment.size for segment in segments),
        free_bytes=gateway.journal.free_bytes(),
        reserve_bytes=gateway.settings.limits.free_bytes,
        segments=len(segments),
    )
