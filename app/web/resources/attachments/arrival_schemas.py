"""The JSON of how an attachment arrived: its parts, its timeline and its physical messages."""

from base64 import b64encode
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from app.assembly.coverage import State
from app.model.message import PhysicalMessage
from app.model.times import to_time
from app.service.monitoring.physical_messages import Physical
from app.service.monitoring.received_runs import DatedRun, ReceivedParts
from app.service.monitoring.timeline import Moment
from app.web.http.iso_times import optional_time
from app.web.resources.schemas import shown


class PartRunView(BaseModel):
    """`count` parts from sequence number `first` on, of which `received` have come.

    `duplicate`: they came again with the same bytes (known since the gateway's start). `conflict`: they came again with
    other bytes, which are in quarantine. `mixed`: several of these, because there are too many runs.
    """

    first: int = Field(examples=[1])
    count: int = Field(examples=[40])
    state: State = Field(examples=["received"])
    received: int = Field(examples=[40])
    first_received_at: datetime | None = Field(description="null if missing, or if the journal cannot tell quickly")
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
    truncated: bool = Field(description="there are more behind `last`: ask again with `first`", examples=[False])

    @classmethod
    def of(cls, parts: ReceivedParts) -> "PartsView":
        return cls(**parts._asdict() | {"runs": [PartRunView.of(run) for run in parts.runs]})


class MomentView(BaseModel):
    """Something that happened to an attachment."""

    time: datetime
    type: str = Field(
        description="`header`, `first-part`, `last-part`, `count`, `first-message`, `last-message`, `complete`, "
        "`finished`, `settled` (copied to the content store), `read`, `message-complete`, `message-quarantined`, "
        "`quarantined`, `expired`, `damaged` or `deleted`",
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
    """What is known of when something happened to an attachment, in order."""

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
    def of(cls, found: Physical) -> "PhysicalMessageView":
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
    def of(cls, found: Physical) -> "WholePhysicalMessageView":
        view = PhysicalMessageView.of(found)
        return cls(**dict(view), body=b64encode(found.message.body).decode())


class PhysicalMessagesView(BaseModel):
    """A page of physical messages, in the order in which they were received.

    A page may have fewer messages than asked for, or none, and not be the last one: it ends after a number of the
    journal's batches. `gone`: the journal no longer has all of them.
    """

    items: list[PhysicalMessageView]
    next: str | None = Field(description="`cursor` of the next page, null on the last page")
    gone: bool = Field(examples=[False])
