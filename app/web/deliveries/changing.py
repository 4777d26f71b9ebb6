"""Cancelling of deliveries, and sending them again."""

from fastapi import APIRouter

from app.model.records import DeliveryRecord
from app.service.gateway import Gateway
from app.service.sending.errors import DeliveryOver, UnknownDestination
from app.web.access.caller import Caller, CallerDep
from app.web.deliveries.schemas import DeliveryView
from app.web.deps import BaseDep, GatewayDep
from app.web.identifiers import Identifier, whole
from app.web.problems import Problem, responses

router = APIRouter(prefix="/deliveries", tags=["deliveries"])


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
    record = _record(gateway, delivery_id, caller)
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
    record = _record(gateway, delivery_id, caller)
    try:
        return _view(gateway, gateway.deliveries.retry(record), base)
    except DeliveryOver as error:
        raise Problem("wrong-state", str(error), state=error.state) from None
    except UnknownDestination as error:
        known = [name for name in error.known if caller.principal.knows_destination(name)]
        raise Problem("unknown-destination", str(error), known=known) from None


def _record(gateway: Gateway, delivery_id: str, caller: Caller) -> DeliveryRecord:
    record = gateway.catalog.delivery(whole(gateway, "deliveries", delivery_id, caller))
    if record is None or not caller.knows_destination(record.destination):
        raise Problem("not-found", "there is no delivery with this identifier")
    caller.trail.details = {"delivery": record.id, "destination": record.destination}
    return record


def _view(gateway: Gateway, record: DeliveryRecord, base: str) -> DeliveryView:
    return DeliveryView.of(record, base, gateway.deliveries.repeats(record.destination))
