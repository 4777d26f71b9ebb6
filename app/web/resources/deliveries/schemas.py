"""The JSON of deliveries."""

from datetime import datetime

from pydantic import BaseModel, Field

from app.model.attachment import DeliveryState
from app.model.records import DeliveryRecord, OutgoingAttachment, Subscribers
from app.model.times import to_time
from app.web.problems import FieldError
from app.web.resources.schemas import KindWord, Links, kind_word


class OutgoingView(BaseModel):
    """One attachment of a delivery."""

    correl_id: str
    kind: KindWord
    name: str
    qualifier_1: str
    description: str
    minor_version: int
    major_version: int
    size: int
    sha256: str

    @classmethod
    def of(cls, attachment: OutgoingAttachment) -> "OutgoingView":
        return cls(
            correl_id=attachment.correl_id.hex(),
            kind=kind_word(attachment.kind),
            name=attachment.qualifier_2,
            qualifier_1=attachment.qualifier_1,
            description=attachment.description,
            minor_version=attachment.minor_version,
            major_version=attachment.major_version,
            size=attachment.size,
            sha256=attachment.sha256,
        )


class DeliveryView(BaseModel):
    """One outgoing message and its progress."""

    id: str
    destination: str
    state: DeliveryState
    header_correl_id: str
    message_correl_id: str
    original_msg_type: int
    original_correl_id: str
    attachments: list[OutgoingView]
    messages_sent: int = Field(description="physical messages that the broker has confirmed")
    messages_total: int | None = Field(description="null until the delivery has been divided into messages")
    attempts: int
    next_attempt_at: datetime | None
    reason: str | None = Field(description="why the last attempt failed")
    repeats: str | None = Field(description="which messages may arrive twice at this destination; null if none can")
    subscribers: Subscribers | None = Field(
        description="`none`: the broker accepted messages and discarded them, as nobody was subscribed; `unknown`: the "
        "protocol does not tell whether anybody was; null: the broker reported no lack, or keeps messages in a queue"
    )
    trace_parent: str | None = Field(
        description="W3C `traceparent` of the request that queued it; null if it had no valid one",
        examples=["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
    )
    created_at: datetime
    updated_at: datetime
    links: Links

    @classmethod
    def of(cls, record: DeliveryRecord, base: str, repeats: str | None) -> "DeliveryView":
        waiting = record.state in (DeliveryState.QUEUED, DeliveryState.SENDING)
        return cls(
            id=record.id,
            destination=record.destination,
            state=record.state,
            header_correl_id=record.header_correl_id.hex(),
            message_correl_id=record.message_correl_id.hex(),
            original_msg_type=record.original_msg_type,
            original_correl_id=record.original_correl_id.hex(),
            attachments=[OutgoingView.of(attachment) for attachment in record.attachments],
            messages_sent=record.messages_sent,
            messages_total=record.messages_total,
            attempts=record.attempts,
            next_attempt_at=to_time(record.next_attempt_at) if waiting and record.next_attempt_at else None,
            reason=record.reason,
            repeats=repeats,
            subscribers=record.subscribers,
            trace_parent=record.trace_parent,
            created_at=to_time(record.created_at),
            updated_at=to_time(record.updated_at),
            links={"self": f"{base}/deliveries/{record.id}"},
        )


class AcceptedDelivery(DeliveryView):
    """A delivery in the response to the request that created it."""

    warnings: list[FieldError] | None = Field(
        default=None, description="changes to its data sets, and what is not sent; left out if there are none"
    )
