"""Headers in front of the data of a message that is put: what the queue manager checks of them.

It checks them for programs that put with a version-2 MQMD (IBM MQ, "MQMD", Version), and of them what the pages of
reasons 2141 and 2334 list. That it follows a chain of headers, and takes structures for data that are not in the
announced Encoding and CodedCharSetId, is believed.
"""

import struct
from typing import NamedTuple

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.structures import MessageDescriptor

_ENCODING_AT = struct.Struct("ii8s")
_EBCDIC = frozenset({37, 273, 277, 278, 280, 284, 285, 297, 500, 871, 1047, *range(1140, 1150)})
_INTEGERS = 0xF
_REVERSED = 2


class _Kind(NamedTuple):
    """A header: its identifier and version, its least length, where its length stands and where the Encoding,
    CodedCharSetId and Format of what follows."""

    identifier: str
    version: int
    least: int
    length_at: int | None
    next_at: int
    reason: int


_KINDS = {
    mq.MQFMT_DEAD_LETTER_HEADER: _Kind("DLH ", 1, 172, None, 108, mq.MQRC_DLH_ERROR),
    mq.MQFMT_RF_HEADER_1: _Kind("RFH ", 1, 32, 8, 12, mq.MQRC_RFH_ERROR),
    mq.MQFMT_RF_HEADER_2: _Kind("RFH ", 2, 36, 8, 12, mq.MQRC_RFH_ERROR),
}


def check_headers(descriptor: MessageDescriptor, data: bytes) -> None:
    """Raises Refused for a header that is not valid."""
    encoding, ccsid, name = descriptor.encoding, descriptor.coded_char_set_id, descriptor.format
    at = 0
    while (kind := _KINDS.get(name)) is not None:
        order = "<" if encoding & _INTEGERS == _REVERSED else ">"
        charset = "cp500" if ccsid in _EBCDIC else "latin-1"
        if len(data) - at < kind.least or data[at : at + 4] != kind.identifier.encode(charset):
            raise Refused(kind.reason)
        (version,) = struct.unpack_from(order + "i", data, at + 4)
        length = kind.least if kind.length_at is None else _number(order, data, at + kind.length_at)
        encoding, next_ccsid, raw = struct.unpack_from(order + _ENCODING_AT.format, data, at + kind.next_at)
        if version != kind.version or not kind.least <= length <= len(data) - at:
            raise Refused(kind.reason)
        if next_ccsid <= 0 and next_ccsid != mq.MQCCSI_INHERIT:
            raise Refused(kind.reason)
        ccsid = ccsid if next_ccsid == mq.MQCCSI_INHERIT else next_ccsid
        name = raw.decode(charset, "replace").encode("latin-1", "replace")
        at += length


def _number(order: str, data: bytes, at: int) -> int:
    found: int = struct.unpack_from(order + "i", data, at)[0]
    return found
