"""How an attachment arrived: its parts and their gaps, its timeline, and its physical messages."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.model.message import Position
from app.ports import BadCursor, Page
from app.service.access.audit import AuditLog
from app.service.gateway import Gateway
from app.service.monitoring.content_reads import reads
from app.service.monitoring.physical_messages import Gone, Physical, PhysicalMessages
from app.service.monitoring.received_runs import parts_of
from app.service.monitoring.timeline import in_order, timeline
from app.web.dependencies.caller import Caller, CallerDep
from app.web.dependencies.identifiers import POSITION, Identifier, known_attachment
from app.web.dependencies.request_gateway import GatewayDep, PagingDep, link_next
from app.web.http.strict_int import Digits
from app.web.problems import Problem, responses
from app.web.resources.attachments.arrival_schemas import (
    MomentView,
    PartsView,
    PhysicalMessagesView,
    PhysicalMessageView,
    TimelineView,
    WholePhysicalMessageView,
)
from app.web.resources.trace.schemas import FrameView
from app.web.resources.trace.traced_message import traced

LARGEST_NUMBER: Final = (1 << 32) - 1

router = APIRouter(prefix="/attachments", tags=["attachments"])

PositionPath = Annotated[str, Path(description="the message's place in the journal, hexadecimal")]


@router.get(
    "/{attachment_id}/parts",
    operation_id="get_attachment_parts",
    responses=responses("not-found", "ambiguous", "application-message", "invalid"),
)
def attachment_parts(
    attachment_id: Identifier,
    gateway: GatewayDep,
    caller: CallerDep,
    first: Annotated[Digits, Query(ge=1, le=LARGEST_NUMBER, description="the first sequence number")] = 1,
    last: Annotated[
        Digits | None, Query(ge=1, le=LARGEST_NUMBER, description="the last sequence number; without it, all behind")
    ] = None,
) -> PartsView:
    """Return which parts have come, and which are missing, as runs of sequence numbers with their times."""
    record = known_attachment(gateway, attachment_id, caller)
    return PartsView.of(parts_of(record, gateway.context, first, last))


@router.get(
    "/{attachment_id}/timeline",
    operation_id="get_attachment_timeline",
    responses=responses("not-found", "ambiguous", "application-message"),
)
def attachment_timeline(
    attachment_id: Identifier, request: Request, gateway: GatewayDep, caller: CallerDep
) -> TimelineView:
    """Return when what happened to an attachment, as far as that is known.

    `read` is from the newest part of the audit log. Who has read is told to those who may read that log.
    """
    record = known_attachment(gateway, attachment_id, caller)
    log: AuditLog = request.app.state.audit
    log.flush()
    read = reads(record, log, names_readers=caller.may_read_audit)
    return TimelineView(
        items=[MomentView.of(moment) for moment in in_order([*timeline(record, gateway.context), *read])]
    )


@router.get(
    "/{attachment_id}/physical-messages",
    operation_id="list_physical_messages",
    responses=responses("not-found", "ambiguous", "application-message", "gone", "invalid"),
)
def list_physical_messages(
    attachment_id: Identifier,
    request: Request,
    response: Response,
    gateway: GatewayDep,
    caller: CallerDep,
    paging: PagingDep,
) -> PhysicalMessagesView:
    """List the physical messages of an attachment from the journal: its header, its parts and its count, as often as
    they came."""
    after = None if paging.cursor is None else _position(paging.cursor)
    if paging.cursor is not None and after is None:
        raise BadCursor(paging.cursor)
    found = _messages(gateway, attachment_id, caller).page(after, paging.limit)
    following = None if found.next is None else f"{found.next.pack():016x}"
    link_next(request, response, Page(found.items, following))
    return PhysicalMessagesView(
        items=[PhysicalMessageView.of(each) for each in found.items], next=following, gone=found.gone
    )


@router.get(
    "/{attachment_id}/physical-messages/{position}",
    operation_id="get_physical_message",
    responses=responses("not-found", "ambiguous", "application-message", "gone", "damaged"),
)
def physical_message(
    attachment_id: Identifier, position: PositionPath, gateway: GatewayDep, caller: CallerDep
) -> WholePhysicalMessageView:
    """Return a physical message of an attachment with its body."""
    return WholePhysicalMessageView.of(_message(gateway, attachment_id, position, caller))


@router.get(
    "/{attachment_id}/physical-messages/{position}/trace",
    operation_id="trace_physical_message",
    response_model=list[FrameView],
    responses=responses(
        "not-found", "ambiguous", "application-message", "gone", "damaged", "too-large", "conversion-limit", "busy"
    ),
)
async def trace_physical_message(
    attachment_id: Identifier, position: PositionPath, request: Request, gateway: GatewayDep, caller: CallerDep
) -> Response:
    """Decode the body of a physical message field by field, by the values of its descriptor."""
    found = await run_in_threadpool(_message, gateway, attachment_id, position, caller)
    return await traced(request, found.message)


def _position(given: str) -> Position | None:
    return Position.unpack(int(given, 16)) if POSITION.fullmatch(given) else None


def _messages(gateway: Gateway, attachment_id: str, caller: Caller) -> PhysicalMessages:
    record = known_attachment(gateway, attachment_id, caller)
    try:
        return PhysicalMessages(record, gateway.context)
    except Gone:
        raise Problem("gone", "the journal no longer has the messages of this attachment") from None


def _message(gateway: Gateway, attachment_id: str, given: str, caller: Caller) -> Physical:
    messages, position = _messages(gateway, attachment_id, caller), _position(given)
    try:
        if position is not None:
            return messages.at(position)
    except KeyError:
        pass
    raise Problem("not-found", "the journal has no message of this attachment at this position")
