"""Explain descriptors and headers of IBM MQ, and the message after them by their values."""

from collections.abc import Iterable

from app.codecs.ibm_mq.constants import MQFMT_MD_EXTENSION
from app.codecs.ibm_mq.encodings import EBCDIC
from app.codecs.ibm_mq.extension import grouping_in
from app.codecs.ibm_mq.header_chain import Data, HeaderLink, peel
from app.codecs.ibm_mq.headers import MQRFH2
from app.codecs.ibm_mq.image import descriptor_context, read_image
from app.codecs.ibm_mq.unwrap import properties
from app.codecs.sas import correlid
from app.codecs.sas.attachment_messages import read_counts
from app.codecs.sas.constants import HEADER_MSG_TYPE, SUBORDINATE_MSG_TYPE
from app.model.message import PhysicalMessage
from app.trace import rendezvous, sas
from app.trace.frames import Formats, Frame, Hints, NotRecognised, first_that_fits, moved, raw
from app.wire import Cell, WireError


def _only(names: Iterable[str]) -> Formats:
    return {name: sas.FORMATS[name] for name in names}


_HEADER = _only(["sas-attachment-header"])
_COUNT = _only(["sas-count"])
_FIRST_PARTS = _only(["sas-file-description", "sas-data-set-definition"])
_OTHER_PARTS = _only(["sas-variables", "sas-indexes", "sas-file-records", "sas-observations", "sas-constraints"])


def descriptor(data: memoryview, _: Hints) -> list[Frame]:
    """Explain an MQMD of version 1 or 2, the headers after it, and the body."""
    layout, context = descriptor_context(data)
    own, end = layout.decode(data, 0, context)
    message = read_image(data, "", "")
    body_at = len(data) - len(message.body)
    links, _data = peel(
        data, Data(own.format, own.encoding, own.coded_char_set_id, end, grouping_in(own), own.msg_type)
    )
    frames = [_frame(data, link) for link in [HeaderLink(own, 0, end, context, 0), *links]]
    return frames + moved(body(message), body_at)


def body(message: PhysicalMessage) -> list[Frame]:
    """Explain the body of a message by the values of its descriptor."""
    if carried := rendezvous.payload(message.body):
        return carried
    # A subordinate message without a sequence number is a count or an application message. Only the attachment header
    # could decide, so a body that can be a count counts as one.
    is_part = message.msg_type == SUBORDINATE_MSG_TYPE and (
        correlid.split(message.correl_id)[1] or read_counts(message.body)
    )
    if is_part or message.msg_type == HEADER_MSG_TYPE:
        return _parts(message)
    text, charset = memoryview(message.body), Hints(message.encoding, message.ccsid).charset
    if charset is None:
        return [raw(text, "application message")]
    try:
        return [Frame("application-message", 0, [Cell(0, len(text), "text", str(text, charset))], charset)]
    except UnicodeDecodeError as error:
        return [raw(text, f"application message; byte {error.start} is not {charset}")]


def extension(data: memoryview, _: Hints) -> list[Frame]:
    """Explain an MQMDE without an MQMD, and the data after it."""
    links, behind = peel(data, Data(MQFMT_MD_EXTENSION, 0, 0))
    if not links:
        raise WireError("MQMDE.struc_id", 0, "expected the structure identifier MDE and version 2")
    frames = [_frame(data, link) for link in links]
    if behind.at == len(data):
        return frames
    try:
        rest = first_that_fits(data[behind.at :], sas.FORMATS, Hints(behind.encoding, behind.ccsid))
    except NotRecognised:
        rest = [raw(data[behind.at :])]
    return [*frames, *moved(rest, behind.at)]


def _frame(data: memoryview, link: HeaderLink) -> Frame:
    """Return the frame of a header. Data after its rows is one cell: names and values where the header has them."""
    header = link.header
    cells = list(type(header).cells(data, link.at, link.context))
    if size := link.end - link.at - header.SIZE:
        at = link.end - size
        held: object = properties(data, link) or bytes(data[at : link.end])
        cells.append(Cell(at, size, f"{type(header).__name__}.rest", held))
    name = "mqrfh2" if isinstance(header, MQRFH2) else f"mq{header.struc_id.lower()}"
    order = "big" if link.context.order == ">" else "little"
    return Frame(name, link.at, cells, f"{order}-endian, {'EBCDIC' if link.context.charset == EBCDIC else 'ASCII'}")


def _parts(message: PhysicalMessage) -> list[Frame]:
    body, hints = memoryview(message.body), Hints(message.encoding, message.ccsid)
    try:
        sequence = correlid.split(message.correl_id)[1]
        of_part = {0: _COUNT, 1: _FIRST_PARTS}.get(sequence, _OTHER_PARTS)
        return first_that_fits(body, _HEADER if message.msg_type == HEADER_MSG_TYPE else of_part, hints)
    except NotRecognised as refused:
        first = refused.tried[0]
        where = f"at byte {first.at} of the body, {first.why}"
        if cells := sas.beginning(first.format, body, hints):
            return [Frame(first.format, 0, cells, f"incomplete: {where}")]
        return [raw(body, f"not {first.format}: {where}")]
