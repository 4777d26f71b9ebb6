"""The chain of headers in front of a message's data.

Rules. The Format of what stands before names the first header; each header's own Format, Encoding and CodedCharSetId
describe what follows it, and the last one's the data. A header that is not in the encoding announced for it, or of a
version not known here, is not honoured: it is data (IBM MQ, "MQMDE", table 1). One that is and breaks its own rules is
an error.
"""

from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

from app.codecs.ibm_mq.encodings import integer_order
from app.codecs.ibm_mq.headers import MQMDE
from app.codecs.ibm_mq.words import MQCCSI_INHERIT, MQFMT_MD_EXTENSION
from app.wire import Context, WireError
from app.wire.kinds import Buffer, Order

ASCII, EBCDIC = "latin-1", "cp500"
"""Charsets for a header's own names: what they may hold is the same in every ASCII, and in every EBCDIC, code page."""

Header = MQMDE

HEADERS: Mapping[str, type[Header]] = {MQFMT_MD_EXTENSION: MQMDE}
"""The headers that can be peeled off, by format name; their initial values hold what must be there."""

_ORDERS: tuple[Order, ...] = (">", "<")
_HEADS = {
    (name, layout().encode(Context(order, charset))[:8]): Context(order, charset)
    for (name, layout), order, charset in product(HEADERS.items(), _ORDERS, (ASCII, EBCDIC))
}
"""The structure identifier and version with which a header starts, in each way of writing it."""


class Chain(NamedTuple):
    """The headers found, and what the last one (or the descriptor) says of the data, which starts at `offset`."""

    headers: tuple[Header, ...]
    format: str
    encoding: int
    ccsid: int
    offset: int


def peel(buffer: Buffer, format: str, encoding: int, ccsid: int, at: int = 0) -> Chain:  # noqa: A002
    """Walks the headers of a message whose descriptor has this Format, Encoding and CodedCharSetId, from byte `at` on.

    Where the Encoding does not say a byte order, the header's version tells it. Raises WireError for a header that is
    cut off or whose length is wrong.
    """
    headers: list[Header] = []
    while (layout := HEADERS.get(format)) is not None:
        context = _context(buffer, at, format, encoding)
        if context is None:
            break
        header, end = layout.decode(buffer, at, context)
        if header.struc_length != layout.SIZE:
            why = f"a length of {header.struc_length}, where {layout.SIZE} belongs"
            raise WireError(f"{layout.__name__}.struc_length", at + 8, why)
        headers.append(header)
        at, format, encoding = end, header.format, header.encoding  # noqa: A001
        if header.coded_char_set_id != MQCCSI_INHERIT:
            ccsid = header.coded_char_set_id
    return Chain(tuple(headers), format, encoding, ccsid, at)


def _context(buffer: Buffer, at: int, format: str, encoding: int) -> Context | None:  # noqa: A002
    """How the header at byte `at` is written; None when it is not this one in this encoding."""
    context = _HEADS.get((format, bytes(buffer[at : at + 8])))
    said = integer_order(encoding)
    return context if context is None or said in (None, context.order) else None
