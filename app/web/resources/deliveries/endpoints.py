"""Deliveries: outgoing messages, their progress, cancelling them and sending them again."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.model.attachment import DeliveryState
from app.model.records import DeliveryRecord
from app.service.gateway import Gateway
from app.service.retention.deletion import NotEnded
from app.service.sending.sending_errors import DeliveryOver, UnknownDestination
from app.web.dependencies.caller import CallerDep
from app.web.dependencies.identifiers import Identifier, known_delivery, unknown
from app.web.dependencies.request_gateway import BaseDep, GatewayDep, PagingDep, link_next
from app.web.http.entity_tags import IfMatch, entity_tag, require_match
from app.web.http.iso_times import Timestamp, to_microseconds
from app.web.problems import Problem, responses
from app.web.resources.deliveries.schemas import DeliveryView
from app.web.resources.schemas import PageView, page_view
from app.web.responses.long_polling import DeliveryWait

router = APIRouter(prefix="/deliveries", tags=["deliveries"])


@router.get("", operation_id="list_deliveries", responses=responses("invalid"))
def list_deliveries(
    request: Request,
    response: Response,
    gateway: GatewayDep,
    caller: CallerDep,
    base: BaseDep,
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
    link_next(request, response, page)
    return page_view(page, lambda record: _view(gateway, record, base))


@router.get(
    "/{delivery_id}",
    operation_id="get_delivery",
    dependencies=[DeliveryWait],
    responses=responses("not-found", "ambiguous", "invalid"),
)
def get_delivery(
    delivery_id: Identifier, response: Response, gateway: GatewayDep, caller: CallerDep, base: BaseDep
) -> DeliveryView:
    """Return one delivery. Its entity tag changes whenever it does."""
    view = _view(gateway, known_delivery(gateway, delivery_id, caller), base)
    response.headers["ETag"] = entity_tag(view)
    return view


@router.delete(
    "/{delivery_id}",
    operation_id="delete_delivery",
    status_code=204,
    responses=responses("not-found", "ambiguous", "not-ended", "precondition-failed"),
)
def delete_delivery(
    delivery_id: Identifier, gateway: GatewayDep, caller: CallerDep, base: BaseDep, if_match: IfMatch = None
) -> None:
    """Delete a delivery that is sent, failed or cancelled, and its content. Its idempotency key may be used again."""
    view = _view(gateway, known_delivery(gateway, delivery_id, caller), base)
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
def cancel_delivery(delivery_id: Identifier, gateway: GatewayDep, caller: CallerDep, base: BaseDep) -> DeliveryView:
    """Cancel a delivery that has not been sent.

    A queued one is cancelled at once. One that is being sent is cancelled before its next batch of messages; the
    receiving program then has parts that never become an attachment. If all has been sent by then, it is `sent`.
    """
    record = known_delivery(gateway, delivery_id, caller)
    try:
        return _view(gateway, gateway.deliveries.cancel(record), base)
    except DeliveryOver as error:
        raise Problem("wrong-state", str(error), state=error.state) from None


@router.post(
    "/{delivery_id}/retry",
    operation_id="retry_delivery",
    status_code=202,
    responses=responses("not-found", "ambiguous", "wrong-state", "unknown-destination"),
)
def retry_delivery(delivery_id: Identifier, gateway: GatewayDep, caller: CallerDep, base: BaseDep) -> DeliveryView:
    """Send a failed or cancelled delivery again.

    It goes on after the messages that the broker has confirmed, so the receiving program gets one whole attachment.
    """
    record = known_delivery(gateway, delivery_id, caller)
    try:
        return _view(gateway, gateway.deliveries.retry(record), base)
    except DeliveryOver as error:
        raise Problem("wrong-state", str(error), state=error.state) from None
    except UnknownDestination as error:
        known = [name for name in error.known if caller.principal.knows_destination(name)]
        raise Problem("unknown-destination", str(error), known=known) from None


def _view(gateway: Gateway, record: DeliveryRecord, base: str) -> DeliveryView:
    return DeliveryView.of(record, base, gateway.deliveries.repeats(record.destination))
