"""The MQ image: a whole IBM MQ message as bytes: MQMD [headers] body.

Bridges that forward a queue's messages to a transport without properties send it. Its first eight bytes say how the
descriptor is written: the structure identifier gives the character set, the version gives the byte order.

The descriptor has more fields than a physical message: the message's origin and where to send replies. The gateway
keeps those as properties, named `mqmd.` and the field: `user_identifier`, `accounting_token` (hexadecimal),
`appl_identity_data`, `put_appl_type`, `put_appl_name`, `appl_origin_data`, `reply_to_q`, `reply_to_q_mgr`, `report` and
`feedback`. Fields that are empty or zero are left out.

Every received message passes through here. So the few fields that a physical message has are read with one `struct`
call. The layouts of `headers` are the authority: they locate errors, and tests compare this module with them.
"""

import struct
from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from typing import Any, Final, Literal, NamedTuple

from app.codecs.ibm_mq.constants import MQ_NO_ID, MQFMT_MD_EXTENSION
from app.codecs.ibm_mq.encodings import EBCDIC, LATIN_1_CCSID, MQENC_BIG_ENDIAN, MQENC_LITTLE_ENDIAN, integer_order
from app.codecs.ibm_mq.extension import INITIAL, extension, grouping_of
from app.codecs.ibm_mq.field_positions import Rows, place, rows
from app.codecs.ibm_mq.headers import MQMD1, MQMD2, MQMDE, put_date_and_time, put_time_in
from app.codecs.ibm_mq.structure_writing import ASCII, ORDERS, identifier, trimmed
from app.codecs.ibm_mq.unwrap import unwrap
from app.model.message import NO_PROPERTIES, PhysicalMessage
from app.wire import Context, WireError
from app.wire.kinds import PADDING, Buffer, Order

_SHARED: tuple[Rows, ...] = (
    "msg_type",
    "encoding",
    "coded_char_set_id",
    "format",
    ("put_date", "put_time"),
)
_GROUPING = ("group_id", "msg_seq_number", "offset", "msg_flags", "original_length")
_IDENTIFIERS, _ID_SIZE = place(MQMD1, "msg_id", "correl_id"), len(MQ_NO_ID)
_REPORT, _FEEDBACK = place(MQMD1, "report"), place(MQMD1, "feedback")
_ORIGIN = place(MQMD1, "appl_origin_data")
_CONTEXT_NAMES = (
    "reply_to_q",
    "reply_to_q_mgr",
    "user_identifier",
    "accounting_token",
    "appl_identity_data",
    "put_appl_type",
    "put_appl_name",
)
_ROWS = {order: rows(MQMD1, order, *_SHARED) for order in ORDERS}
_CONTEXT = place(MQMD1, _CONTEXT_NAMES[0], _CONTEXT_NAMES[-1])
_CONTEXT_ROWS = {order: rows(MQMD1, order, *_CONTEXT_NAMES, within=_CONTEXT) for order in ORDERS}
FORMAT_SIZE: Final = 8
"""The length of a Format, an MQCHAR8."""
IMAGE_OVERHEAD: Final = MQMD1.SIZE + MQMDE.SIZE
"""The most bytes that `write_image` puts before a body."""


class _Descriptor(NamedTuple):
    layout: type[MQMD1]
    order: Order
    charset: str
    grouping: struct.Struct | None


_DESCRIPTORS = {
    layout().encode(Context(order, charset))[:8]: _Descriptor(
        layout, order, charset, rows(layout, order, *_GROUPING) if layout is MQMD2 else None
    )
    for layout, order, charset in product((MQMD1, MQMD2), ORDERS, (ASCII, EBCDIC))
}
_STRUC_IDS = frozenset(head[:4] for head in _DESCRIPTORS)


def is_image(payload: Buffer) -> bool:
    """Tell whether a payload begins with an MQMD's structure identifier, in ASCII or EBCDIC."""
    return bytes(payload[:4]) in _STRUC_IDS


def descriptor_context(payload: Buffer) -> tuple[type[MQMD1], Context]:
    """Return the descriptor's layout, and the byte order and character set in which it is written.

    Raises WireError for a payload that does not begin with an MQMD of version 1 or 2.
    """
    found = _find(payload)
    return found.layout, Context(found.order, found.charset)


def read_image(payload: Buffer, source: str, framing: str, received_at: int = 0) -> PhysicalMessage:
    """Return the message of an image; its body is a slice of the payload and is not copied.

    Headers become fields and properties as `unwrap` does it. Raises WireError; `fault_code` is its code.
    """
    found = _find(payload)
    start = found.layout.SIZE
    message = _described(found, payload, memoryview(payload)[start:], source, framing, received_at)
    try:
        return unwrap(message, start)
    except WireError as error:
        raise _HeaderError(error.row, error.at, error.why) from error


class _HeaderError(WireError):
    """An error in a header behind the descriptor of an image."""


def fault_code(error: WireError) -> str:
    """Return the code under which a message goes to quarantine for an error of `read_image`."""
    return "bad-mq-header" if isinstance(error, _HeaderError) else "bad-mq-image"


def described(
    descriptor: Buffer, body: bytes | memoryview, source: str, framing: str, received_at: int = 0
) -> PhysicalMessage:
    """Return a message as its descriptor describes it; its body still has all headers. Raises WireError."""
    return _described(_find(descriptor), descriptor, body, source, framing, received_at)


def _described(
    found: _Descriptor,
    descriptor: Buffer,
    body: bytes | memoryview,
    source: str,
    framing: str,
    received_at: int,
) -> PhysicalMessage:
    if len(descriptor) < found.layout.SIZE:
        found.layout.decode(descriptor, 0, Context(found.order, found.charset))
    at = _IDENTIFIERS
    identifiers = bytes(descriptor[at])
    msg_id, correl_id = identifiers[:_ID_SIZE], identifiers[_ID_SIZE:]
    msg_type, encoding, ccsid, format_, put_time, properties = _shared_fields(
        bytes(descriptor[: at.start]), bytes(descriptor[at.stop : MQMD1.SIZE]), found.order, found.charset
    )
    grouping = INITIAL if found.grouping is None else found.grouping.unpack_from(descriptor)
    group_id, msg_seq_number, offset, msg_flags, original_length = grouping
    return PhysicalMessage(
        source,
        framing,
        msg_type,
        correl_id,
        body,
        b"" if msg_id == MQ_NO_ID else msg_id,
        b"" if group_id == MQ_NO_ID else group_id,
        msg_seq_number,
        offset,
        msg_flags,
        original_length,
        encoding,
        ccsid,
        format_,
        put_time,
        received_at,
        properties,
    )


class _SharedFields(NamedTuple):
    """The fields of a message that all messages share which a program puts within the same hundredth of a second."""

    msg_type: int
    encoding: int
    ccsid: int
    format: str
    put_time: int
    properties: Mapping[str, str]


@lru_cache(maxsize=256)
def _shared_fields(before: bytes, behind: bytes, order: Order, charset: str) -> _SharedFields:
    """Return the fields in a descriptor of version 1, given its bytes before and after its two identifiers."""
    descriptor = b"".join((before, bytes(2 * _ID_SIZE), behind))
    msg_type, encoding, ccsid, format_, put_at = _ROWS[order].unpack_from(descriptor)
    options = descriptor[_REPORT] + descriptor[_FEEDBACK]
    properties = _context(options, descriptor[_CONTEXT], descriptor[_ORIGIN], order, charset)
    put_time = put_time_in(str(put_at, charset))
    return _SharedFields(msg_type, encoding, ccsid, trimmed(format_, charset), put_time, properties)


def write_image(message: PhysicalMessage, version: Literal[1, 2] = 1) -> bytes:
    """Return the image of a message, in ASCII and in the byte order of its Encoding (big-endian if the Encoding states
    none).

    Version 1 has an MQMDE if the message has grouping or segmentation fields that are not initial. Raises WireError for
    a value that its field cannot hold.
    """
    context = Context(integer_order(message.encoding) or ">", ASCII)
    native = MQENC_LITTLE_ENDIAN if context.order == "<" else MQENC_BIG_ENDIAN, LATIN_1_CCSID
    prefix = extension(message, *native) if version == 1 else b""
    encoding, ccsid = native if prefix else (message.encoding, message.ccsid)
    put_date, put_time = put_date_and_time(message.put_time)
    descriptor: dict[str, Any] = {
        "msg_type": message.msg_type,
        "encoding": encoding,
        "coded_char_set_id": ccsid,
        "format": MQFMT_MD_EXTENSION if prefix else message.format,
        "msg_id": identifier(message.message_id),
        "correl_id": identifier(message.correl_id),
        "put_date": put_date,
        "put_time": put_time,
    }
    own = MQMD1(**descriptor) if version == 1 else MQMD2(**descriptor, **grouping_of(message)._asdict())
    return b"".join((own.encode(context), prefix, message.body))


def _find(payload: Buffer) -> _Descriptor:
    head = bytes(payload[:8])
    found = _DESCRIPTORS.get(head)
    if found is not None:
        return found
    if head[:4] in _STRUC_IDS:
        raise WireError("MQMD1.version", 4, f"{head[4:].hex().upper()} is not version 1 or 2 in any byte order")
    raise WireError("MQMD1.struc_id", 0, f"{head[:4].hex().upper()} is not 'MD  ' in ASCII or EBCDIC")


@lru_cache(maxsize=256)
def _context(options: bytes, context: bytes, origin: bytes, order: Order, charset: str) -> Mapping[str, str]:
    """Return the properties for a message's origin, its reply-to queue, and its Report and Feedback.

    Fields that are empty or zero are left out. Messages of one program share the result, which is cached.
    """
    reply_to_q, reply_to_q_mgr, user, token, identity_data, appl_type, appl_name = _CONTEXT_ROWS[order].unpack(context)
    report, feedback = struct.unpack(f"{order}ii", options)
    numbers = {"report": report, "feedback": feedback, "put_appl_type": appl_type}
    texts = {
        "reply_to_q": reply_to_q,
        "reply_to_q_mgr": reply_to_q_mgr,
        "user_identifier": user,
        "appl_identity_data": identity_data,
        "put_appl_name": appl_name,
        "appl_origin_data": origin,
    }
    properties = {name: str(value) for name, value in numbers.items() if value}
    properties |= {name: text for name, raw in texts.items() if (text := str(raw, charset, "replace").rstrip(PADDING))}
    if token.strip(b"\0"):
        properties["accounting_token"] = token.hex()
    return {f"mqmd.{name}": text for name, text in properties.items()} if properties else NO_PROPERTIES
