"""Resumable uploads by tus 1.0 and by HTTP's own protocol, over one store."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from app.model.access import Scope
from app.model.patterns import SF_BOOLEAN
from app.service.gateway import Gateway
from app.service.sending.upload_space import SpaceReservation
from app.service.uploads import QuotaExceeded, TooManyUploads, UnknownUpload, Upload
from app.web.dependencies.caller import CallerDep
from app.web.dependencies.identifiers import unknown
from app.web.dependencies.request_gateway import BaseDep, GatewayDep, PagingDep, link_next
from app.web.http.digests import Digests
from app.web.http.strict_int import Digits
from app.web.http.traceparent import TraceParent, continued
from app.web.problems import Problem, responses
from app.web.resources.schemas import PageView, page_view
from app.web.resources.uploads import protocols
from app.web.resources.uploads.owned_uploads import known_upload, owner_of, page_of
from app.web.resources.uploads.protocols import LONGEST, Protocol
from app.web.resources.uploads.schemas import UploadView
from app.web.resources.uploads.upload_checksums import check_of, check_whole, note_digest
from app.web.resources.uploads.upload_receiving import Receivers, receive
from app.web.server.thread_pools import pools_of, run_in

router = APIRouter(prefix="/uploads", tags=["messages"])

UploadId = Annotated[str, Path(description="the upload's identifier")]
TusResumable = Annotated[str | None, Header(description="`1.0.0` for tus; without it, HTTP's own protocol")]
UploadLength = Annotated[Digits | None, Header(ge=0, le=LONGEST, description="bytes of the whole content")]
UploadComplete = Annotated[
    str | None, Header(pattern=SF_BOOLEAN, description="`?1` if the content ends with this body; `?0` if not")
]
UploadOffset = Annotated[Digits, Header(ge=0, le=LONGEST, description="the byte at which this body goes on")]
UploadChecksum = Annotated[
    str | None, Header(description="the body's checksum (tus): an algorithm, a space, base64", max_length=200)
]
Digest = Annotated[str | None, Header(description="digests of the body, which is kept only if they are right")]
ReprDigest = Annotated[str | None, Header(description="digests of the whole content, checked at its end")]

_STATE: dict[str, Any] = {
    "Upload-Offset": {"description": "number of received bytes", "schema": {"type": "integer"}},
    "Upload-Length": {"description": "bytes of the whole content, if known", "schema": {"type": "integer"}},
    "Upload-Complete": {"description": "`?1` if all bytes are here", "schema": {"type": "string"}},
    "Upload-Expires": {"description": "when the upload is deleted (tus)", "schema": {"type": "string"}},
    "Tus-Resumable": {"description": "`1.0.0` (tus)", "schema": {"type": "string"}},
}
_LOCATION: dict[str, Any] = {"Location": {"description": "the upload", "schema": {"type": "string"}}}
_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_APPEND_BODY: dict[str, Any] = {"required": True, "content": {each.value: _BINARY for each in Protocol}}
_CREATE_BODY: dict[str, Any] = {"content": {"application/octet-stream": _BINARY, Protocol.TUS.value: _BINARY}}
_SPOKEN = ("malformed", "unsupported-tus-version")
_RECEIVING = (
    "malformed",
    "inconsistent-upload-length",
    "digest-mismatch",
    "superseded",
    "too-large",
    "unsupported-tus-version",
    "unsupported-media-type",
    "invalid",
    "checksum-mismatch",
    "unavailable",
    "busy",
    "storage-full",
    "upload-quota",
)


@dataclass(frozen=True, slots=True)
class _Append:
    """One body to append. `is_last` if the content ends with it."""

    request: Request
    gateway: Gateway
    upload: Upload
    is_last: bool


@router.options(
    "",
    operation_id="describe_uploads",
    status_code=204,
    responses={204: {"description": "what the gateway supports, in header fields of both protocols"}},
)
async def describe_uploads(gateway: GatewayDep) -> Response:
    """Tell which versions, extensions and sizes of resumable uploads are supported."""
    most, lifetime = gateway.settings.limits.upload_bytes, gateway.uploads.lifetime
    return Response(status_code=204, headers=protocols.capabilities(most, lifetime))


@router.post(
    "",
    operation_id="create_upload",
    status_code=201,
    response_model=UploadView,
    openapi_extra={"requestBody": _CREATE_BODY},
    responses={
        201: {"description": "begun, or complete", "headers": _LOCATION | _STATE},
        **responses(*_RECEIVING, "too-many-uploads"),
    },
)
async def create_upload(
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    base: BaseDep,
    tus_resumable: TusResumable = None,
    upload_length: UploadLength = None,
    upload_complete: UploadComplete = None,
    upload_checksum: UploadChecksum = None,
    content_digest: Digest = None,
    repr_digest: ReprDigest = None,
    traceparent: TraceParent = None,
) -> Response:
    """Begin an upload, with the first bytes or without any.

    The upload is continued by PATCH at its `Location`. When it is complete, `POST /messages` sends it: its identifier
    is in `uploads` of the message. It is deleted when its time is over, or an hour after it was sent.
    """
    del tus_resumable, upload_checksum, content_digest, traceparent
    protocol = protocols.spoken(request.headers)
    _require_running(gateway)
    how = protocols.creation(protocol, request.headers, upload_length, upload_complete)
    Digests({} if repr_digest is None else {"repr-digest": repr_digest})
    check_of(request.headers)
    _require_size(gateway, how.length)
    gateway.room.check(how.length or 0)
    about = (owner_of(caller), how.length, how.file_name, how.content_type, how.metadata, how.repr_digest)
    trace_parent = continued(request, gateway.traces)
    with _within_quota():
        upload = await run_in_threadpool(gateway.uploads.create, *about, trace_parent)
    caller.trail.details = {"upload": upload.record.id}
    if how.has_body or how.is_last or upload.is_complete:
        await _append(_Append(request, gateway, upload, how.is_last), None)
    view = UploadView.of(upload, base)
    limits = protocols.limit(gateway.settings.limits.upload_bytes, gateway.uploads.lifetime)
    headers = {**protocols.described(protocol, upload), "Location": view.links["self"], "Upload-Limit": limits}
    return JSONResponse(view.model_dump(mode="json"), 201, headers)


@router.get("", operation_id="list_uploads", responses=responses("invalid"))
def list_uploads(
    request: Request, response: Response, gateway: GatewayDep, caller: CallerDep, base: BaseDep, paging: PagingDep
) -> PageView[UploadView]:
    """List the caller's uploads, newest first. With the scope `operate` and no limits, those of all callers."""
    principal = caller.principal
    is_operator = Scope.OPERATE in principal.scopes and not principal.is_limited
    page = page_of(gateway.uploads.of(None if is_operator else owner_of(caller)), paging)
    link_next(request, response, page)
    return page_view(page, lambda upload: UploadView.of(upload, base))


@router.head(
    "/{upload_id}",
    operation_id="head_upload",
    status_code=204,
    responses={
        204: {"description": "the state, in header fields", "headers": _STATE},
        200: {"description": "the same, for tus", "headers": _STATE},
        **responses("not-found", *_SPOKEN),
    },
)
async def head_upload(
    upload_id: UploadId,
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    tus_resumable: TusResumable = None,
) -> Response:
    """Tell at which byte an upload goes on. A request that still appends to it is ended before."""
    del tus_resumable
    protocol = protocols.spoken(request.headers)
    upload = await _taken(request, gateway, upload_id, caller)
    headers = protocols.described(protocol, upload)
    if protocol is Protocol.HTTP:
        headers["Upload-Limit"] = protocols.limit(gateway.settings.limits.upload_bytes, gateway.uploads.lifetime)
    return Response(status_code=200 if protocol is Protocol.TUS else 204, headers=headers)


@router.get("/{upload_id}", operation_id="get_upload", responses=responses("not-found"))
async def get_upload(upload_id: UploadId, gateway: GatewayDep, caller: CallerDep, base: BaseDep) -> UploadView:
    """Return an upload and its progress, and let a request that appends to it go on."""
    return UploadView.of(await known_upload(gateway, upload_id, caller), base)


@router.patch(
    "/{upload_id}",
    operation_id="append_upload",
    status_code=204,
    openapi_extra={"requestBody": _APPEND_BODY},
    responses={
        204: {"description": "kept", "headers": _STATE},
        **responses("not-found", "mismatching-upload-offset", "completed-upload", *_RECEIVING),
    },
)
async def append_upload(
    upload_id: UploadId,
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    upload_offset: UploadOffset,
    tus_resumable: TusResumable = None,
    upload_length: UploadLength = None,
    upload_complete: UploadComplete = None,
    upload_checksum: UploadChecksum = None,
    content_digest: Digest = None,
    repr_digest: ReprDigest = None,
) -> Response:
    """Append the next bytes. What arrived before a connection broke is kept; HEAD tells how much that is.

    A body with a checksum or a digest is kept as a whole or not at all.
    """
    del tus_resumable, upload_checksum, content_digest, repr_digest
    protocol = protocols.spoken(request.headers)
    _require_running(gateway)
    upload = await _taken(request, gateway, upload_id, caller)
    protocols.require_type(protocol, request.headers)
    is_last = protocol is Protocol.HTTP and upload_complete == "?1"
    if upload_offset != upload.offset:
        raise protocols.mismatch(upload, upload_offset)
    if upload.is_complete and request.headers.get("content-length") != "0":
        raise Problem("completed-upload", "all bytes of this upload are here", {"Upload-Complete": "?1"})
    if upload_length is not None and protocols.consistent(upload.record.length, upload_length) is not None:
        _require_size(gateway, upload_length)
    await _append(_Append(request, gateway, upload, is_last), upload_length)
    return Response(status_code=204, headers=protocols.described(protocol, upload))


@router.delete(
    "/{upload_id}", operation_id="delete_upload", status_code=204, responses=responses("not-found", *_SPOKEN)
)
async def delete_upload(
    upload_id: UploadId, request: Request, gateway: GatewayDep, caller: CallerDep, tus_resumable: TusResumable = None
) -> Response:
    """Delete an upload and what was received of it."""
    del tus_resumable
    protocols.spoken(request.headers)
    upload = await _taken(request, gateway, upload_id, caller)
    await run_in_threadpool(gateway.uploads.delete, upload)
    return Response(status_code=204)


async def _taken(request: Request, gateway: Gateway, upload_id: str, caller: CallerDep) -> Upload:
    """Return an upload of the caller to which no other request appends. Raises Problem."""
    await known_upload(gateway, upload_id, caller)
    await _receivers(request).end(upload_id)
    return await known_upload(gateway, upload_id, caller)


def _receivers(request: Request) -> Receivers:
    receivers: Receivers = request.app.state.receivers
    return receivers


async def _append(append: _Append, length: int | None) -> None:
    """Append a request's body, note the size of the content once it is known, and check its digests at its end.

    `length` is the `Upload-Length` of the request. Nothing is awaited before the request is known as the upload's.
    """
    request, gateway, upload, headers = append.request, append.gateway, append.upload, append.request.headers
    begin = upload.offset
    known = upload.record.length
    announced = int(headers["content-length"]) if "content-length" in headers else None
    if append.is_last and announced is not None:
        length = protocols.consistent(known or length, begin + announced)
    end = length if known is None else known
    most = (gateway.settings.limits.upload_bytes if end is None else end) - begin
    if announced is not None and announced > most:
        if end is None:
            _require_size(gateway, begin + announced)
        raise protocols.inconsistent(f"the body has {announced} bytes, and {most} are missing")
    _require_size(gateway, length)

    def allow(size: int) -> None:
        if size > most:
            raise protocols.inconsistent(f"the body goes beyond the end of the content: {most} bytes are missing")
        with _within_quota():
            gateway.uploads.reserve(upload, begin + size)

    try:
        allow(announced or 0)
        with _within_quota():
            gateway.uploads.reserve(upload, length or 0)
        with pools_of(request).uploading(), gateway.room.promised(announced or 0) as promise:
            await _receivers(request).run(upload.record.id, _receiving(append, length, allow, promise))
    finally:
        gateway.uploads.release(upload)


@contextmanager
def _within_quota() -> Iterator[None]:
    """Turn what is beyond the quotas of uploads into problems."""
    try:
        yield
    except TooManyUploads as error:
        raise Problem("too-many-uploads", str(error), {"Retry-After": "60"}) from None
    except QuotaExceeded as error:
        headers = {"Retry-After": "60"}
        raise Problem("upload-quota", str(error), headers, limit=error.limit, used=error.used) from None


async def _receiving(
    append: _Append, length: int | None, allow: Callable[[int], None], promise: SpaceReservation
) -> None:
    request, gateway, upload = append.request, append.gateway, append.upload
    if length is not None and upload.record.length is None:
        await run_in_threadpool(gateway.uploads.set_length, upload, length)
    announced = int(request.headers.get("content-length", 0))
    digest, is_end = request.headers.get("repr-digest"), upload.offset + announced == upload.record.length
    if digest is not None and (append.is_last or is_end):
        await run_in_threadpool(note_digest, gateway.uploads, upload, digest)
    check = check_of(request.headers)
    writer = gateway.uploads.append(upload, whole=check is not None)
    try:
        await receive(request, writer, allow, check, promise)
        if append.is_last and upload.record.length is None:
            await run_in_threadpool(gateway.uploads.set_length, upload, upload.offset)
        if append.is_last and not upload.is_complete:
            why = f"the content ends after {upload.offset} bytes, and {upload.record.length} were announced"
            raise protocols.inconsistent(why)
        if upload.is_complete:
            await run_in(pools_of(request).uploads, partial(check_whole, gateway.uploads, upload))
    except UnknownUpload:
        raise unknown("upload", upload.record.id) from None


def _require_running(gateway: Gateway) -> None:
    if gateway.draining:
        raise Problem("unavailable", "the gateway is stopping", {"Retry-After": "5"})


def _require_size(gateway: Gateway, size: int | None) -> None:
    most = gateway.settings.limits.upload_bytes
    if size is not None and size > most:
        raise Problem("too-large", f"an upload may have {most} bytes", limit=most)
