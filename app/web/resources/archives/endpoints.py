"""All attachments of a message in one download, a zip file."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from app.model.attachment import AttachmentState
from app.model.errors import DamagedError
from app.model.records import AttachmentRecord, MessageRecord
from app.model.times import to_time
from app.service.content.stored_content import MAY_WAIT
from app.service.gateway import Gateway
from app.web.dependencies.caller import Caller, CallerDep
from app.web.dependencies.identifiers import Identifier, known_message
from app.web.dependencies.request_gateway import GatewayDep
from app.web.http.download_names import content_disposition, file_name
from app.web.problems import Problem, damaged, responses
from app.web.resources.archives.archive_writer import ArchiveMember, unique_names, zip_pieces
from app.web.responses.content_response import ContentResponse
from app.web.server.thread_pools import pools_of, run_in

router = APIRouter(prefix="/messages", tags=["messages"])

_ZIP = "application/zip"
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "the archive",
        # The first is what generators of clients know; the other is what is sent.
        "content": dict.fromkeys(("application/octet-stream", _ZIP), _BINARY),
    },
    **responses("not-found", "ambiguous", "not-ready", "gone", "invalid", "damaged"),
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
    try:
        headers = {
            "Content-Type": _ZIP,
            "Content-Disposition": content_disposition(f"{message.id}.zip"),
            "Cache-Control": "private, no-cache",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
        }
        return ContentResponse(200, headers, [zip_pieces(_members(gateway, records))], None)
    except KeyError:
        raise Problem("gone", "the content of an attachment has been deleted") from None
    except DamagedError as error:
        raise damaged(error) from error


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


def _members(gateway: Gateway, records: list[AttachmentRecord]) -> Iterator[ArchiveMember]:
    for record, name in zip(records, unique_names(map(file_name, records)), strict=True):
        yield ArchiveMember(name, record.size or 0, to_time(record.finished_at or 0), partial(_read, gateway, record))


def _read(gateway: Gateway, record: AttachmentRecord) -> Iterator[memoryview]:
    """Yield the content, which is opened only when its turn comes."""
    yield MAY_WAIT
    content = gateway.contents.open(record)
    yield from content.read(0, content.size)
