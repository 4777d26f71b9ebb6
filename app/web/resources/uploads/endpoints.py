"""Resumable uploads by tus 1.0."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from fastapi import Header, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from app.model.errors import GatewayError
from app.model.principals import Scope
from app.model.times import to_time
from app.model.uploads import UnknownUpload, UploadRecord
from app.service.gateway import Gateway
from app.service.sending.upload_space import SpaceReservation
from app.service.uploads import Upload
from app.web.dependencies.caller import CallerDep, resource_router
from app.web.dependencies.known_resources import unknown
from app.web.dependencies.request_gateway import BaseDep, GatewayDep, PagingDep
from app.web.http.digests import Digests
from app.web.http.parameters import DIGITS
from app.web.http.traceparent import TraceParent, continued
from app.web.problems import Problem, responses
from app.web.resources.schemas import Links, PageView, page_view
from app.web.resources.uploads import tus
from app.web.resources.uploads.owned_uploads import known_upload, owner_of
from app.web.resources.uploads.upload_receiving import Receivers, check_whole, note_digest, receive
from app.web.server.thread_pools import pools_of, run_in

router = resource_router(prefix="/uploads", tags=["messages"])

UploadId = Annotated[str, Path(description="the upload's identifier")]
TusResumable = Annotated[str, Header(description="the version of tus: `1.0.0`")]
UploadLength = Annotated[int | None, Header(ge=0, le=tus.LONGEST, description="bytes of the whole content"), DIGITS]
UploadOffset = Annotated[int, Header(ge=0, le=tus.LONGEST, description="the byte at which this body continues"), DIGITS]
UploadChecksum = Annotated[
    str | None, Header(description="the body's checksum: an algorithm, a space, base64", max_length=200)
]
ReprDigest = Annotated[str | None, Header(description="digests of the whole content, checked at its end")]

_STATE: dict[str, Any] = {
    "Upload-Offset": {"description": "number of received bytes", "schema": {"type": "integer"}},
    "Upload-Length": {"description": "bytes of the whole content, if known", "schema": {"type": "integer"}},
    "Upload-Expires": {"description": "when the upload is deleted", "schema": {"type": "string"}},
    "Tus-Resumable": {"description": "`1.0.0`", "schema": {"type": "string"}},
}
_LOCATION: dict[str, Any] = {"Location": {"description": "the upload", "schema": {"type": "string"}}}
_BODY: dict[str, Any] = {"content": {tus.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
_RECEIVING = (
    "malformed",
    "inconsistent-upload-length",
    "digest-mismatch",
    "superseded",
    "too-large",
    "unsupported-tus-version",
    "unsupported-media-type",
    "checksum-mismatch",
    "unavailable",
    "busy",
    "storage-full",
    "upload-quota",
)


class UploadView(BaseModel):
    """One resumable upload."""

    id: str
    owner: str = Field(
        description="whose upload it is: the kind of its credentials, and the identifier or the name of the key",
        examples=["key:9f2c4b1e"],
    )
    offset: int = Field(description="number of received bytes; the upload continues here")
    size: int | None = Field(description="bytes of the whole content; null until the client tells it")
    is_complete: bool = Field(description="whether all bytes are here, so that the upload can be sent")
    name: str | None = Field(description="the file's name", examples=["report.pdf"])
    content_type: str
    created_at: datetime
    expires_at: datetime
    links: Links

    @classmethod
    def of(cls, record: UploadRecord, base: str) -> "UploadView":
        return cls(
            id=record.id,
            owner=record.owner,
            offset=record.received,
            size=record.length,
            is_complete=record.is_complete,
            name=record.file_name,
            content_type=record.content_type,
            created_at=to_time(record.created_at),
            expires_at=to_time(record.expires_at),
            links={"self": f"{base}/uploads/{record.id}"},
        )


@router.options(
    "",
    operation_id="describe_uploads",
    status_code=204,
    responses={204: {"description": "what the gateway supports, in header fields"}},
)
async def describe_uploads(gateway: GatewayDep) -> Response:
    """Tell which versions, extensions and sizes of resumable uploads are supported."""
    return Response(status_code=204, headers=tus.capabilities(gateway.settings.limits.upload_bytes))


@router.post(
    "",
    operation_id="create_upload",
    status_code=201,
    response_model=UploadView,
    openapi_extra={"requestBody": _BODY},
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
    tus_resumable: TusResumable,
    upload_length: UploadLength = None,
    upload_checksum: UploadChecksum = None,
    repr_digest: ReprDigest = None,
    traceparent: TraceParent = None,
) -> Response:
    """Begin an upload, with the first bytes or without any.

    The upload is continued by PATCH at its `Location`. When it is complete, `POST /messages` sends it: its identifier
    is in `uploads` of the message. It is deleted when its time is over, or an hour after it was sent.
    """
    del traceparent
    headers = request.headers
    tus.require_version(tus_resumable)
    _require_running(gateway)
    tus.require_creation(headers, upload_length)
    text = headers.get("upload-metadata")
    metadata = tus.metadata(text or "")
    if repr_digest is not None:
        Digests({"repr-digest": repr_digest})
    if upload_checksum is not None:
        tus.Checksum(upload_checksum)
    _require_size(gateway, upload_length)
    gateway.room.check(upload_length or 0)
    content_type = metadata.get("filetype", "").strip().lower()[:255]
    about = (owner_of(caller), upload_length, metadata.get("filename"), content_type, text, repr_digest)
    trace_parent = continued(request, gateway.traces)
    upload = await run_in_threadpool(gateway.uploads.create, *about, trace_parent)
    caller.trail.details = {"upload": upload.record.id}
    if tus.has_body(headers) or upload.is_complete:
        await _append(request, gateway, upload, None)
    view = UploadView.of(upload.record, base)
    return JSONResponse(view.model_dump(mode="json"), 201, {**tus.described(upload), "Location": view.links["self"]})


@router.get("", operation_id="list_uploads", responses=responses())
def list_uploads(gateway: GatewayDep, caller: CallerDep, base: BaseDep, paging: PagingDep) -> PageView[UploadView]:
    """List the caller's uploads, newest first. With the scope `operate` and no limits, list the uploads of all
    callers."""
    principal = caller.principal
    is_operator = principal.may(Scope.OPERATE) and not principal.is_limited
    page = gateway.uploads.page(None if is_operator else owner_of(caller), paging.cursor, paging.limit)
    return page_view(paging, page, lambda record: UploadView.of(record, base))


@router.head(
    "/{upload_id}",
    operation_id="head_upload",
    response_class=Response,
    responses={
        200: {"description": "the state, in header fields", "headers": _STATE},
        **responses("not-found", "unsupported-tus-version"),
    },
)
async def head_upload(
    upload_id: UploadId, request: Request, gateway: GatewayDep, caller: CallerDep, tus_resumable: TusResumable
) -> Response:
    """Return the byte at which an upload continues. A request that still appends to it is ended first."""
    tus.require_version(tus_resumable)
    upload = await _acquired(request, gateway, upload_id, caller)
    return Response(headers=tus.described(upload))


@router.get("/{upload_id}", operation_id="get_upload", responses=responses("not-found"))
async def get_upload(upload_id: UploadId, gateway: GatewayDep, caller: CallerDep, base: BaseDep) -> UploadView:
    """Return an upload and its progress, and do not end a request that appends to it."""
    return UploadView.of((await known_upload(gateway, upload_id, caller)).record, base)


@router.patch(
    "/{upload_id}",
    operation_id="append_upload",
    status_code=204,
    openapi_extra={"requestBody": {"required": True, **_BODY}},
    responses={
        204: {"description": "kept", "headers": _STATE},
        **responses("not-found", "mismatching-upload-offset", *_RECEIVING),
    },
)
async def append_upload(
    upload_id: UploadId,
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    upload_offset: UploadOffset,
    tus_resumable: TusResumable,
    upload_length: UploadLength = None,
    upload_checksum: UploadChecksum = None,
    repr_digest: ReprDigest = None,
) -> Response:
    """Append the next bytes. What arrived before a connection broke is kept; HEAD tells how much that is.

    A body with a checksum is kept as a whole or not at all.
    """
    del upload_checksum, repr_digest
    tus.require_version(tus_resumable)
    _require_running(gateway)
    upload = await _acquired(request, gateway, upload_id, caller)
    tus.require_type(request.headers)
    if upload_offset != upload.offset:
        raise tus.mismatch(upload, upload_offset)
    await _append(request, gateway, upload, upload_length)
    return Response(status_code=204, headers=tus.described(upload))


@router.delete(
    "/{upload_id}",
    operation_id="delete_upload",
    status_code=204,
    responses=responses("not-found", "unsupported-tus-version"),
)
async def delete_upload(
    upload_id: UploadId,
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    tus_resumable: TusResumable = tus.VERSION,
) -> Response:
    """Delete an upload and what was received of it."""
    tus.require_version(tus_resumable)
    upload = await _acquired(request, gateway, upload_id, caller)
    await run_in_threadpool(gateway.uploads.delete, upload)
    return Response(status_code=204)


async def _acquired(request: Request, gateway: Gateway, upload_id: str, caller: CallerDep) -> Upload:
    """Return an upload of the caller to which no other request appends. Raises Problem.

    One of this process keeps what it has received so far; one of another process keeps its whole pieces.
    """
    upload = await known_upload(gateway, upload_id, caller)
    await _receivers(request).end(upload_id)
    try:
        await run_in_threadpool(gateway.uploads.take, upload)
    except UnknownUpload:
        raise unknown("upload", upload_id) from None
    return upload


def _receivers(request: Request) -> Receivers:
    receivers: Receivers = request.app.state.receivers
    return receivers


async def _append(request: Request, gateway: Gateway, upload: Upload, length: int | None) -> None:
    """Append a request's body, note the size of the content once it is known, and check its digests at its end.

    `length` is the `Upload-Length` of the request.
    """
    headers = request.headers
    begin, known = upload.offset, upload.record.length
    if None not in (known, length) and known != length:
        raise tus.inconsistent(f"the announced size of the content is {known} bytes, not {length}")
    announced = int(headers["content-length"]) if "content-length" in headers else None
    end = length if known is None else known
    most = (gateway.settings.limits.upload_bytes if end is None else end) - begin
    if announced is not None and announced > most:
        _require_size(gateway, begin + announced if end is None else None)
        raise tus.inconsistent(f"the body has {announced} bytes, and {max(most, 0)} are missing")
    _require_size(gateway, length)

    async def allow(size: int) -> None:
        if size > most:
            _require_size(gateway, begin + size if end is None else None)
            raise tus.inconsistent(f"the body goes beyond the end of the content: {max(most, 0)} bytes are missing")
        if begin + size > upload.record.held:
            await run_in_threadpool(gateway.uploads.reserve, upload, begin + size)

    try:
        await allow(max(announced or 0, (length or 0) - begin))
        with pools_of(request).uploading(), gateway.room.reserved(announced or 0) as reservation:
            await _receivers(request).run(
                upload.record.id, _receiving(request, gateway, upload, length, allow, reservation)
            )
    except UnknownUpload:
        raise unknown("upload", upload.record.id) from None
    finally:
        with suppress(GatewayError):  # it was deleted, or a newer request has it
            await run_in_threadpool(gateway.uploads.release, upload)


async def _receiving(
    request: Request,
    gateway: Gateway,
    upload: Upload,
    length: int | None,
    allow: Callable[[int], Awaitable[None]],
    reservation: SpaceReservation,
) -> None:
    if length is not None and upload.record.length is None:
        await run_in_threadpool(gateway.uploads.note, upload, replace(upload.record, length=length))
    if (digest := request.headers.get("repr-digest")) is not None:
        await run_in_threadpool(note_digest, gateway.uploads, upload, digest)
    given = request.headers.get("upload-checksum")
    checksum = None if given is None else tus.Checksum(given)
    writer = gateway.uploads.append(upload, whole=checksum is not None)
    await receive(request, writer, allow, checksum, reservation)
    if upload.is_complete:
        await run_in(pools_of(request).uploads, partial(check_whole, gateway.uploads, upload))


def _require_running(gateway: Gateway) -> None:
    if gateway.draining:
        raise Problem("unavailable", "the gateway is stopping", {"Retry-After": "5"})


def _require_size(gateway: Gateway, size: int | None) -> None:
    most = gateway.settings.limits.upload_bytes
    if size is not None and size > most:
        raise Problem("too-large", f"an upload may have {most} bytes", limit=most)
