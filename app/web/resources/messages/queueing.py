"""Queueing of what a request sends, once for each idempotency key."""

from functools import partial
from hashlib import sha256
from typing import Annotated, Any, Final

from fastapi import Header, Request, Response
from fastapi.responses import JSONResponse

from app.model.validation import IDEMPOTENCY_KEY
from app.service.gateway import Gateway
from app.service.sending.delivery_creation import Submission
from app.service.sending.upload_conversion import Runner
from app.web.dependencies.caller import Caller
from app.web.problems import Problem, responses
from app.web.resources.deliveries.schemas import DeliveryView
from app.web.resources.messages.sending_problems import located
from app.web.resources.messages.submission import Open, respond
from app.web.resources.uploads.owned_uploads import owner_of

IdempotencyKey = Annotated[
    str | None,
    Header(
        pattern=IDEMPOTENCY_KEY,
        description="makes it safe to repeat this request: each of a caller's keys sends only once",
        examples=["5b1f7a52-4f0d-4b7a-9b5e-0a8f6f3f2f7e"],
    ),
]
ACCEPTED: Final[dict[str, Any]] = {
    "description": "stored, and queued for sending",
    "headers": {
        "Location": {"description": "the delivery", "schema": {"type": "string"}},
        "Idempotency-Replayed": {
            "description": "`true` if this repeats the response to the key's first request",
            "schema": {"type": "string"},
        },
    },
}
"""The description of status 202."""
REFUSED: Final = responses(
    "malformed",
    "digest-mismatch",
    "in-flight",
    "too-large",
    "unsupported-media-type",
    "invalid",
    "unsuitable",
    "unknown-destination",
    "key-reused",
    "conversion-limit",
    "expansion-limit",
    "unavailable",
    "busy",
    "storage-full",
)
"""The descriptions of the problems with which a request that sends is refused."""
_WITHOUT_OWNER: Final = ("anonymous", "token")
"""The kinds of callers that may see every delivery."""


async def queued(
    request: Request, gateway: Gateway, caller: Caller, base: str, key: str | None, opening: Open | None = None
) -> Response:
    """Return the response to a request that sends. `opening` begins to store its body. Raises Problem."""
    queue = partial(_queue, gateway, caller, base)
    if key is None:
        return await respond(request, gateway, caller, None, queue, in_slot=False, opening=opening)
    key = _of_caller(caller, key)
    in_flight: set[str] = request.app.state.in_flight
    if key in in_flight:
        raise Problem("in-flight", "a request with this key is being answered", {"Retry-After": "1"})
    in_flight.add(key)
    try:
        return await respond(request, gateway, caller, key, queue, in_slot=False, opening=opening)
    finally:
        in_flight.discard(key)


def _of_caller(caller: Caller, key: str) -> str:
    """Return an idempotency key as it is stored: that of an API key or of a person has a digest of its owner before it.

    So nobody learns of another one's deliveries. A client's own key has no space, and cannot be like a stored one.
    """
    if caller.principal.kind in _WITHOUT_OWNER:
        return key
    return f"{sha256(owner_of(caller).encode()).hexdigest()[:32]} {key}"


def _queue(gateway: Gateway, caller: Caller, base: str, submission: Submission, run: Runner) -> JSONResponse:
    """Queue a message and answer with its delivery."""
    delivery, warnings, is_replayed = gateway.deliveries.submit(submission, run)
    gateway.uploads.sent(submission.uploads)
    caller.trail.details["delivery"] = delivery.id
    view = DeliveryView.of(delivery, base, gateway.deliveries.repeats(delivery.destination)).model_dump(mode="json")
    if warnings:
        view["warnings"] = [located(fault) for fault in warnings]
    headers = {"Location": view["links"]["self"]} | ({"Idempotency-Replayed": "true"} if is_replayed else {})
    return JSONResponse(view, 202, headers)
