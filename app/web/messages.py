"""Messages: what attachments came with, and sending."""

from collections.abc import Mapping
from dataclasses import replace
from secrets import token_hex
from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from app.codecs.ibm_mq.encodings import charset
from app.model.attachment import AttachmentKind, DeliveryState
from app.model.records import DeliveryRecord, MessageRecord
from app.ports import IdempotencyConflict
from app.service.content import StoredContent
from app.service.gateway import Gateway
from app.web.data_sets import parquet_schema
from app.web.deliveries import DeliveryView
from app.web.deps import BaseDep, GatewayDep, PagingDep, link_next
from app.web.drafts import MESSAGE, DraftReader, MessageDraft, delivery
from app.web.problems import Problem, responses
from app.web.schemas import (
    ApplicationMessage,
    AttachmentSummary,
    MessageSummary,
    MessageView,
    PageView,
    page_view,
)
from app.web.upload import Form, StoredPart, Upload, receive

router = APIRouter(prefix="/messages", tags=["messages"])

_EXAMPLE = {
    "destination": "partner",
    "application_message": {"text": "This is the actual application message."},
    "attachments": [
        {"part": "file", "kind": "text-file", "name": "d:\\mytext.txt", "description": "Text file..."},
        {"part": "class", "kind": "data-set", "qualifier_1": "SASHELP", "name": "CLASS"},
    ],
}
_REQUEST_BODY: dict[str, Any] = {
    "required": True,
    "description": (
        f"Either the first part is `{MESSAGE}`, JSON that describes the message and names every other part; or a plain "
        "form: `destination`, perhaps `description`, `kind` and `name`, and files. Data sets are sent as Parquet."
    ),
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {
                    MESSAGE: {"$ref": "#/components/schemas/MessageDraft"},
                    "destination": {"type": "string"},
                    "description": {"type": "string"},
                    "kind": {"type": "string", "enum": [kind.word for kind in AttachmentKind]},
                    "name": {"type": "string"},
                    "file": {"type": "string", "format": "binary"},
                },
                "additionalProperties": {"type": "string", "format": "binary"},
            },
            "encoding": {MESSAGE: {"contentType": "application/json"}},
            "examples": {"described": {"value": {MESSAGE: _EXAMPLE}}, "form": {"value": {"destination": "partner"}}},
        }
    },
}


@router.get("", operation_id="list_messages", responses=responses("invalid"))
def list_messages(
    request: Request,
    response: Response,
    gateway: GatewayDep,
    base: BaseDep,
    paging: PagingDep,
    source: Annotated[str | None, Query(max_length=100)] = None,
) -> PageView[MessageSummary]:
    """Messages with attachments that were received, newest first."""
    page = gateway.catalog.messages(source, paging.cursor, paging.limit)
    link_next(request, response, page)
    return page_view(page, lambda record: MessageSummary.of(record, base))


@router.get("/{message_id}", operation_id="get_message", responses=responses("not-found"))
def get_message(message_id: str, gateway: GatewayDep, base: BaseDep) -> MessageView:
    """One message: its header's fields, its application message and its attachments."""
    record = gateway.catalog.message(message_id)
    if record is None:
        raise Problem("not-found", "there is no message of this identifier")
    attachments = [
        AttachmentSummary.of(attachment_id, gateway.catalog.attachment(attachment_id), base)
        for attachment_id in record.attachments
    ]
    return MessageView.of(record, base, _application_message(record), attachments)


def _application_message(record: MessageRecord) -> ApplicationMessage | None:
    body = record.application_body
    if body is None:
        return None
    text = None
    if codec := charset(record.application_ccsid):
        try:
            text = body.decode(codec)
        except UnicodeDecodeError:
            text = None
    return ApplicationMessage.of(body, record.application_format, record.application_ccsid, text)


@router.post(
    "",
    operation_id="send_message",
    status_code=202,
    response_model=DeliveryView,
    openapi_extra={"requestBody": _REQUEST_BODY},
    responses={
        202: {
            "description": "stored, and on its way",
            "headers": {
                "Location": {"description": "the delivery", "schema": {"type": "string"}},
                "Idempotency-Replayed": {
                    "description": "`true` when the key's first request was answered so",
                    "schema": {"type": "string"},
                },
            },
        },
        **responses(
            "malformed",
            "in-flight",
            "too-large",
            "unsupported-media-type",
            "invalid",
            "unknown-destination",
            "key-reused",
            "unavailable",
            "storage-full",
        ),
    },
)
async def send_message(
    request: Request,
    gateway: GatewayDep,
    base: BaseDep,
    idempotency_key: Annotated[
        str | None,
        Header(
            pattern=r"^[!-~]{1,255}$",
            description="makes repeating this request safe: the same key sends once",
            examples=["5b1f7a52-4f0d-4b7a-9b5e-0a8f6f3f2f7e"],
        ),
    ] = None,
) -> JSONResponse:
    """Sends files and data sets to a destination. They are durably stored when this answers; how far they are on their
    way, the delivery tells."""
    if gateway.draining:
        raise Problem("unavailable", "the gateway is stopping", {"Retry-After": "5"})
    in_flight: set[str] = request.app.state.in_flight
    if idempotency_key is None:
        return await _send(request, gateway, base, None)
    if idempotency_key in in_flight:
        raise Problem("in-flight", "a request with this key is being answered", {"Retry-After": "1"})
    in_flight.add(idempotency_key)
    try:
        return await _send(request, gateway, base, idempotency_key)
    finally:
        in_flight.discard(idempotency_key)


async def _send(request: Request, gateway: Gateway, base: str, key: str | None) -> JSONResponse:
    delivery_id = token_hex(16)
    reader = DraftReader({name: to.framing for name, to in gateway.destinations.items()})
    upload = Upload(
        request.headers.get("content-type", ""),
        gateway.store,
        f"outgoing/{delivery_id}",
        is_field=reader.is_field,
        on_field=reader.on_field,
        max_parts=gateway.settings.limits.attachments_a_message,
    )
    try:
        form = await receive(request, upload, gateway.settings.limits.upload_bytes)
    except ClientDisconnect:
        raise Problem("malformed", "the client left in the middle") from None
    return await run_in_threadpool(_enqueue, gateway, base, reader, upload, form, delivery_id, key)


def _enqueue(
    gateway: Gateway, base: str, reader: DraftReader, upload: Upload, form: Form, delivery_id: str, key: str | None
) -> JSONResponse:
    replayed: Mapping[str, str] = {}
    try:
        draft, parts = reader.result(form)
        _check_data_sets(gateway, draft, parts)
        record = delivery(delivery_id, draft, form, parts, key, gateway.clock.now())
        gateway.enqueue(record)
    except IdempotencyConflict as conflict:
        upload.discard()
        if not conflict.same_request:
            raise Problem("key-reused", f"it stands for delivery {conflict.delivery.id}") from None
        record, replayed = _as_queued(conflict.delivery), {"Idempotency-Replayed": "true"}
    except BaseException:
        upload.discard()
        raise
    view = DeliveryView.of(record, base)
    return JSONResponse(view.model_dump(mode="json"), 202, {"Location": view.links["self"], **replayed})


def _check_data_sets(gateway: Gateway, draft: MessageDraft, parts: Mapping[str, StoredPart]) -> None:
    errors = []
    for number, entry in enumerate(draft.attachments):
        if entry.kind != AttachmentKind.DATA_SET.word:
            continue
        part = parts[entry.part]
        try:
            parquet_schema(StoredContent(gateway.store, part.object_name, part.size))
        except pa.ArrowException as error:
            errors.append({"pointer": f"#/attachments/{number}/part", "detail": f"not a Parquet file: {error}"})
    if errors:
        raise Problem("invalid", "; ".join(error["detail"] for error in errors), errors=errors)


def _as_queued(record: DeliveryRecord) -> DeliveryRecord:
    """A delivery as its first answer told it."""
    return replace(
        record,
        state=DeliveryState.QUEUED,
        messages_sent=0,
        messages_total=None,
        attempts=0,
        next_attempt_at=0,
        reason=None,
        updated_at=record.created_at,
    )
