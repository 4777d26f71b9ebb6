"""Explains descriptors and their extensions, and by what these say, the message behind them."""

from collections.abc import Iterable
from itertools import product

from app.codecs.ibm_mq.chain import ASCII, EBCDIC
from app.codecs.ibm_mq.headers import MQMDE
from app.codecs.ibm_mq.image import descriptor_context, read_image
from app.codecs.sas import correlid
from app.codecs.sas.attachment import read_counts
from app.codecs.sas.words import HEADER_MSG_TYPE, SUBORDINATE_MSG_TYPE
from app.model.message import PhysicalMessage
from app.trace import sas
from app.trace.frames import Formats, Frame, NotRecognised, Said, first_that_fits, moved, raw
from app.wire import Cell, Context, WireError
from app.wire.kinds import Order

_ORDERS: tuple[Order, ...] = (">", "<")


def _only(names: Iterable[str]) -> Formats:
    return {name: sas.FORMATS[name] for name in names}


_HEADER = _only(["sas-attachment-header"])
_COUNT = _only(["sas-count"])
_FIRST_PARTS = _only(["sas-file-description", "sas-data-set-definition"])
_OTHER_PARTS = _only(["sas-variables", "sas-indexes", "sas-file-records", "sas-observations", "sas-constraints"])


def descriptor(data: memoryview, _: Said) -> list[Frame]:
    """An MQMD of version 1 or 2, the MQMDEs behind it, and the body."""
    layout, context = descriptor_context(data)
    frames = [Frame("mqmd", 0, list(layout.cells(data, 0, context)), _written(context))]
    message = read_image(data, "", "")
    body_at = len(data) - len(message.body)
    frames += [_extension_at(data, at) for at in range(layout.SIZE, body_at, MQMDE.SIZE)]
    return frames + moved([_application(message)] if _is_application(message) else _parts(message), body_at)


def extension(data: memoryview, _: Said) -> list[Frame]:
    """An MQMDE that stands alone, and what is behind it."""
    frame = _extension_at(data, 0)
    header, end = MQMDE.decode(data, 0, _extension_context(data, 0))
    if end == len(data):
        return [frame]
    try:
        rest = first_that_fits(data[end:], sas.FORMATS, Said(header.encoding, header.coded_char_set_id))
    except NotRecognised:
        rest = [raw(data[end:])]
    return [frame, *moved(rest, end)]


def _extension_at(data: memoryview, at: int) -> Frame:
    context = _extension_context(data, at)
    return Frame("mqmde", at, list(MQMDE.cells(data, at, context)), _written(context))


def _extension_context(data: memoryview, at: int) -> Context:
    """How an MQMDE is written, by its first eight bytes."""
    for charset, order in product((ASCII, EBCDIC), _ORDERS):
        context = Context(order, charset)
        if data[at : at + 8] == MQMDE().encode(context)[:8]:
            return context
    raise WireError("MQMDE.struc_id", at, "no structure identifier MDE of version 2")


def _written(context: Context) -> str:
    return f"{'big' if context.order == '>' else 'little'}-endian, {'EBCDIC' if context.charset == EBCDIC else 'ASCII'}"


def _is_application(message: PhysicalMessage) -> bool:
    """Whether a body is the application's own. A subordinate message without a sequence number is a count or an
    application message; only the attachment header would tell, so what can be a count is taken for one."""
    if message.msg_type == HEADER_MSG_TYPE:
        return False
    is_part = message.msg_type == SUBORDINATE_MSG_TYPE
    return not (is_part and (correlid.split(message.correl_id)[1] or read_counts(message.body)))


def _parts(message: PhysicalMessage) -> list[Frame]:
    body, said = memoryview(message.body), Said(message.encoding, message.ccsid)
    try:
        return first_that_fits(body, _formats(message), said)
    except NotRecognised as refused:
        first = refused.tried[0]
        return [raw(body, f"not {first.format}: at byte {first.at} of the body, {first.why}")]


def _formats(message: PhysicalMessage) -> Formats:
    """The formats that a message of this type and correlid can have."""
    if message.msg_type == HEADER_MSG_TYPE:
        return _HEADER
    sequence = correlid.split(message.correl_id)[1]
    return {0: _COUNT, 1: _FIRST_PARTS}.get(sequence, _OTHER_PARTS)


def _application(message: PhysicalMessage) -> Frame:
    body, charset = memoryview(message.body), Said(message.encoding, message.ccsid).charset
    if charset is None:
        return raw(body, "application message")
    try:
        return Frame("application-message", 0, [Cell(0, len(body), "text", str(body, charset))], charset)
    except UnicodeDecodeError as error:
        return raw(body, f"application message, at byte {error.start} not {charset}")
