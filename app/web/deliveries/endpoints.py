"""Deliveries: outgoing messages and their progress."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.model.attachment import DeliveryState
from app.web.deliveries.schemas import DeliveryView
from app.web.deps import BaseDep, GatewayDep, PagingDep, link_next
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
    base: BaseDep,
    paging: PagingDep,
    state: DeliveryState | None = None,
    destination: Annotated[str | None, Query(max_length=100)] = None,
    created_after: Annotated[Timestamp | None, Query(examples=["2026-11-21T08:00:00Z"])] = None,
    created_before: Annotated[Timestamp | None, Query(examples=["2026-11-22T08:00:00Z"])] = None,
) -> PageView[DeliveryView]:
    """List the deliveries, newest first."""
    page = gateway.catalog.deliveries(
        state, destination, paging.cursor, paging.limit, to_microseconds(created_after), to_microseconds(created_before)
    )
    link_next(request, response, page)
    return page_view(page, lambda record: DeliveryView.of(record, base, gateway.deliveries.repeats(record.destination)))


@router.get(
    "/{delivery_id}",
    operation_id="get_delivery",
    dependencies=[DeliveryWait],
    responses=responses("not-found", "ambiguous", "invalid"),
)
def get_delivery(delivery_id: Identifier, gateway: GatewayDep, base: BaseDep) -> DeliveryView:
    """Return one delivery."""
    record = gateway.catalog.delivery(whole(gateway, "deliveries", delivery_id))
    if record is None:
        raise Problem("not-found", "there is no delivery with this identifier")
    return DeliveryView.of(record, base, gateway.deliveries.repeats(record.destination))
