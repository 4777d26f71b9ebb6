"""Deliveries: outgoing messages and their progress."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.model.attachment import DeliveryState
from app.service.deletion import NotEnded
from app.service.gateway import Gateway
from app.web.access.caller import Caller, CallerDep
from app.web.deliveries.schemas import DeliveryView
from app.web.deps import BaseDep, GatewayDep, PagingDep, link_next
from app.web.entity_tags import IfMatch, entity_tag, require_match
from app.web.identifiers import Identifier, whole
from app.web.problems import Problem, responses
from app.web.schemas import PageView, page_view
from app.web.times import Timestamp, to_microseconds
from app.web.waiting import DeliveryWait

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
    return page_view(page, lambda record: DeliveryView.of(record, base, gateway.deliveries.repeats(record.destination)))


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
    view = _view(gateway, delivery_id, caller, base)
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
    view = _view(gateway, delivery_id, caller, base)
    caller.trail.details = {"delivery": view.id, "destination": view.destination}
    require_match(entity_tag(view), if_match, "the delivery")
    try:
        if not gateway.deletion.delivery(view.id):
            raise _unknown()
    except NotEnded as error:
        raise Problem("not-ended", str(error), state=error.state) from None


def _view(gateway: Gateway, delivery_id: str, caller: Caller, base: str) -> DeliveryView:
    record = gateway.catalog.delivery(whole(gateway, "deliveries", delivery_id, caller))
    if record is None or not caller.knows_destination(record.destination):
        raise _unknown()
    return DeliveryView.of(record, base, gateway.deliveries.repeats(record.destination))


def _unknown() -> Problem:
    return Problem("not-found", "there is no delivery with this identifier")
