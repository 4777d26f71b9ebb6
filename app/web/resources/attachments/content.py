"""The content of an attachment: which response a request gets, and the response as stored or converted."""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal, NamedTuple

import pyarrow as pa
from fastapi import Header, Query, Request, Response
from fastapi.routing import APIRoute

from app.codecs.charset_text import TextDecoder
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.errors import NotArchived
from app.model.records import AttachmentRecord
from app.model.times import to_time
from app.service.content.content_damage import WatchedContent
from app.service.content.message_labels import catalogs_of
from app.service.content.stored_content import Content
from app.service.conversion import Slot
from app.service.conversion.conversion_jobs import write_data_set
from app.service.finishing.media_types import text_codec
from app.service.finishing.stored_parts import missing_ranges
from app.service.gateway import Gateway
from app.tables.write import FORMATS, OptionError, OutputOptions
from app.web.dependencies.caller import Caller, CallerDep, LinkDep, authorize, bearer, resource_router
from app.web.dependencies.known_resources import Identifier, known_attachment
from app.web.dependencies.request_gateway import GatewayDep
from app.web.http.disposition import file_name
from app.web.http.negotiation import CODED, DESCRIBED, FormatDep, OptionsDep, chosen_format
from app.web.problems import Problem, responses
from app.web.resources.attachments.schemas import Progress, reason_of
from app.web.resources.attachments.unfinished_content import leading_part
from app.web.responses.content_response import ContentRepresentation, Piece, converted_response, stored_response
from app.web.server.thread_pools import pools_of, run_in

MISSING_SHOWN: Final = 100
"""Maximum number of missing ranges in a response."""
UNDECODABLE_HEADER: Final = "Undecodable-Bytes"
_UTF_8: Final = "text/plain; charset=utf-8"
_STORED: Final = FORMATS["parquet"]
"""The format in which data sets are stored."""
_MADE_BY: Final = (version("attachment-gateway"), pa.__version__)


class _DownloadRoute(APIRoute):
    """A route of downloads. For a request without a query, FastAPI need not look for any of the parameters, which takes
    a third of the processor time of a small file. Who calls is checked in the same way (`resource_router`)."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        with_parameters = super().get_route_handler()

        async def handle(request: Request) -> Response:
            if request.scope["query_string"]:
                return await with_parameters(request)
            gateway: Gateway = request.app.state.gateway
            caller = await authorize(request, gateway, await bearer(request))
            accept = request.headers.get("accept")
            identifier = request.path_params["attachment_id"]
            return await attachment_content(identifier, request, gateway, caller, OutputOptions(), accept=accept)

        return handle


router = resource_router(prefix="/attachments", tags=["attachments"], route_class=_DownloadRoute)

_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_FILE = dict.fromkeys(("application/octet-stream", "text/plain"), _BINARY)
_CONTENT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "the content", "content": _FILE | DESCRIBED, "headers": CODED},
    206: {
        "description": "one range, or several as multipart/byteranges; or the leading part of a file",
        "content": _FILE | {"multipart/byteranges": _BINARY},
    },
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
        "not-representable",
    ),
}


class _Asked(NamedTuple):
    """A request for content. `word` is the value of `?format=`. `charset` is UTF-8 to convert a text file, or None."""

    request: Request
    gateway: Gateway
    word: str | None
    accept: str | None
    options: OutputOptions
    charset: str | None


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
            description="of an unfinished attachment, return the content of its leading parts, up to the first gap, "
            "with `Missing-Parts`: of a file with 206, of a data set with 200"
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
    the number of bytes that could not be decoded, and the position of the first one; U+FFFD is in place of such bytes.

    With `partial`, the leading parts of an attachment that is not finished are returned, up to the first gap. Of a file
    this is a range of bytes, at most 16 MiB, without a known end (`Content-Range: bytes 0-4095/*`); Range with one
    range chooses another. Of a data set these are its first rows, at most 100,000. The header `Missing-Parts` has the
    ranges of missing sequence numbers; an open range (`7-`) ends them while the number of parts is not known, or while
    another process of the gateway has not archived what follows. 503 with Retry-After means that nothing of what is
    asked for is archived yet.
    """
    del link  # `authorize` has looked at it

    asked = _Asked(request, gateway, word, accept, options, charset)
    find = readable_in_part if partial else _finished
    return await run_in(pools_of(request).downloads, lambda: _respond(asked, find(gateway, attachment_id, caller)))


def _respond(asked: _Asked, record: AttachmentRecord) -> Response:
    """Answer GET or HEAD of an attachment's content. Blocks while the first piece is read. Raises Problem and
    OptionError."""
    request, gateway, charset, options = asked.request, asked.gateway, asked.charset, asked.options
    if record.state is not AttachmentState.FINISHED:
        if charset is not None:
            raise OptionError("charset", "only finished files are converted")
        return leading_part(request, gateway, record, asked.word, asked.accept, options)
    try:
        content = gateway.contents.open(record)
        if charset is None and record.kind is AttachmentKind.DATA_SET:
            return _data_set(asked, record, content)
        if charset is not None and record.kind is not AttachmentKind.TEXT_FILE:
            raise OptionError("charset", "only text files are converted")
        if asked.word is not None:
            raise Problem("not-acceptable", "a file is sent as stored; it has no other format", available=[])
        for name in options.given():
            raise OptionError(name, "a file is sent as stored")
        if charset is not None:
            return _text_in_utf_8(request, record, content)
        return stored_response(request, content, _stored(record))
    except KeyError:
        raise Problem("gone", "the content has been deleted") from None


def _data_set(asked: _Asked, record: AttachmentRecord, content: WatchedContent) -> Response:
    """Answer with a data set in a format: as stored, or converted while it is sent.

    Converted bytes depend on the versions of this program and of Arrow, and on the catalogs of the value labels, so the
    entity tag includes them.
    """
    request, gateway = asked.request, asked.gateway
    known = chosen_format(asked.word, asked.accept)
    chosen = known.settled(asked.options)
    catalogs = list(catalogs_of(record, gateway.catalog)) if chosen.labels else []

    def make(slot: Slot) -> Iterator[Piece]:
        with_rows = request.method != "HEAD"
        whole = gateway.contents.for_conversion(record)
        given = [(each.kind, gateway.contents.for_conversion(each)) for each in catalogs]
        yield from slot.run(write_data_set, whole, known.name, chosen, _finished_at(record), with_rows, given)

    if known is _STORED and chosen == _STORED.settled(OutputOptions()):
        response = stored_response(request, content, _stored(record))
    else:
        made_of = (record.sha256, *(each.sha256 for each in catalogs), known.name, *chosen.given().items(), *_MADE_BY)
        tag = sha256(repr(made_of).encode()).hexdigest()
        name = file_name(record, known.extension)
        response = converted_response(
            request, make, ContentRepresentation(tag, known.content_type, name, _finished_at(record))
        )
    response.headers.add_vary_header("Accept")
    return response


def _text_in_utf_8(request: Request, record: AttachmentRecord, content: Content) -> Response:
    """Answer with a text file's text in UTF-8.

    The text is read twice. The first time, the undecodable bytes are counted for the header `Undecodable-Bytes`, which
    is sent before the text (`3; first=17`: three bytes, the first one at byte 17 of the stored content). U+FFFD is in
    place of such bytes, once for those of one broken character. Raises Problem for an unknown character set.
    """
    codec = text_codec(record.content_type)
    if codec is None:
        why = "the character set of this text file is unknown; set `ccsid` of its source, or fetch it without `charset`"
        raise Problem("not-representable", why, misfits=[])

    def make(slot: Slot) -> Iterator[Piece]:
        checked = TextDecoder(codec)
        for _ in checked.decode(content.read(0, content.size)):
            slot.check()
        if checked.first is not None:
            response.headers[UNDECODABLE_HEADER] = f"{checked.undecodable}; first={checked.first}"
        if request.method != "HEAD":
            yield from (text.encode() for text in TextDecoder(codec).decode(content.read(0, content.size)) if text)

    tag = sha256(f"{record.sha256} {_UTF_8}".encode()).hexdigest()
    response = converted_response(
        request, make, ContentRepresentation(tag, _UTF_8, file_name(record), _finished_at(record))
    )
    return response


def _stored(record: AttachmentRecord) -> ContentRepresentation:
    """Return the header fields of content as stored."""
    assert record.sha256 is not None
    return ContentRepresentation(
        record.sha256, record.content_type, file_name(record), _finished_at(record), record.sha256
    )


def _finished_at(record: AttachmentRecord) -> datetime:
    assert record.finished_at is not None
    return to_time(record.finished_at).replace(microsecond=0)


def finished_data_set(gateway: Gateway, attachment_id: str, caller: Caller) -> AttachmentRecord:
    """Return the record of a finished data set. Raises Problem."""
    record = _finished(gateway, attachment_id, caller)
    if record.kind is not AttachmentKind.DATA_SET:
        raise Problem("not-a-data-set", "this attachment is a file")
    return record


_NO_CONTENT: Mapping[AttachmentState, tuple[str, str]] = {
    AttachmentState.RECEIVING: ("not-ready", "parts of it are still missing"),
    AttachmentState.COMPLETE: ("not-ready", "all its parts have arrived; its content is being assembled"),
    AttachmentState.QUARANTINED: ("unreadable", "its parts contradict what the sender announced"),
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
        progress=Progress.of(record, missing_parts(gateway, record)).model_dump(mode="json"),
        reason=reason.model_dump() if reason else None,
    )


def missing_parts(gateway: Gateway, record: AttachmentRecord) -> list[tuple[int, int]] | None:
    """Return the ranges of missing sequence numbers; None for an attachment that is not being received, and for a group
    of which this process cannot read all messages yet."""
    if record.state is not AttachmentState.RECEIVING:
        return None
    with suppress(NotArchived):
        return missing_ranges(record, gateway.catalog, gateway.journal, MISSING_SHOWN)
    return None
