"""Receipts: signed statements about attachments and deliveries, and the heads of the log that has them."""

from datetime import datetime
from typing import Annotated, Any

import orjson
from fastapi import Query, Response
from pydantic import BaseModel, Field

from app.codecs.receipts.statements import COSE_TYPE
from app.model.attachment import AttachmentState, DeliveryState
from app.model.records import AttachmentRecord, DeliveryRecord
from app.model.times import to_time
from app.service.gateway import Gateway
from app.service.receipts.receipt_desk import FoundStatement, LaterHead, NoReceipts
from app.web.dependencies.caller import Caller, CallerDep, LinkDep, resource_router
from app.web.dependencies.known_resources import Identifier, known_attachment, known_delivery
from app.web.dependencies.request_gateway import BaseDep, GatewayDep
from app.web.http.parameters import DIGITS
from app.web.problems import Problem, invalid_parameter, responses
from app.web.resources.schemas import Links

_SOON = {"Retry-After": "2"}
_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_COSE: dict[str, Any] = {
    "description": "a COSE_Sign1",
    # The first is for generators of clients, which know no other.
    "content": dict.fromkeys(("application/octet-stream", COSE_TYPE), _BINARY),
}
_PROBLEMS = responses("not-found", "no-receipt", "ambiguous", "unavailable")

Since = Annotated[
    int | None,
    Query(
        ge=1,
        lt=1 << 62,
        description="the size of an older tree head: the answer has the proof that the log continues it",
    ),
    DIGITS,
]


class ReceiptLogView(BaseModel):
    """The log of receipts, and its newest tree head."""

    log: str = Field(description="name of the log", examples=["urn:uuid:7b1c9c4e-53a5-4a3c-9be5-54a2a1f7a6f0"])
    issuer: str = Field(description="the gateway, as `receipts.issuer` names it", examples=["attachment-gateway"])
    size: int = Field(description="statements in the tree of the newest head", examples=[70312])
    root: str = Field(description="root of that tree, in hexadecimal")
    signed_at: datetime = Field(description="when the head was signed")
    key_id: str = Field(description="thumbprint (RFC 9679) of the key that has signed the head, in hexadecimal")
    public_key: str | None = Field(
        description="the public key that verifies what is signed now, in PEM; null if no receipts are made now. Get it "
        "from somebody you trust: a gateway that deceives would answer with another one"
    )
    links: Links


router = resource_router()


@router.get(
    "/attachments/{attachment_id}/receipt",
    operation_id="get_attachment_receipt",
    tags=["attachments"],
    response_class=Response,
    responses={200: _COSE, **_PROBLEMS},
)
def get_attachment_receipt(
    attachment_id: Identifier, gateway: GatewayDep, caller: CallerDep, since: Since = None, link: LinkDep = None
) -> Response:
    """Return the receipt of a finished attachment: a signed statement with the proof that the log has it.

    It is there about a second after the attachment is finished, and stays after the attachment is deleted.
    """
    del link  # `authorize` has looked at it
    found = _of_gone(gateway, attachment_id, "source", caller.knows_source, caller)
    if found is None:
        attachment_id, found = _of_known(gateway, known_attachment(gateway, attachment_id, caller))
    return _receipt(gateway, attachment_id, found, since)


@router.get(
    "/deliveries/{delivery_id}/receipt",
    operation_id="get_delivery_receipt",
    tags=["deliveries"],
    response_class=Response,
    responses={200: _COSE, **_PROBLEMS},
)
def get_delivery_receipt(
    delivery_id: Identifier, gateway: GatewayDep, caller: CallerDep, since: Since = None
) -> Response:
    """Return the receipt of a sent delivery: a signed statement with the proof that the log has it."""
    found = _of_gone(gateway, delivery_id, "destination", caller.knows_destination, caller)
    if found is None:
        delivery_id, found = _of_known(gateway, known_delivery(gateway, delivery_id, caller))
    return _receipt(gateway, delivery_id, found, since)


@router.get(
    "/receipt-log",
    operation_id="get_receipt_log",
    tags=["operations"],
    responses=responses("no-receipt", "unavailable"),
)
def get_receipt_log(gateway: GatewayDep, base: BaseDep) -> ReceiptLogView:
    """Return the log of receipts: its size, its root, and the public key."""
    try:
        head = gateway.receipts.described()
    except NoReceipts as error:
        raise _problem(error) from None
    return ReceiptLogView(
        log=head.log,
        issuer=head.issuer,
        size=head.size,
        root=head.root.hex(),
        signed_at=to_time(head.signed_at * 1_000_000),
        key_id=head.key_id.hex(),
        public_key=gateway.receipts.public_key().decode() if gateway.receipts.are_made else None,
        links={"self": f"{base}/receipt-log", "head": f"{base}/receipt-log/head"},
    )


@router.get(
    "/receipt-log/head",
    operation_id="get_receipt_log_head",
    tags=["operations"],
    response_class=Response,
    responses={200: _COSE, **responses("no-receipt", "unavailable")},
)
def get_receipt_log_head(gateway: GatewayDep, since: Since = None) -> Response:
    """Return the newest signed tree head. Keep it: by it and a later one, anybody finds out whether the log was forked
    or cut."""
    try:
        return _cose(gateway.receipts.head(since), "receipt-log.cose")
    except NoReceipts as error:
        raise _problem(error) from None
    except LaterHead as error:
        raise invalid_parameter("since", str(error)) from None


def _of_gone(gateway: Gateway, given: str, place: str, knows: Any, caller: Caller) -> FoundStatement | None:
    """Return the statement about what has exactly this identifier, also if there is nothing else of it. What the caller
    may not know is looked for as what is not there."""
    found = gateway.receipts.statement(given)
    if found is None:
        return None
    named = orjson.loads(found.statement).get(place)
    if not isinstance(named, str) or not knows(named):
        return None
    caller.trail.details = {"receipt": given, place: named}
    return found


def _of_known(gateway: Gateway, record: AttachmentRecord | DeliveryRecord) -> tuple[str, FoundStatement]:
    """Return the identifier of an attachment or a delivery, and the statement about it."""
    if (found := gateway.receipts.statement(record.id)) is not None:
        return record.id, found
    if not gateway.receipts.are_made:
        raise Problem("no-receipt", "no receipt was made, and this gateway makes none: the settings have no [receipts]")
    if record.state in (AttachmentState.FINISHED, DeliveryState.SENT):
        raise Problem("no-receipt", "its receipt is being made", _SOON)
    raise Problem("no-receipt", f"no receipt is made of what is {record.state}")


def _receipt(gateway: Gateway, subject: str, found: FoundStatement, since: int | None) -> Response:
    try:
        return _cose(gateway.receipts.transparent(subject, found, since), f"{subject}.receipt.cose")
    except NoReceipts as error:
        raise _problem(error) from None
    except LaterHead as error:
        raise invalid_parameter("since", str(error)) from None


def _cose(content: bytes, name: str) -> Response:
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    return Response(content, 200, headers, COSE_TYPE)


def _problem(error: NoReceipts) -> Problem:
    return Problem("no-receipt", str(error), _SOON if error.may_come else None)
