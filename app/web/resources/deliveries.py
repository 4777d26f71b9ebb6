"""Deliveries: outgoing messages, their progress, cancelling them and sending them again."""

from datetime import datetime
from typing import Annotated

from fastapi import Query, Response
from pydantic import BaseModel, Field

from app.model.attachment import DeliveryState
from app.model.records import DeliveryRecord, OutgoingAttachment, Subscribers
from app.model.times import to_time
from app.service.gateway import Gateway
from app.service.retention.deletion import NotEnded
from app.service.sending.sending_errors import DeliveryOver, UnknownDestination
from app.web.dependencies.caller import CallerDep, resource_router
from app.web.dependencies.known_resources import Identifier, known_delivery, unknown
from app.web.dependencies.request_gateway import GatewayDep, PagingDep
from app.web.http.entity_tags import IfMatch, entity_tag, require_match
from app.web.http.parameters import Timestamp, to_microseconds
from app.web.problems import FieldError, Problem, responses
from app.web.resources.schemas import KindWord, Links, PageView, kind_word, page_view
from app.web.responses.long_polling import DeliveryWait


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


router = resource_router(prefix="/deliveries", tags=["deliveries"])


@router.get("", operation_id="list_deliveries", responses=responses())
def list_deliveries(
    gateway: GatewayDep,
    caller: CallerDep,
    paging: PagingDep,
    state: DeliveryState | None = None,
    destination: Annotated[str | None, Query(max_length=100)] = None,
    created_after: Annotated[Timestamp | None, Query(examples=["2026-11-21T08:00:00Z"])] = None,
    created_before: Annotated[Timestamp | None, Query(examples=["2026-11-22T08:00:00Z"])] = None,
) -> PageView[DeliveryView]:
    """List the deliveries, newest first."""
    page = gateway.catalog.deliveries(
        state,
        destination,
        paging.cursor,
        paging.limit,
        caller.destinations,
        to_microseconds(created_after),
        to_microseconds(created_before),
    )
    return page_view(paging, page, lambda record: _view(gateway, record, caller.base))


@router.get(
    "/{delivery_id}",
    operation_id="get_delivery",
    dependencies=[DeliveryWait],
    responses=responses("not-found", "ambiguous"),
)
def get_delivery(delivery_id: Identifier, response: Response, gateway: GatewayDep, caller: CallerDep) -> DeliveryView:
    """Return one delivery. Its entity tag changes whenever it does."""
    view = _view(gateway, known_delivery(gateway, delivery_id, caller), caller.base)
    response.headers["ETag"] = entity_tag(view)
    return view


@router.delete(
    "/{delivery_id}",
    operation_id="delete_delivery",
    status_code=204,
    responses=responses("not-found", "ambiguous", "not-ended", "precondition-failed"),
)
def delete_delivery(delivery_id: Identifier, gateway: GatewayDep, caller: CallerDep, if_match: IfMatch = None) -> None:
    """Delete a delivery that is sent, failed or cancelled, and its content. Its idempotency key may be used again."""
    view = _view(gateway, known_delivery(gateway, delivery_id, caller), caller.base)
    require_match(entity_tag(view), if_match, "the delivery")
    try:
        if not gateway.deletion.delivery(view.id):
            raise unknown("delivery", delivery_id)
    except NotEnded as error:
        raise Problem("not-ended", str(error), state=error.state) from None


@router.post(
    "/{delivery_id}/cancel",
    operation_id="cancel_delivery",
    status_code=202,
    responses=responses("not-found", "ambiguous", "wrong-state"),
)
def cancel_delivery(delivery_id: Identifier, gateway: GatewayDep, caller: CallerDep) -> DeliveryView:
    """Cancel a delivery that has not been sent.

    A queued one is cancelled at once. One that is being sent is cancelled before its next batch of messages; the
    receiving program then has parts that never become an attachment. If all has been sent by then, it is `sent`.
    """
    record = known_delivery(gateway, delivery_id, caller)
    try:
        return _view(gateway, gateway.deliveries.cancel(record), caller.base)
    except DeliveryOver as error:
        raise Problem("wrong-state", str(error), state=error.state) from None


@router.post(
    "/{delivery_id}/retry",
    operation_id="retry_delivery",
    status_code=202,
    responses=responses("not-found", "ambiguous", "wrong-state", "unknown-destination"),
)
def retry_delivery(delivery_id: Identifier, gateway: GatewayDep, caller: CallerDep) -> DeliveryView:
    """Send a failed or cancelled delivery again.

    Sending continues after the messages that the broker has confirmed, so the receiving program gets one whole
    attachment.
    """
    record = known_delivery(gateway, delivery_id, caller)
    try:
        return _view(gateway, gateway.deliveries.retry(record), caller.base)
    except DeliveryOver as error:
        raise Problem("wrong-state", str(error), state=error.state) from None
    except UnknownDestination as error:
        known = [name for name in error.known if caller.principal.knows_destination(name)]
        raise Problem("unknown-destination", str(error), known=known) from None


def _view(gateway: Gateway, record: DeliveryRecord, base: str) -> DeliveryView:
    return DeliveryView.of(record, base, gateway.deliveries.repeats(record.destination))
