"""Attachments: listing, progress and content."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.dataset.description import DataSetDescription, listing
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.errors import DamagedError
from app.model.records import AttachmentRecord
from app.ports import NEWEST_FIRST, AttachmentFilter, Sort
from app.service.finishing.stored_parts import missing_ranges
from app.service.gateway import Gateway
from app.tables.profiling import TOP
from app.web.dependencies.caller import Caller, CallerDep, LinkDep
from app.web.dependencies.identifiers import Identifier, known_attachment, unknown, whole
from app.web.dependencies.request_gateway import BaseDep, GatewayDep, PagingDep, link_next
from app.web.http.content_codings import CODED
from app.web.http.entity_tags import require_match
from app.web.http.iso_times import Timestamp, to_microseconds
from app.web.http.negotiation import DESCRIBED, FormatDep, OptionsDep, quality
from app.web.http.strict_int import Digits
from app.web.problems import Problem, damaged, responses
from app.web.resources.attachments.attachment_content import answer
from app.web.resources.attachments.profile_schemas import MOST_FREQUENT, ProfileView, profiled
from app.web.resources.attachments.schemas import AttachmentView, Progress, reason_of
from app.web.resources.attachments.unfinished_content import answer_in_part
from app.web.resources.data_set_schemas import SchemaView, describe, found_contents
from app.web.resources.schemas import KINDS, KindWord, PageView, page_view
from app.web.responses.long_polling import AttachmentWait
from app.web.server.thread_pools import pools_of, run_in

MISSING_SHOWN = 100
"""Maximum number of missing ranges in a response."""

router = APIRouter(prefix="/attachments", tags=["attachments"])

_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_FILE = {"application/octet-stream": _BINARY}
_CONTENT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "the content", "content": _FILE | DESCRIBED, "headers": CODED},
    206: {"description": "one range, or several as multipart/byteranges; or the leading part", "content": _FILE},
    304: {"description": "the client already has it"},
    **responses(
        "not-found",
        "ambiguous",
        "application-message",
        "not-acceptable",
        "not-ready",
        "unreadable",
        "gone",
        "precondition-failed",
        "range-not-satisfiable",
        "invalid",
        "not-representable",
    ),
}


@router.get("", operation_id="list_attachments", responses=responses("invalid", "ambiguous"))
def list_attachments(
    request: Request,
    response: Response,
    gateway: GatewayDep,
    caller: CallerDep,
    base: BaseDep,
    paging: PagingDep,
    state: AttachmentState | None = None,
    kind: KindWord | None = None,
    source: Annotated[str | None, Query(max_length=100)] = None,
    name: Annotated[str | None, Query(max_length=1000, description="part of a name, ignoring case")] = None,
    message: Annotated[
        str | None, Query(max_length=100, description="a message's identifier, or its first digits")
    ] = None,
    received_after: Annotated[Timestamp | None, Query(examples=["2026-11-21T08:00:00Z"])] = None,
    received_before: Annotated[Timestamp | None, Query(examples=["2026-11-22T08:00:00Z"])] = None,
    min_size: Annotated[
        Digits | None, Query(ge=0, lt=1 << 63, description="bytes of finished content, at least")
    ] = None,
    max_size: Annotated[
        Digits | None, Query(ge=0, lt=1 << 63, description="bytes of finished content, at most")
    ] = None,
    announced: Annotated[
        bool,
        Query(
            description="false: what waits for its header instead, which is not known to be an attachment. It may be "
            "parts of one, or the application message of a message"
        ),
    ] = True,
    warned: Annotated[bool | None, Query(description="only those with warnings, or only those without")] = None,
    sort: Annotated[Sort, Query(description="`-` is descending; a cursor belongs to one order")] = NEWEST_FIRST,
    count: Annotated[bool, Query(description="add the header `Total-Count`, the number on all pages")] = False,
) -> PageView[AttachmentView]:
    """List the attachments, including those that are still being received.

    What came before its header is listed with `announced=false` only. When the header tells what it is, the event
    `attachment.identified` does so, too. An application message has no page here then: its old identifier gives the
    problem `application-message` with a link to its message.
    """
    which = AttachmentFilter(
        state=state,
        kind=KINDS[kind] if kind else None,
        source=source,
        name=name,
        message=None if message is None else whole(gateway, "messages", message, caller),
        received_after=to_microseconds(received_after),
        received_before=to_microseconds(received_before),
        within=caller.sources,
        min_size=min_size,
        max_size=max_size,
        announced=announced,
        warned=warned,
    )
    page = gateway.catalog.attachments(which, paging.cursor, paging.limit, sort)
    if count:
        response.headers["Total-Count"] = str(gateway.catalog.count_attachments(which))
    link_next(request, response, page)
    return page_view(page, lambda record: AttachmentView.of(record, base))


@router.get(
    "/{attachment_id}",
    operation_id="get_attachment",
    dependencies=[AttachmentWait],
    responses=responses("not-found", "ambiguous", "application-message", "invalid"),
)
def get_attachment(attachment_id: Identifier, gateway: GatewayDep, caller: CallerDep, base: BaseDep) -> AttachmentView:
    """Return all facts about an attachment; while it is being received, also its missing parts."""
    record = known_attachment(gateway, attachment_id, caller)
    return AttachmentView.of(record, base, _missing(gateway, record))


@router.delete(
    "/{attachment_id}",
    operation_id="delete_attachment",
    status_code=204,
    responses=responses("not-found", "ambiguous", "application-message", "precondition-failed"),
)
def delete_attachment(
    attachment_id: Identifier,
    gateway: GatewayDep,
    caller: CallerDep,
    if_match: Annotated[str | None, Header(description="delete it only if its content has this entity tag")] = None,
) -> None:
    """Delete an attachment and its content."""
    record = known_attachment(gateway, attachment_id, caller)
    if if_match is not None:
        require_match(f'"{record.sha256 or ""}"', if_match, "the content")
    if not gateway.deletion.attachment(record.id):
        raise unknown("attachment", attachment_id)


@router.head(
    "/{attachment_id}/content",
    operation_id="head_attachment_content",
    response_class=Response,
    responses=_CONTENT_RESPONSES,
)
@router.get(
    "/{attachment_id}/content",
    operation_id="get_attachment_content",
    response_class=Response,
    responses=_CONTENT_RESPONSES,
)
async def attachment_content(
    attachment_id: Identifier,
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    options: OptionsDep,
    link: LinkDep = None,
    word: FormatDep = None,
    accept: Annotated[str | None, Header()] = None,
    partial: Annotated[
        bool,
        Query(
            description="while it is received: what its leading parts have, up to the first gap (206, `Missing-Parts`)"
        ),
    ] = False,
    charset: Annotated[
        Literal["utf-8"] | None,
        Query(description="convert a text file to this character set; without it, the file is returned as it was sent"),
    ] = None,
) -> Response:
    """Return the content: a file's bytes, or a data set in the format that `format` or Accept asks for (default:
    Parquet).

    Converted text (CSV, JSON, NDJSON) is compressed as Accept-Encoding asks: `zstd` or `gzip`. Supports If-Match and
    If-None-Match. Stored content (files, and whole data sets as Parquet) also supports Range and
    If-Range; its entity tag is the SHA-256 of the whole. For a converted text file, the header `Undecodable-Bytes` has
    the number of bytes that could not be decoded, and the position of the first one; each such byte becomes U+FFFD.

    With `partial`, an attachment that is not finished is returned as far as its leading parts have it. Of a file this
    is a range of bytes, at most 16 MiB, without a known end (`Content-Range: bytes 0-4095/*`); Range with one range
    chooses another. Of a data set these are its first rows, at most 100,000. The header `Missing-Parts` has the ranges
    of missing sequence numbers; an open range (`7-`) ends them while the number of parts is not known.
    """
    del link  # `authorize` has looked at it

    def answered() -> Response:
        record = (readable_in_part if partial else _finished)(gateway, attachment_id, caller)
        respond = answer if record.state is AttachmentState.FINISHED else answer_in_part
        return respond(request, gateway, record, word, accept, options, charset)

    return await run_in(pools_of(request).downloads, answered)


@router.get(
    "/{attachment_id}/schema",
    operation_id="get_data_set_schema",
    response_model=SchemaView,
    responses={
        200: {"description": "the variables", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **responses(
            "not-found", "ambiguous", "not-ready", "unreadable", "gone", "not-a-data-set", "invalid", "damaged"
        ),
    },
)
async def data_set_schema(
    attachment_id: Identifier,
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    accept: Annotated[str | None, Header()] = None,
) -> Response:
    """Return a data set's variables as PROC CONTENTS lists them: as JSON, or as its printed text (text/plain)."""
    found = await run_in(pools_of(request).downloads, lambda: _contents(gateway, attachment_id, caller))
    if quality(accept, "text/plain") > quality(accept, "application/json"):
        body, media_type = listing(found).encode("utf-8", "replace"), "text/plain; charset=utf-8"
    else:
        body, media_type = describe(found).model_dump_json().encode(), "application/json"
    return Response(body, headers={"Vary": "Accept"}, media_type=media_type)


def _contents(gateway: Gateway, attachment_id: str, caller: Caller) -> DataSetDescription:
    """Return what a data set's file tells of its variables. Raises Problem."""
    record = finished_data_set(gateway, attachment_id, caller)
    try:
        return found_contents(gateway.contents.verified(record))
    except KeyError:
        raise Problem("gone", "the content has been deleted") from None
    except DamagedError as error:
        raise damaged(error) from error


@router.get(
    "/{attachment_id}/profile",
    operation_id="get_data_set_profile",
    response_model=ProfileView,
    responses=responses(
        "not-found",
        "ambiguous",
        "application-message",
        "not-ready",
        "unreadable",
        "gone",
        "not-a-data-set",
        "invalid",
        "conversion-limit",
        "damaged",
        "busy",
    ),
)
async def data_set_profile(
    attachment_id: Identifier,
    request: Request,
    gateway: GatewayDep,
    caller: CallerDep,
    top: Annotated[Digits, Query(ge=0, le=MOST_FREQUENT, description="number of most frequent values")] = TOP,
) -> Response:
    """Return a data set's values, variable by variable: missing and different values, range, mean and frequent values.

    The data set is read once, in bounded memory. Numbers of different values are exact up to about 10,000 of them, then
    estimated.
    """
    record = await run_in_threadpool(finished_data_set, gateway, attachment_id, caller)
    return await profiled(request, gateway, record, top)


def finished_data_set(gateway: Gateway, attachment_id: str, caller: Caller) -> AttachmentRecord:
    """Return the record of a finished data set. Raises Problem."""
    record = _finished(gateway, attachment_id, caller)
    if record.kind is not AttachmentKind.DATA_SET:
        raise Problem("not-a-data-set", "this attachment is a file")
    return record


_NO_CONTENT: Mapping[AttachmentState, tuple[str, str]] = {
    AttachmentState.RECEIVING: ("not-ready", "parts of it are still missing"),
    AttachmentState.COMPLETE: ("not-ready", "all its parts have arrived; its content is being assembled"),
    AttachmentState.QUARANTINED: ("unreadable", "its parts do not match what they announced"),
    AttachmentState.EXPIRED: ("gone", "it expired before it was complete"),
    AttachmentState.DELETED: ("gone", "it was deleted"),
}


def readable_in_part(gateway: Gateway, attachment_id: str, caller: Caller) -> AttachmentRecord:
    """Return an attachment that is finished, or whose leading parts may be read. Raises Problem."""
    record = known_attachment(gateway, attachment_id, caller)
    if record.state in (AttachmentState.FINISHED, AttachmentState.DELETED):
        return _require_finished(gateway, record)
    return record


def _finished(gateway: Gateway, attachment_id: str, caller: Caller) -> AttachmentRecord:
    return _require_finished(gateway, known_attachment(gateway, attachment_id, caller))


def _require_finished(gateway: Gateway, record: AttachmentRecord) -> AttachmentRecord:
    """Return the record of a finished attachment. Raises Problem."""
    if record.state is AttachmentState.FINISHED:
        return record
    word, why = _NO_CONTENT[record.state]
    reason = reason_of(record)
    raise Problem(
        word,
        why,
        state=record.state,
        progress=Progress.of(record, _missing(gateway, record)).model_dump(mode="json"),
        reason=reason.model_dump() if reason else None,
    )


def _missing(gateway: Gateway, record: AttachmentRecord) -> list[tuple[int, int]] | None:
    if record.state is not AttachmentState.RECEIVING:
        return None
    return missing_ranges(record, gateway.catalog, gateway.journal, MISSING_SHOWN)
