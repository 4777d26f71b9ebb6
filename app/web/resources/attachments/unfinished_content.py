"""Responses with the content of an attachment that is not finished, as far as its leading parts have it."""

from collections.abc import Iterator
from hashlib import sha256

from fastapi import Request, Response

from app.model.attachment import AttachmentKind
from app.model.records import AttachmentRecord
from app.model.times import to_time
from app.service.conversion import Slot
from app.service.conversion.conversion_jobs import write_rows
from app.service.finishing.partial_content import MOST_BYTES, Missing, NothingYet, leading_bytes, leading_rows
from app.service.gateway import Gateway
from app.tables.write import OptionError, OutputOptions, TableFormat
from app.web.http.byte_ranges import ByteRange, parse_ranges
from app.web.http.disposition import file_name
from app.web.http.negotiation import chosen_format
from app.web.problems import Problem
from app.web.responses.content_response import ContentRepresentation, Piece, converted_response

MOST_ROWS = 100_000
MISSING_HEADER = "Missing-Parts"
_ENDLESS = 1 << 62


def leading_part(
    request: Request,
    gateway: Gateway,
    record: AttachmentRecord,
    word: str | None,
    accept: str | None,
    options: OutputOptions,
) -> Response:
    """Answer GET or HEAD of an attachment that is not finished: with its first rows, or with bytes. Raises Problem and
    OptionError."""
    try:
        if record.kind is AttachmentKind.DATA_SET:
            return _rows(request, gateway, record, chosen_format(word, accept), options)
        for name in options.given():
            raise OptionError(name, "a file is sent as stored")
        return _bytes(request, gateway, record)
    except NothingYet as reason:
        raise Problem("not-ready", str(reason), state=record.state) from None
    except KeyError:
        raise Problem("gone", "the journal no longer has its parts") from None


def _bytes(request: Request, gateway: Gateway, record: AttachmentRecord) -> Response:
    """Answer with the range that is asked for, of the bytes that are there. Several ranges are all bytes."""
    ranges = parse_ranges(request.headers["range"], _ENDLESS) if "range" in request.headers else None
    asked = ByteRange(0, _ENDLESS - 1)
    if ranges and len(ranges) == 1 and ranges[0].first <= _ENDLESS // 2:
        asked = ranges[0]
    found = leading_bytes(record, gateway.context, asked.first, min(asked.size, MOST_BYTES))
    if not found.data and asked.first:
        why = f"the parts received so far have no byte {asked.first}"
        raise Problem("range-not-satisfiable", why)  # Content-Range would need the length of the whole content
    if not found.data:
        raise NothingYet("the parts received so far have no content")
    what = _representation(record, found.content_type, file_name(record))
    about = what.headers() | {
        "Content-Type": what.media_type,
        "Accept-Ranges": "bytes",
        "Content-Range": f"bytes {asked.first}-{asked.first + len(found.data) - 1}/*",
        MISSING_HEADER: _spoken(found.missing),
    }
    response = Response(found.data, 206, about)
    if request.method == "HEAD":
        response.body = b""
    return response


def _rows(
    request: Request, gateway: Gateway, record: AttachmentRecord, known: TableFormat, options: OutputOptions
) -> Response:
    chosen = known.settled(options)
    wanted = MOST_ROWS if chosen.limit is None else min(MOST_ROWS, (chosen.offset or 0) + chosen.limit)
    found = leading_rows(record, gateway.context, wanted)
    made_of = (known.name, *chosen.given().items())
    what = _representation(record, known.content_type, file_name(record, known.extension), *made_of)

    def make(slot: Slot) -> Iterator[Piece]:
        yield from slot.run(write_rows, found.table, known.name, chosen, what.modified, request.method != "HEAD")

    response = converted_response(request, make, what)
    response.headers["Vary"] = "Accept"
    response.headers[MISSING_HEADER] = _spoken(found.missing)
    return response


def _representation(record: AttachmentRecord, content_type: str, name: str, *made_of: object) -> ContentRepresentation:
    """Return the header fields of content that grows with every part."""
    state = (record.id, record.last_position, record.parts_received, record.bytes_received, *made_of)
    return ContentRepresentation(
        tag=sha256(repr(state).encode()).hexdigest(),
        content_type=content_type,
        file_name=name,
        modified=to_time(record.last_received_at).replace(microsecond=0),
    )


def _spoken(missing: Missing) -> str:
    """Return the value of the header `Missing-Parts`; empty if nothing is missing."""
    ranges = [f"{first}-{last}" for first, last in missing.ranges]
    return ", ".join(ranges if missing.onwards is None else [*ranges, f"{missing.onwards}-"])
