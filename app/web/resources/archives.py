"""All attachments of a message in one download: a zip file, written piece by piece, in constant memory."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from fastapi import Request, Response

from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord, MessageRecord
from app.model.times import to_time
from app.service.content.archived import require_archived
from app.service.content.stored_content import MAY_WAIT
from app.service.context import ArchiveContext
from app.service.gateway import Gateway
from app.tables.write.output_pieces import OutputPieces
from app.web.dependencies.caller import Caller, CallerDep, resource_router
from app.web.dependencies.known_resources import Identifier, known_message
from app.web.dependencies.request_gateway import GatewayDep
from app.web.http.disposition import content_disposition, file_name
from app.web.problems import Problem, responses
from app.web.responses.content_response import ContentResponse
from app.web.server.thread_pools import pools_of, run_in

LEVEL: Final = 1
"""Of Deflate: a download must not cost more processor time than it saves of the network."""
_EARLIEST_ZIP: Final = datetime(1980, 1, 1, tzinfo=UTC)
_READABLE: Final = 0o100644


class ArchiveMember(NamedTuple):
    """A file in an archive: its name, size and time, and the function that reads its content."""

    name: str
    size: int
    modified: datetime
    read: Callable[[], Iterator[memoryview]]


def zip_pieces(members: Iterable[ArchiveMember]) -> Iterator[bytes | memoryview]:
    """Yield a zip file (zip64 where it is needed)."""
    sink = OutputPieces()
    with ZipFile(sink, "w", ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for member in members:
            about = ZipInfo(member.name, max(member.modified, _EARLIEST_ZIP).timetuple()[:6])
            about.compress_type, about.external_attr, about.file_size = ZIP_DEFLATED, _READABLE << 16, member.size
            with archive.open(about, "w", force_zip64=member.size >= 1 << 31) as file:
                for piece in member.read():
                    file.write(piece)
                    yield from sink.taken()
            yield from sink.taken()
    yield from sink.rest()


def unique_names(names: Iterable[str]) -> Iterator[str]:
    """Yield the names, with a number in each repeated name, ignoring case: `a.txt`, `a (2).txt`."""
    seen: set[str] = set()
    counts: dict[str, int] = {}
    for name in names:
        chosen, folded = name, name.casefold()
        while chosen.casefold() in seen:
            counts[folded] = counts.get(folded, 1) + 1
            stem, dot, extension = name.rpartition(".")
            numbered = f"{stem or name} ({counts[folded]})"
            chosen = numbered + dot + extension if stem else numbered
        seen.add(chosen.casefold())
        yield chosen


router = resource_router(prefix="/messages", tags=["messages"])

_ZIP = "application/zip"
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "the archive",
        # The first is what generators of clients know; the other is what is sent.
        "content": dict.fromkeys(("application/octet-stream", _ZIP), _BINARY),
    },
    **responses("not-found", "ambiguous", "not-ready", "gone", "damaged"),
}
_GONE = (AttachmentState.DELETED, AttachmentState.EXPIRED)


@router.head(
    "/{message_id}/content", operation_id="head_message_content", response_class=Response, responses=_RESPONSES
)
@router.get("/{message_id}/content", operation_id="get_message_content", response_class=Response, responses=_RESPONSES)
async def message_content(message_id: Identifier, request: Request, gateway: GatewayDep, caller: CallerDep) -> Response:
    """Return all attachments of a message in one zip file: files as they were sent, data sets as Parquet.

    All of them must be finished. Names are made safe as for single downloads; equal ones get a number.
    """
    return await run_in(pools_of(request).downloads, lambda: _archive(gateway, message_id, caller))


def _archive(gateway: Gateway, message_id: str, caller: Caller) -> Response:
    """Return the response with the archive, whose first piece is made. Raises Problem."""
    message = known_message(gateway, message_id, caller)
    records = _finished(gateway, message, caller)
    headers = {
        "Content-Type": _ZIP,
        "Content-Disposition": content_disposition(f"{message.id}.zip"),
        "Cache-Control": "private, no-cache",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
    }
    named = zip(records, unique_names(map(file_name, records)), strict=True)
    members = (
        ArchiveMember(name, record.size or 0, to_time(record.finished_at or 0), partial(_read, gateway, record))
        for record, name in named
    )
    try:
        if isinstance(gateway.context, ArchiveContext):  # not when the first members have been sent
            extents = gateway.catalog.extents_of([record.id for record in records if record.storage == "journal"])
            require_archived(chain.from_iterable(extents.values()), gateway.context)
        return ContentResponse(200, headers, [zip_pieces(members)], None)
    except KeyError:
        raise Problem("gone", "the content of an attachment has been deleted") from None


def _finished(gateway: Gateway, message: MessageRecord, caller: Caller) -> list[AttachmentRecord]:
    """Return the attachments of a message in its order. Raises Problem unless all are finished."""
    found = gateway.catalog.attachments_by_id(message.attachments)
    known = {record.id: record for record in found if caller.principal.knows_source(record.source)}
    states = {each: known[each].state if each in known else None for each in message.attachments}
    unfinished = {each: state for each, state in states.items() if state is not AttachmentState.FINISHED}
    if not unfinished:
        return [known[each] for each in message.attachments]
    gone = [each for each, state in unfinished.items() if state in _GONE]
    word = "gone" if gone else "not-ready"
    detail = f"{len(gone or unfinished)} of {len(states)} attachments are {'gone' if gone else 'not finished'}"
    raise Problem(word, detail, attachments=unfinished)


def _read(gateway: Gateway, record: AttachmentRecord) -> Iterator[memoryview]:
    """Yield the content, which is opened only when it is written."""
    yield MAY_WAIT
    content = gateway.contents.open(record)
    yield from content.read(0, content.size)
