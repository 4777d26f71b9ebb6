"""Messages: what attachments came with, and sending."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from secrets import token_hex
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from app.codecs.ibm_mq.encodings import charset
from app.model.attachment import AttachmentKind, DeliveryState
from app.model.records import DeliveryRecord, MessageRecord
from app.ports import IdempotencyConflict
from app.service.conversion import Slot
from app.service.gateway import Gateway
from app.web.connected import ClientLeft, conversions, while_connected
from app.web.deliveries import AcceptedDelivery, DeliveryView
from app.web.deps import BaseDep, GatewayDep, PagingDep, link_next
from app.web.drafts import MESSAGE, DraftReader, MessageDraft, delivery, fingerprint
from app.web.preparing import Preparation, prepare_data_sets, told
from app.web.problems import Problem, responses
from app.web.rehearsals import Rehearsal, rehearse
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
        {
            "part": "sales",
            "kind": "data-set",
            "name": "WORK.SALES",
            "data_set": {"variables": {"DT": {"format": "DATE9."}, "C": {"length": 40, "label": "Customer"}}},
        },
    ],
}
_REQUEST_BODY: dict[str, Any] = {
    "required": True,
    "description": (
        f"Either the first part is `{MESSAGE}`, JSON that describes the message and names every other part; or a plain "
        "form: `destination`, perhaps `description`, `kind`, `name` and `data_set` (JSON), and files. A data set's "
        "file may be CSV, Parquet, Arrow, NDJSON, Dataset-JSON or a SAS transport file."
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
                    "data_set": {"$ref": "#/components/schemas/DataSetDraft"},
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
    response_model=AcceptedDelivery,
    openapi_extra={"requestBody": _REQUEST_BODY},
    responses={
        200: {"description": "with `dry_run`: what would be sent", "model": Rehearsal},
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
            "unsuitable",
            "unknown-destination",
            "key-reused",
            "conversion-limit",
            "unavailable",
            "busy",
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
    dry_run: Annotated[
        bool, Query(description="tell what would be sent, every variable of every data set, and send and keep nothing")
    ] = False,
) -> JSONResponse:
    """Sends files and data sets to a destination. They are durably stored when this answers; how far they are on their
    way, the delivery tells.

    A data set comes as CSV, Parquet, Arrow, NDJSON, Dataset-JSON or a SAS transport file. It is checked against every
    limit of SAS and of the destination before anything is sent.
    """
    if gateway.draining:
        raise Problem("unavailable", "the gateway is stopping", {"Retry-After": "5"})
    in_flight: set[str] = request.app.state.in_flight
    if idempotency_key is None or dry_run:
        return await _send(request, gateway, base, None, dry_run=dry_run)
    if idempotency_key in in_flight:
        raise Problem("in-flight", "a request with this key is being answered", {"Retry-After": "1"})
    in_flight.add(idempotency_key)
    try:
        return await _send(request, gateway, base, idempotency_key, dry_run=False)
    finally:
        in_flight.discard(idempotency_key)


async def _send(request: Request, gateway: Gateway, base: str, key: str | None, *, dry_run: bool) -> JSONResponse:
    delivery_id = token_hex(16)
    reader = DraftReader(gateway.destinations)
    upload = Upload(
        request.headers.get("content-type", ""),
        gateway.store,
        _folder(delivery_id),
        is_field=reader.is_field,
        on_field=reader.on_field,
        max_parts=gateway.settings.limits.attachments_a_message,
    )
    try:
        form = await receive(request, upload, gateway.settings.limits.upload_bytes, gateway.check_room)
    except ClientDisconnect:
        raise Problem("malformed", "the client left in the middle") from None
    try:
        draft, parts = reader.result(form)
    except BaseException:
        await run_in_threadpool(_forget, gateway, delivery_id)
        raise
    asked = _Asked(gateway, base, form, draft, parts, delivery_id, key)
    if not dry_run and not any(entry.kind == AttachmentKind.DATA_SET.word for entry in draft.attachments):
        return await run_in_threadpool(_enqueue, asked, None)
    return await _converted(request, asked, _rehearse if dry_run else _enqueue)


class _Asked(NamedTuple):
    """An upload that is stored, and what is asked for it. `parts` are by the names that the draft uses."""

    gateway: Gateway
    base: str
    form: Form
    draft: MessageDraft
    parts: Mapping[str, StoredPart]
    delivery_id: str
    key: str | None


async def _converted(
    request: Request, asked: _Asked, answer: Callable[[_Asked, Slot | None], JSONResponse]
) -> JSONResponse:
    """What `answer` makes of an upload in a slot for conversions, as long as its client is there."""
    begun = False

    def work(slot: Slot) -> JSONResponse:
        nonlocal begun
        begun = True
        return answer(asked, slot)

    try:
        async with while_connected(request.receive), conversions(request).slot() as slot:
            return await slot.within_time(lambda: work(slot))
    except ClientLeft:
        raise Problem("malformed", "the client left in the middle") from None
    finally:
        if not begun:
            await asyncio.shield(run_in_threadpool(_forget, asked.gateway, asked.delivery_id))


def _folder(delivery_id: str) -> str:
    """Where the objects of a delivery lie in the content store."""
    return f"outgoing/{delivery_id}"


def _enqueue(asked: _Asked, slot: Slot | None) -> JSONResponse:
    """Queues the delivery; data sets are converted in the slot."""
    gateway, _, form, draft, parts, delivery_id, key = asked
    replayed: Mapping[str, str] = {}
    try:
        prepared = _prepared(asked, slot)
        same = fingerprint(draft, form.parts)
        to, now = gateway.destinations[draft.destination], gateway.clock.now()
        record = delivery(delivery_id, prepared.draft, prepared.parts, to, now=now, key=key, asked=same)
        gateway.enqueue(record)
    except IdempotencyConflict as conflict:
        _forget(gateway, delivery_id)
        if not conflict.same_request:
            raise Problem("key-reused", f"it stands for delivery {conflict.delivery.id}") from None
        record, replayed = _as_queued(conflict.delivery), {"Idempotency-Replayed": "true"}
    except BaseException:
        _forget(gateway, delivery_id)
        raise
    else:
        for part in prepared.data_sets:
            gateway.store.delete(parts[part].object_name)
    view = DeliveryView.of(record, asked.base, gateway.repeats(record.destination))
    said = {"warnings": found} if (found := _warnings(prepared)) else {}
    return JSONResponse(view.model_dump(mode="json") | said, 202, {"Location": view.links["self"], **replayed})


def _warnings(prepared: Preparation) -> list[dict[str, Any]]:
    """What was changed, or cannot be sent, of data sets."""
    return [
        {"pointer": f"#/attachments/{number}/data_set", **told(fault)}
        for number, entry in enumerate(prepared.draft.attachments)
        if entry.part in prepared.data_sets
        for fault in prepared.data_sets[entry.part].definition.warnings
    ]


def _rehearse(asked: _Asked, slot: Slot | None) -> JSONResponse:
    gateway, delivery_id = asked.gateway, asked.delivery_id
    assert slot is not None
    try:
        prepared = _prepared(asked, slot)
        to, now = gateway.destinations[asked.draft.destination], gateway.clock.now()
        record = delivery(delivery_id, prepared.draft, prepared.parts, to, now=now)
        return JSONResponse(rehearse(slot, gateway, prepared, record).model_dump(mode="json", exclude_none=True))
    finally:
        _forget(gateway, delivery_id)


def _prepared(asked: _Asked, slot: Slot | None) -> Preparation:
    if slot is None:
        return Preparation(asked.draft, asked.parts, {})
    return prepare_data_sets(slot, asked.gateway, asked.draft, asked.parts, _folder(asked.delivery_id))


def _forget(gateway: Gateway, delivery_id: str) -> None:
    """Removes whatever was stored for a delivery."""
    for name in list(gateway.store.names(_folder(delivery_id))):
        gateway.store.delete(name)


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
