"""Messages: listing of received messages, and sending."""

from functools import partial
from typing import Annotated, Any

from fastapi import Query, Request, Response

from app.model.attachment import AttachmentKind
from app.service.gateway import Gateway
from app.service.retention.deletion import NotEnded
from app.web.dependencies.caller import Caller, CallerDep, resource_router
from app.web.dependencies.known_resources import Identifier, known_message, unknown
from app.web.dependencies.request_gateway import GatewayDep, PagingDep
from app.web.http.digests import Digests
from app.web.http.entity_tags import IfMatch, entity_tag, require_match
from app.web.http.parameters import Timestamp, to_microseconds
from app.web.http.traceparent import TraceParent
from app.web.problems import Problem, responses
from app.web.resources.attachments.schemas import AttachmentSummary
from app.web.resources.deliveries import AcceptedDelivery
from app.web.resources.messages.multipart_form import MESSAGE
from app.web.resources.messages.multipart_upload import Body, DescriptionUpload, UploadWriter
from app.web.resources.messages.schemas import MessageSummary, MessageView, Rehearsal
from app.web.resources.messages.submission import ACCEPTED, REFUSED, IdempotencyKey, SendingRequest
from app.web.resources.schemas import PageView, page_view

MOST_SHOWN = 100
"""Maximum number of attachments in the problem `not-ended`."""

router = resource_router(prefix="/messages", tags=["messages"])

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
_OF_UPLOADS = {
    "destination": "partner",
    "uploads": {"file": "9f2c4b1e0d5a4c3b8e7f6a5d4c3b2a19"},
    "attachments": [{"part": "file"}],
}
_REQUEST_BODY: dict[str, Any] = {
    "required": True,
    "description": (
        f"Either the first part is `{MESSAGE}`, JSON that describes the message and names every other part; or a plain "
        "form: `destination`, optionally `description`, `kind`, `name` and `data_set` (JSON), and files. A data set's "
        "file may be CSV, Parquet, Arrow, NDJSON, Dataset-JSON, a SAS transport file or sas7bdat. An attachment "
        "without a kind is a data set if its content is recognised as one of these (CSV and arrays of JSON are not), a "
        "text file if it is text, else a binary file. In a form, the file `catalog` (value labels: a sas7bcat, or a "
        "data set of CNTLOUT=) and `define` (define.xml) describe data sets. If all parts are resumable "
        "uploads, the JSON may be the whole body."
    ),
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/MessageDraft"},
            "examples": {"uploads": {"value": _OF_UPLOADS}},
        },
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
                    "catalog": {"type": "string", "format": "binary"},
                    "define": {"type": "string", "format": "binary"},
                },
                "additionalProperties": {"type": "string", "format": "binary"},
            },
            "encoding": {MESSAGE: {"contentType": "application/json"}},
            "examples": {"described": {"value": {MESSAGE: _EXAMPLE}}, "form": {"value": {"destination": "partner"}}},
        },
    },
}


@router.get("", operation_id="list_messages", responses=responses())
def list_messages(
    gateway: GatewayDep,
    caller: CallerDep,
    paging: PagingDep,
    source: Annotated[str | None, Query(max_length=100)] = None,
    received_after: Annotated[Timestamp | None, Query(examples=["2026-11-21T08:00:00Z"])] = None,
    received_before: Annotated[Timestamp | None, Query(examples=["2026-11-22T08:00:00Z"])] = None,
) -> PageView[MessageSummary]:
    """List the received messages with attachments, newest first."""
    page = gateway.catalog.messages(
        source,
        paging.cursor,
        paging.limit,
        caller.sources,
        to_microseconds(received_after),
        to_microseconds(received_before),
    )
    return page_view(paging, page, lambda record: MessageSummary.of(record, caller.base))


@router.get("/{message_id}", operation_id="get_message", responses=responses("not-found", "ambiguous"))
def get_message(message_id: Identifier, response: Response, gateway: GatewayDep, caller: CallerDep) -> MessageView:
    """Return one message: its header's fields, its application message and its attachments.

    Its entity tag changes whenever any of these does.
    """
    view = _view(gateway, message_id, caller, caller.base)
    response.headers["ETag"] = entity_tag(view)
    return view


@router.delete(
    "/{message_id}",
    operation_id="delete_message",
    status_code=204,
    responses=responses("not-found", "ambiguous", "not-ended", "precondition-failed"),
)
def delete_message(message_id: Identifier, gateway: GatewayDep, caller: CallerDep, if_match: IfMatch = None) -> None:
    """Delete a message, and its expired and quarantined attachments. Delete its other attachments before."""
    view = _view(gateway, message_id, caller, caller.base)
    require_match(entity_tag(view), if_match, "the message")
    try:
        if not gateway.deletion.message(view.id):
            raise unknown("message", message_id)
    except NotEnded as error:
        attachments = [{"id": each.id, "state": each.state} for each in error.attachments[:MOST_SHOWN]]
        raise Problem("not-ended", str(error), attachments=attachments) from None


def _view(gateway: Gateway, message_id: str, caller: Caller, base: str) -> MessageView:
    record = known_message(gateway, message_id, caller)
    attachments = [
        AttachmentSummary.of(attachment_id, gateway.catalog.attachment(attachment_id), base)
        for attachment_id in record.attachments
    ]
    source = gateway.settings.sources.get(record.source)
    return MessageView.of(record, base, attachments, (source and source.ccsid) or 0)


@router.post(
    "",
    operation_id="send_message",
    status_code=202,
    response_model=AcceptedDelivery,
    openapi_extra={"requestBody": _REQUEST_BODY},
    responses={
        200: {"description": "with `dry_run`: what would be sent", "model": Rehearsal},
        202: ACCEPTED,
        **REFUSED,
    },
)
async def send_message(
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    idempotency_key: IdempotencyKey = None,
    traceparent: TraceParent = None,
    dry_run: Annotated[
        bool,
        Query(description="describe what would be sent, with every variable of every data set; send and store nothing"),
    ] = False,
) -> Response:
    """Send files and data sets to a destination.

    They are durably stored before the response is sent; the delivery shows their progress.

    A data set is sent as CSV, Parquet, Arrow, NDJSON, Dataset-JSON, a SAS transport file or sas7bdat. It is checked
    against every limit of SAS and of the destination before anything is sent. Value labels are sent as one more data
    set, `FORMATS`, in the form that PROC FORMAT reads with CNTLIN=.
    """
    del traceparent  # `continued` reads it: a repeated field is invalid
    sending = SendingRequest(request, gateway, caller, None if dry_run else idempotency_key)
    with sending.accepted():
        if dry_run:
            caller.trail.details["dry_run"] = True
        content_type, digests = request.headers.get("content-type", ""), Digests(request.headers)
        body: Body
        if content_type.partition(";")[0].strip().lower() == "application/json":  # its parts are uploads
            body = DescriptionUpload(partial(sending.reader.on_field, MESSAGE), digests)
        else:
            body = UploadWriter(
                content_type,
                gateway.store,
                sending.folder,
                is_field=sending.reader.is_field,
                on_field=sending.reader.on_field,
                max_parts=gateway.settings.limits.attachments_a_message,
                digests=digests,
            )
        submission = await sending.receive(body)
        return await (sending.rehearse(submission) if dry_run else sending.queue(submission))
