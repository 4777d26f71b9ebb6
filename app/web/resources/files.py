"""Files that are sent by PUT, as `curl -T` does."""

from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import Path, Query, Request, Response

from app.service.sending.drafts import find_destination
from app.web.dependencies.caller import CallerDep, resource_router
from app.web.dependencies.request_gateway import GatewayDep
from app.web.http.digests import Digests
from app.web.http.disposition import why_meaningless
from app.web.http.traceparent import TraceParent
from app.web.problems import Problem, invalid_parameter
from app.web.resources.deliveries import AcceptedDelivery
from app.web.resources.messages.multipart_upload import RawUpload
from app.web.resources.messages.submission import ACCEPTED, REFUSED, IdempotencyKey, SendingRequest
from app.web.resources.schemas import KindWord

router = resource_router(prefix="/files", tags=["messages"])

_BODY: dict[str, Any] = {
    "required": True,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


@router.put(
    "/{destination}/{name}",
    operation_id="send_file",
    status_code=202,
    response_model=AcceptedDelivery,
    openapi_extra={"requestBody": _BODY},
    responses={
        202: ACCEPTED,
        **REFUSED,
    },
)
async def send_file(
    destination: Annotated[str, Path(description="a destination of the settings")],
    name: Annotated[str, Path(description="the file's name, which the receiving program gets")],
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    kind: Annotated[KindWord | None, Query(description="default: recognised from the content")] = None,
    description: Annotated[str | None, Query(max_length=4096)] = None,
    idempotency_key: IdempotencyKey = None,
    traceparent: TraceParent = None,
) -> Response:
    """Send one file, whose bytes are the body: `curl -T report.pdf http://gateway/v1/files/partner/`.

    It becomes a delivery as by `POST /messages`. Each request sends the file; with an Idempotency-Key it is safe to
    repeat one.
    """
    del traceparent  # `continued` reads it: a repeated field is invalid
    raw = request.scope["raw_path"].partition(b"?")[0].rpartition(b"/")[2]
    try:  # `name` has replacement characters for bytes that are not UTF-8
        unquote_to_bytes(raw).decode()
        why = why_meaningless(name)
    except UnicodeDecodeError:
        why = f"{raw.decode('latin-1')[:40]!r} is not percent-encoded UTF-8"
    if why:
        raise invalid_parameter("name", why)
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Problem("unsupported-media-type", "send the file without Content-Encoding", accepted=["identity"])
    sending = SendingRequest(request, gateway, caller, idempotency_key)
    with sending.accepted():
        find_destination(sending.destinations, destination)
        fields = {"destination": destination, "kind": kind, "description": description}
        given = {field: text for field, text in fields.items() if text is not None}
        media_type = request.headers.get("content-type", "").strip().lower()
        body = RawUpload(gateway.store, sending.folder, name, media_type, given, Digests(request.headers))
        submission = await sending.receive(body)
        return await sending.queue(submission)
