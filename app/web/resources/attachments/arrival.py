"""How an attachment arrived: its parts and their gaps, its timeline, and its physical messages."""

from base64 import b64encode
from datetime import datetime
from typing import Annotated, Final, Literal

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from app.assembly.coverage import State
from app.model.message import PhysicalMessage, Position
from app.model.times import to_time
from app.ports import BadCursor
from app.service.access.audit import AuditLog
from app.service.gateway import Gateway
from app.service.monitoring.physical_messages import FoundMessage, MessagesGone, PhysicalMessages
from app.service.monitoring.received_runs import DatedRun, PartsReport, parts_of
from app.service.monitoring.timeline import Moment, in_order, reads, timeline
from app.web.dependencies.caller import Caller, CallerDep, resource_router
from app.web.dependencies.known_resources import POSITION, Identifier, known_attachment
from app.web.dependencies.request_gateway import GatewayDep, PagingDep
from app.web.http.parameters import DIGITS, optional_time
from app.web.problems import Problem, responses
from app.web.resources.schemas import shown
from app.web.resources.trace import FrameView, decoded_message


class PartRunView(BaseModel):
    """`count` parts from sequence number `first` on, of which `received` have arrived.

    `duplicate`: they arrived again with the same bytes (known since the gateway's start). `conflict`: they arrived
    again with other bytes, which are in quarantine. `mixed`: several of these, because there are too many runs.
    """

    first: int = Field(examples=[1])
    count: int = Field(examples=[40])
    state: State = Field(examples=["received"])
    received: int = Field(examples=[40])
    first_received_at: datetime | None = Field(
        description="null if missing, or if the journal cannot tell quickly or not yet"
    )
    last_received_at: datetime | None

    @classmethod
    def of(cls, dated: DatedRun) -> "PartRunView":
        run = dated.run
        return cls(
            first=run.first,
            count=run.length,
            state=run.state,
            received=run.received,
            first_received_at=optional_time(dated.first_received_at),
            last_received_at=optional_time(dated.last_received_at),
        )


class PartsView(BaseModel):
    """The parts with the sequence numbers `first` to `last`; of an IBM MQ group its logical messages.

    The runs are in order and have every number in this interval, at most 10,000 runs.
    """

    expected: int | None = Field(description="null until it is known", examples=[120])
    received: int = Field(description="of those in the interval", examples=[118])
    first: int = Field(examples=[1])
    last: int = Field(examples=[120])
    runs: list[PartRunView]
    truncated: bool = Field(
        description="whether there are more parts after `last`, to be requested with `first`", examples=[False]
    )

    @classmethod
    def of(cls, parts: PartsReport) -> "PartsView":
        return cls(**parts._asdict() | {"runs": [PartRunView.of(run) for run in parts.runs]})


class MomentView(BaseModel):
    """Something that happened to an attachment."""

    time: datetime
    type: str = Field(
        description="`header`, `first-part`, `last-part`, `count`, `first-message`, `last-message`, `complete`, "
        "`finished`, `settled` (copied to the content store), `read`, `message-complete`, `message-quarantined`, "
        "`missing` (its sender was asked for it), `quarantined`, `expired`, `damaged` or `deleted`",
        examples=["count"],
    )
    detail: str | None = Field(examples=["120 parts"])
    count: int = Field(description="how often it happened; the details may differ in numbers", examples=[1])
    last_time: datetime | None = Field(
        description="when it happened last, if more than once; `time` is the first", examples=[None]
    )

    @classmethod
    def of(cls, moment: Moment) -> "MomentView":
        return cls(
            time=to_time(moment.time),
            type=moment.type,
            detail=None if moment.detail is None else shown(moment.detail),
            count=moment.times,
            last_time=optional_time(moment.last_time),
        )


class TimelineView(BaseModel):
    """The known times of what happened to an attachment, in order."""

    items: list[MomentView]


class DescriptorView(BaseModel):
    """The descriptor of a physical message, as the journal has it. Identifiers are hexadecimal."""

    framing: str = Field(examples=["sas_queue"])
    msg_type: int = Field(examples=[100001])
    message_id: str
    correl_id: str
    group_id: str
    msg_seq_number: int = Field(examples=[1])
    offset: int = Field(examples=[0])
    msg_flags: int = Field(examples=[0])
    original_length: int = Field(examples=[-1])
    encoding: int = Field(examples=[273])
    ccsid: int = Field(examples=[1208])
    format: str = Field(examples=["MQSTR"])
    put_time: datetime | None
    properties: dict[str, str] = Field(examples=[{"mqmd.put_appl_name": "sas.exe"}])

    @classmethod
    def of(cls, message: PhysicalMessage) -> "DescriptorView":
        return cls(
            framing=message.framing,
            msg_type=message.msg_type,
            message_id=message.message_id.hex(),
            correl_id=message.correl_id.hex(),
            group_id=message.group_id.hex(),
            msg_seq_number=message.msg_seq_number,
            offset=message.offset,
            msg_flags=message.msg_flags,
            original_length=message.original_length,
            encoding=message.encoding,
            ccsid=message.ccsid,
            format=shown(message.format),
            put_time=optional_time(message.put_time or None),
            properties={shown(name): shown(value) for name, value in message.properties.items()},
        )


class PhysicalMessageView(BaseModel):
    """A physical message of an attachment, without its body. `position` is its place in the journal."""

    position: str = Field(examples=["0000000100002005"])
    kind: Literal["header", "part", "count"]
    sequence: int | None = Field(description="of a part", examples=[3])
    size: int = Field(description="bytes of the body", examples=[32000])
    received_at: datetime
    descriptor: DescriptorView

    @classmethod
    def of(cls, found: FoundMessage) -> "PhysicalMessageView":
        return cls(
            position=f"{found.position.pack():016x}",
            kind=found.kind,
            sequence=found.sequence,
            size=found.size,
            received_at=to_time(found.message.received_at),
            descriptor=DescriptorView.of(found.message),
        )


class WholePhysicalMessageView(PhysicalMessageView):
    """A physical message with its body."""

    body: str = Field(description="base64")

    @classmethod
    def of(cls, found: FoundMessage) -> "WholePhysicalMessageView":
        view = PhysicalMessageView.of(found)
        return cls(**dict(view), body=b64encode(found.message.body).decode())


class PhysicalMessagesView(BaseModel):
    """A page of physical messages, in the order in which they were received.

    A page that is not the last one may have fewer messages than requested, or none: it ends after a number of the
    journal's batches. `gone`: the journal no longer has all of them.
    """

    items: list[PhysicalMessageView]
    next: str | None = Field(description="`cursor` of the next page, null on the last page")
    gone: bool = Field(examples=[False])


LARGEST_NUMBER: Final = (1 << 32) - 1

router = resource_router(prefix="/attachments", tags=["attachments"])

PositionPath = Annotated[str, Path(description="the message's place in the journal, hexadecimal")]


@router.get(
    "/{attachment_id}/parts",
    operation_id="get_attachment_parts",
    responses=responses("not-found", "ambiguous", "application-message"),
)
def attachment_parts(
    attachment_id: Identifier,
    gateway: GatewayDep,
    caller: CallerDep,
    first: Annotated[int, Query(ge=1, le=LARGEST_NUMBER, description="the first sequence number"), DIGITS] = 1,
    last: Annotated[
        int | None,
        Query(ge=1, le=LARGEST_NUMBER, description="the last sequence number; without it, all that follow"),
        DIGITS,
    ] = None,
) -> PartsView:
    """Return which parts have arrived and which are missing, as runs of sequence numbers with their times."""
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
    """Return when something happened to an attachment, as far as that is known.

    `read` comes from the newest part of the audit log. Only callers that may read that log see who read the content.
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
    responses=responses("not-found", "ambiguous", "application-message", "gone"),
)
def list_physical_messages(
    attachment_id: Identifier,
    gateway: GatewayDep,
    caller: CallerDep,
    paging: PagingDep,
) -> PhysicalMessagesView:
    """List the physical messages of an attachment from the journal: its header, its parts and its count, including
    duplicates."""
    after = None if paging.cursor is None else _position(paging.cursor)
    if paging.cursor is not None and after is None:
        raise BadCursor(paging.cursor)
    found = _messages(gateway, attachment_id, caller).page(after, paging.limit)
    following = None if found.next is None else f"{found.next.pack():016x}"
    paging.link_next(following)
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
    return await decoded_message(request, found.message)


def _position(given: str) -> Position | None:
    return Position.unpack(int(given, 16)) if POSITION.fullmatch(given) else None


def _messages(gateway: Gateway, attachment_id: str, caller: Caller) -> PhysicalMessages:
    record = known_attachment(gateway, attachment_id, caller)
    try:
        return PhysicalMessages(record, gateway.context)
    except MessagesGone:
        raise Problem("gone", "the journal no longer has the messages of this attachment") from None


def _message(gateway: Gateway, attachment_id: str, given: str, caller: Caller) -> FoundMessage:
    messages, position = _messages(gateway, attachment_id, caller), _position(given)
    try:
        if position is not None:
            return messages.at(position)
    except KeyError:
        pass
    raise Problem("not-found", "the journal has no message of this attachment at this position")
