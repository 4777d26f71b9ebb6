"""Conversion of text files from any character set to UTF-8."""

from collections.abc import Iterator
from hashlib import sha256

from fastapi import Request, Response

from app.codecs.charset_text import TextDecoder
from app.model.attachment import AttachmentKind
from app.model.records import AttachmentRecord
from app.service.content.stored_content import Content
from app.service.conversion import Slot
from app.service.finishing.media_types import text_codec
from app.tables.write import OptionError
from app.web.problems import Problem
from app.web.responses.content_response import ContentRepresentation, Piece, respond_made

UNDECODABLE_HEADER = "Undecodable-Bytes"
_UTF_8 = "text/plain; charset=utf-8"


def answer_in_utf_8(
    request: Request, record: AttachmentRecord, content: Content, what: ContentRepresentation
) -> Response:
    """Answer GET or HEAD of a text file with its text in UTF-8.

    The text is read twice. The first time, the undecodable bytes are counted for the header `Undecodable-Bytes`, which
    is sent before the text (`3; first=17`: three bytes, the first one at byte 17 of the stored content). Each such byte
    becomes U+FFFD. `what` describes the stored content. Raises OptionError for a file that is not a text file, and
    Problem for one whose character set is unknown.
    """
    if record.kind is not AttachmentKind.TEXT_FILE:
        raise OptionError("charset", "only text files are converted")
    codec = text_codec(record.content_type)
    if codec is None:
        why = "the character set of this text file is unknown; set `ccsid` of its source, or fetch it without `charset`"
        raise Problem("not-representable", why, misfits=[])
    with_text = request.method != "HEAD"

    def make(slot: Slot) -> Iterator[Piece]:
        checked = TextDecoder(codec)
        for _ in checked.decode(content.read(0, content.size)):
            slot.check()
        if checked.first is not None:
            response.headers[UNDECODABLE_HEADER] = f"{checked.undecodable}; first={checked.first}"
        if with_text:
            yield from (text.encode() for text in TextDecoder(codec).decode(content.read(0, content.size)) if text)

    tag = sha256(f"{record.sha256} {_UTF_8}".encode()).hexdigest()
    response = respond_made(request, make, ContentRepresentation(tag, _UTF_8, what.file_name, what.modified))
    return response
