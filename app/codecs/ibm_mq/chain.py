"""The chain of headers before a message's data.

The Format of the descriptor names the first header. Each header's own Format, Encoding and CodedCharSetId describe what
follows it; those of the last header describe the data. A header that is not written as announced, or whose version is
unknown, is not honoured: it is data (IBM MQ, "MQMDE", table 1). A header that is honoured and breaks its own rules is
an error.

An MQXQH holds the descriptor of the message after it. Fields of the descriptor and the headers before the MQXQH do not
apply to that message. The Encoding and CodedCharSetId of what follows an MQCIH or an MQIIH are also those of the header
itself: these headers have no such fields of their own.

Headers that the gateway does not use are read only up to the fields that say what follows, and where.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from app.codecs.ibm_mq.constants import (
    HEADER_FORMATS,
    MQCCSI_INHERIT,
    MQFMT_CICS,
    MQFMT_DEAD_LETTER_HEADER,
    MQFMT_DIST_HEADER,
    MQFMT_EMBEDDED_PCF,
    MQFMT_IMS,
    MQFMT_MD_EXTENSION,
    MQFMT_REF_MSG_HEADER,
    MQFMT_RF_HEADER,
    MQFMT_RF_HEADER_2,
    MQFMT_WORK_INFO_HEADER,
    MQFMT_XMIT_Q_HEADER,
)
from app.codecs.ibm_mq.extension import INITIAL, Grouping, grouping_in, on_put
from app.codecs.ibm_mq.headers import MQDLH, MQH, MQMD1, MQRFH, MQRFH2, MQXQH
from app.codecs.ibm_mq.writing import Heads
from app.wire import Context, WireError
from app.wire.kinds import Buffer

Header = MQH | MQDLH | MQXQH | MQMD1

_INITIAL: Mapping[str, tuple[Header, ...]] = {
    MQFMT_CICS: (MQH("CIH", 1, 164), MQH("CIH", 2, 180)),
    MQFMT_DEAD_LETTER_HEADER: (MQDLH(),),
    MQFMT_DIST_HEADER: (MQH("DH", 1, 48),),
    MQFMT_EMBEDDED_PCF: (MQH("EPH", 1, 68),),
    MQFMT_IMS: (MQH("IIH", 1, 84),),
    MQFMT_REF_MSG_HEADER: (MQH("RMH", 1, 108),),
    MQFMT_RF_HEADER: (MQRFH(),),
    MQFMT_RF_HEADER_2: (MQRFH2(),),
    MQFMT_WORK_INFO_HEADER: (MQH("WIH", 1, 120),),
    MQFMT_XMIT_Q_HEADER: (MQXQH(),),
}
"""Initial values of the headers by format; the length in them is the minimum length of such a header."""

_HEADS = {name: Heads(initial) for name, initial in _INITIAL.items()}
MOST_HEADERS: Final = 16
_WITHOUT_ENCODING = frozenset({MQFMT_CICS, MQFMT_IMS})


class Link(NamedTuple):
    """A header, the bytes that it takes (with all that belongs to it), and how it is written.

    Its numbers and names are written as `context` says, other text in the CodedCharSetId that announced it.
    """

    header: Header
    at: int
    end: int
    context: Context
    ccsid: int


class Data(NamedTuple):
    """The description of the bytes from `at` on, taken from the descriptor or the last header."""

    format: str
    encoding: int
    ccsid: int
    at: int = 0
    grouping: Grouping = INITIAL
    msg_type: int = 0


Step = tuple[tuple[Link, ...], Data]


def peel(buffer: Buffer, data: Data) -> tuple[list[Link], Data]:
    """Return the headers from the start of `data` on, and the description of the data after them.

    Raises WireError for a header that is cut off, whose length is wrong or whose fields break its rules, and for more
    than `MOST_HEADERS` headers.
    """
    links: list[Link] = []
    while data.format in HEADER_FORMATS:
        step = _extension(buffer, data) if data.format == MQFMT_MD_EXTENSION else _step(buffer, data)
        if step is None:
            break
        if len(links) >= MOST_HEADERS:
            raise WireError("headers", data.at, f"more than {len(links)} headers")
        found, data = step
        links += found
    return links, data


def _extension(buffer: Buffer, data: Data) -> Step | None:
    honoured = on_put(data.grouping, data.msg_type, buffer, data.at, data.encoding, data.ccsid)
    if honoured is None:
        return None
    extension, context = honoured
    end = data.at + extension.struc_length
    behind = _behind(extension, data, end)._replace(grouping=grouping_in(extension))
    return (Link(extension, data.at, end, context, data.ccsid),), behind


def _step(buffer: Buffer, data: Data) -> Step | None:
    found = _HEADS[data.format].find(buffer, data.at, data.encoding, data.ccsid)
    if found is None:
        return None
    initial, context = found
    header, end = type(initial).decode(buffer, data.at, context)
    if isinstance(header, MQXQH):
        return _transmitted(Link(header, data.at, end, context, data.ccsid), buffer)
    if isinstance(header, MQH) and isinstance(initial, MQH):
        end = _end(header, initial.struc_length, buffer, data.at)
    return (Link(header, data.at, end, context, data.ccsid),), _behind(header, data, end)


def _transmitted(link: Link, buffer: Buffer) -> Step:
    """Return an MQXQH and the descriptor in it, and the description of what follows."""
    at = link.end
    descriptor, end = MQMD1.decode(buffer, at, link.context)
    if (descriptor.struc_id, descriptor.version) != ("MD", 1):
        raise WireError("MQMD1.struc_id", at, f"{bytes(buffer[at : at + 8]).hex().upper()} is not an MQMD of version 1")
    embedded = link._replace(header=descriptor, at=at, end=end)
    return (link, embedded), _behind(descriptor, Data("", 0, 0, msg_type=descriptor.msg_type), end)


def _end(header: MQH, least: int, buffer: Buffer, at: int) -> int:
    """Return the first byte after a header and all that belongs to it."""
    left = len(buffer) - at
    if not least <= header.struc_length <= left:
        why = f"length {header.struc_length}; it must be at least {least}, and {left} bytes are left"
        raise WireError(f"{type(header).__name__}.struc_length", at + 8, why)
    return at + header.struc_length


def _behind(header: MQH | MQDLH | MQMD1, data: Data, end: int) -> Data:
    encoding, ccsid = header.encoding, header.coded_char_set_id
    if data.format in _WITHOUT_ENCODING:
        encoding, ccsid = data.encoding, data.ccsid
    elif ccsid == MQCCSI_INHERIT:
        ccsid = data.ccsid
    return data._replace(format=header.format, encoding=encoding, ccsid=ccsid, at=end)
