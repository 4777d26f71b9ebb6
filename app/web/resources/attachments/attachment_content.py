"""Responses with an attachment's content: as stored, or a data set in another format."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from importlib.metadata import version

import pyarrow as pa
from fastapi import Request, Response

from app.model.attachment import AttachmentKind
from app.model.errors import DamagedError
from app.model.records import AttachmentRecord
from app.model.times import to_time
from app.service.content.message_labels import catalogs_of
from app.service.content.stored_content import Content
from app.service.conversion import Slot
from app.service.conversion.conversion_jobs import write_data_set
from app.service.gateway import Gateway
from app.tables.write import FORMATS, OptionError, OutputOptions, TableFormat
from app.web.http.download_names import file_name
from app.web.http.negotiation import chosen_format, invalid
from app.web.problems import Problem, damaged
from app.web.resources.attachments.text_content import answer_in_utf_8
from app.web.responses.content_response import Piece, Representation, respond, respond_made

_STORED = FORMATS["parquet"]
"""The format in which data sets are stored."""

_MADE_BY = (version("attachment-gateway"), pa.__version__)


def answer(
    request: Request,
    gateway: Gateway,
    record: AttachmentRecord,
    word: str | None,
    accept: str | None,
    options: OutputOptions,
    charset: str | None = None,
) -> Response:
    """Answer GET or HEAD of a finished attachment's content.

    `word` is the value of `?format=`. `charset` is UTF-8 to convert a text file, or None for content as stored. Raises
    Problem.
    """
    with _gone_if_missing():
        content = gateway.contents.open(record)
    try:
        if charset is None and record.kind is AttachmentKind.DATA_SET:
            response = _data_set(request, gateway, record, content, chosen_format(word, accept), options)
            response.headers.add_vary_header("Accept")
            return response
        _refuse_choice(word, options)
        if charset is not None:
            return answer_in_utf_8(request, record, content, _representation(record))
        return _stored(request, record, content)
    except OptionError as error:
        raise invalid(error) from None


@contextmanager
def _gone_if_missing() -> Iterator[None]:
    """Raise Problem for content that was deleted in the meantime, or is damaged."""
    try:
        yield
    except KeyError:
        raise Problem("gone", "the content has been deleted") from None
    except DamagedError as error:
        raise damaged(error) from error


def _stored(request: Request, record: AttachmentRecord, content: Content) -> Response:
    with _gone_if_missing():
        return respond(request.headers, request.method, content, _representation(record))


def _data_set(
    request: Request,
    gateway: Gateway,
    record: AttachmentRecord,
    content: Content,
    known: TableFormat,
    options: OutputOptions,
) -> Response:
    """Answer with a data set in a format: as stored, or converted while it is sent."""
    chosen = known.settled(options)
    if known is _STORED and chosen == _STORED.settled(OutputOptions()):
        return _stored(request, record, content)

    catalogs = list(catalogs_of(record, gateway.catalog)) if chosen.labels else []

    def make(slot: Slot) -> Iterator[Piece]:
        with_rows = request.method != "HEAD"
        whole = gateway.contents.for_conversion(record)
        given = [(each.kind, gateway.contents.for_conversion(each)) for each in catalogs]
        yield from slot.run(write_data_set, whole, known.name, chosen, _finished_at(record), with_rows, given)

    return respond_made(request, make, _made(record, known, chosen, catalogs))


def _refuse_choice(word: str | None, options: OutputOptions) -> None:
    if word is not None:
        raise Problem("not-acceptable", "a file is sent as stored; it has no other format", available=[])
    for name in options.given():
        raise OptionError(name, "a file is sent as stored")


def _representation(record: AttachmentRecord) -> Representation:
    """Return the header fields of content as stored."""
    assert record.sha256 is not None
    return Representation(
        tag=record.sha256,
        content_type=record.content_type,
        file_name=file_name(record),
        modified=_finished_at(record),
        sha256=record.sha256,
    )


def _made(
    record: AttachmentRecord, known: TableFormat, options: OutputOptions, catalogs: Sequence[AttachmentRecord]
) -> Representation:
    """Return the header fields of a data set in another format.

    Its bytes depend on the versions of this program and of Arrow, and on the catalogs of its value labels, so its
    entity tag includes them.
    """
    made_of = (record.sha256, *(each.sha256 for each in catalogs), known.name, *options.given().items(), *_MADE_BY)
    return Representation(
        tag=sha256(repr(made_of).encode()).hexdigest(),
        content_type=known.content_type,
        file_name=file_name(record, known.extension),
        modified=_finished_at(record),
    )


def _finished_at(record: AttachmentRecord) -> datetime:
    assert record.finished_at is not None
    return to_time(record.finished_at).replace(microsecond=0)
