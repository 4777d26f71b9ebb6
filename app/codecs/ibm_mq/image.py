"""The MQ image: a whole IBM MQ message as bytes, descriptor first: MQMD [MQMDE] body.

It is what a bridge forwards that takes a queue's messages to a transport without properties. Nothing stands before the
descriptor to say how it is written, so its first eight bytes tell: the structure identifier the character set, the
version the byte order.

Reading is on the way of every message received, so it takes the few rows that a physical message has with one `struct`
call; the layouts of `headers` are the authority, locate what is wrong, and are what this is tested against.
"""

import struct
from datetime import UTC, datetime
from functools import lru_cache
from itertools import product
from typing import Any, Final, Literal, NamedTuple

from app.codecs.ibm_mq.chain import ASCII, EBCDIC, peel
from app.codecs.ibm_mq.encodings import MQENC_BIG_ENDIAN, MQENC_LITTLE_ENDIAN, integer_order
from app.codecs.ibm_mq.headers import MQMD1, MQMD2, MQMDE
from app.codecs.ibm_mq.words import MQ_NO_ID, MQFMT_MD_EXTENSION, MQOL_UNDEFINED
from app.model.message import PhysicalMessage
from app.wire import Context, WireError
from app.wire.kinds import Buffer, Order

_ROWS_1 = "12x i 8x ii 8s 8x 24s 24s 208x 16s 4x"
_ROWS_2 = _ROWS_1 + "24s iiii"
_LATIN_1_CCSID = 819
_INITIAL_GROUPING = (MQ_NO_ID, 1, 0, 0, MQOL_UNDEFINED)
IMAGE_OVERHEAD: Final = MQMD1.SIZE + MQMDE.SIZE
"""The most bytes that `write_image` puts before a body in version 1."""


class _Descriptor(NamedTuple):
    layout: type[MQMD1]
    order: Order
    charset: str
    rows: struct.Struct


def _descriptor(layout: type[MQMD1], order: Order, charset: str) -> _Descriptor:
    return _Descriptor(layout, order, charset, struct.Struct(order + (_ROWS_2 if layout is MQMD2 else _ROWS_1)))


_ORDERS: tuple[Order, ...] = (">", "<")
_DESCRIPTORS = {
    layout().encode(Context(order, charset))[:8]: _descriptor(layout, order, charset)
    for layout, order, charset in product((MQMD1, MQMD2), _ORDERS, (ASCII, EBCDIC))
}
_STRUC_IDS = frozenset(head[:4] for head in _DESCRIPTORS)


def is_image(payload: Buffer) -> bool:
    """Whether this begins with an MQMD's structure identifier, in ASCII or EBCDIC."""
    return bytes(payload[:4]) in _STRUC_IDS


def descriptor_context(payload: Buffer) -> tuple[type[MQMD1], Context]:
    """The descriptor's layout, and the byte order and character set it is written in. Raises WireError for what does
    not begin with an MQMD of version 1 or 2."""
    found = _find(payload)
    return found.layout, Context(found.order, found.charset)


def read_image(payload: Buffer, source: str, framing: str, received_at: int = 0) -> PhysicalMessage:
    """The message that an image shows; its body is a slice of the payload and is not copied.

    An MQMDE is honoured unless the descriptor is of version 2 and says anything itself about groups and segments (IBM
    MQ, "MQMDE", table 1). Raises WireError.
    """
    found = _find(payload)
    layout = found.layout
    if len(payload) < layout.SIZE:
        layout.decode(payload, 0, Context(found.order, found.charset))
    msg_type, encoding, ccsid, format_, msg_id, correl_id, put_at, *grouping = found.rows.unpack_from(payload)
    format_ = _text(format_, found.charset)
    start = layout.SIZE
    group: tuple[Any, ...] = tuple(grouping) or _INITIAL_GROUPING
    if format_ == MQFMT_MD_EXTENSION and group == _INITIAL_GROUPING:
        chain = peel(payload, format_, encoding, ccsid, start)
        format_, encoding, ccsid, start = chain.format, chain.encoding, chain.ccsid, chain.offset
        for header in chain.headers:
            group = (
                header.group_id,
                header.msg_seq_number,
                header.offset,
                header.msg_flags,
                header.original_length,
            )
    group_id, msg_seq_number, offset, msg_flags, original_length = group
    return PhysicalMessage(
        source,
        framing,
        msg_type,
        correl_id,
        memoryview(payload)[start:],
        b"" if msg_id == MQ_NO_ID else msg_id,
        b"" if group_id == MQ_NO_ID else group_id,
        msg_seq_number,
        offset,
        msg_flags,
        original_length,
        encoding,
        ccsid,
        format_,
        _microseconds(put_at, found.charset),
        received_at,
    )


def write_image(message: PhysicalMessage, version: Literal[1, 2] = 1) -> bytes:
    """The image of a message, in ASCII and in the byte order of its Encoding (high byte first where that says none).

    Version 1 has an MQMDE when the message says anything about groups and segments. Raises WireError for a value that
    its row cannot hold.
    """
    order = integer_order(message.encoding) or ">"
    context = Context(order, ASCII)
    grouping: dict[str, Any] = {
        "group_id": _identifier(message.group_id),
        "msg_seq_number": message.msg_seq_number,
        "offset": message.offset,
        "msg_flags": message.msg_flags,
        "original_length": message.original_length,
    }
    put_date, put_time = _put_date_and_time(message.put_time)
    descriptor: dict[str, Any] = {
        "msg_type": message.msg_type,
        "encoding": message.encoding,
        "coded_char_set_id": message.ccsid,
        "format": message.format,
        "msg_id": _identifier(message.message_id),
        "correl_id": _identifier(message.correl_id),
        "put_date": put_date,
        "put_time": put_time,
    }
    if version == 2:
        return MQMD2(**descriptor, **grouping).encode(context) + message.body
    if tuple(grouping.values()) == _INITIAL_GROUPING:
        return MQMD1(**descriptor).encode(context) + message.body
    extension = MQMDE(encoding=message.encoding, coded_char_set_id=message.ccsid, format=message.format, **grouping)
    descriptor |= {
        "encoding": MQENC_LITTLE_ENDIAN if order == "<" else MQENC_BIG_ENDIAN,
        "coded_char_set_id": _LATIN_1_CCSID,
        "format": MQFMT_MD_EXTENSION,
    }
    return b"".join((MQMD1(**descriptor).encode(context), extension.encode(context), message.body))


def _find(payload: Buffer) -> _Descriptor:
    head = bytes(payload[:8])
    found = _DESCRIPTORS.get(head)
    if found is not None:
        return found
    if head[:4] in _STRUC_IDS:
        raise WireError("MQMD1.version", 4, f"{head[4:].hex().upper()} is neither version 1 nor 2 in any byte order")
    raise WireError("MQMD1.struc_id", 0, f"{head[:4].hex().upper()} is not 'MD  ' in ASCII or EBCDIC")


def _identifier(given: bytes) -> bytes:
    return given.ljust(len(MQ_NO_ID), b"\0")


@lru_cache(maxsize=256)
def _text(raw: bytes, charset: str) -> str:
    return str(raw, charset).rstrip("\0 ")


@lru_cache(maxsize=256)
def _microseconds(put_at: bytes, charset: str) -> int:
    """A PutDate and PutTime (YYYYMMDDHHMMSSTH, GMT) in microseconds; 0 for what is none."""
    digits = str(put_at, charset)
    try:
        moment = datetime.strptime(digits[:14] + "+0000", "%Y%m%d%H%M%S%z")
        return int(moment.timestamp()) * 1_000_000 + int(digits[14:]) * 10_000
    except ValueError:
        return 0


def _put_date_and_time(microseconds: int) -> tuple[str, str]:
    if not microseconds:
        return "", ""
    seconds, rest = divmod(microseconds, 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y%m%d}", f"{moment:%H%M%S}{rest // 10_000:02d}"
