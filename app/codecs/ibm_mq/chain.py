"""The chain of headers in front of a message's data.

Rules. The Format of what stands before names the first header; each header's own Format, Encoding and CodedCharSetId
describe what follows it, and the last one's the data. A header that is not written as announced, or is of a version not
known here, is not honoured: it is data (IBM MQ, "MQMDE", table 1). One that is and breaks its own rules is an error.

An MQXQH holds the descriptor of the message behind it; nothing that stood before it says anything of that message. An
MQCIH and an MQIIH have no Encoding and CodedCharSetId of their own: theirs are those of what follows.

Of the headers that a gateway has no use for, only the beginning is read, which says what follows and where.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from app.codecs.ibm_mq.extension import INITIAL, Grouping, grouping_in, on_put
from app.codecs.ibm_mq.headers import MQDLH, MQH, MQMD1, MQRFH, MQRFH2, MQXQH
from app.codecs.ibm_mq.words import (
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
"""Initial values of the headers by format; the length in them is the least that such a header has."""

_HEADS = {name: Heads(initial) for name, initial in _INITIAL.items()}
MOST_HEADERS: Final = 16
_WITHOUT_ENCODING = frozenset({MQFMT_CICS, MQFMT_IMS})


class Link(NamedTuple):
    """A header, the bytes that it takes with all that belongs to it, and how it is written: its numbers and names by
    `context`, other text by the CodedCharSetId that announced it."""

    header: Header
    at: int
    end: int
    context: Context
    ccsid: int


class Data(NamedTuple):
    """What the descriptor or the last header says of what follows, which starts at byte `at`."""

    format: str
    encoding: int
    ccsid: int
    at: int = 0
    grouping: Grouping = INITIAL
    msg_type: int = 0


Step = tuple[tuple[Link, ...], Data]


def peel(buffer: Buffer, data: Data) -> tuple[list[Link], Data]:
    """Walks the headers from where `data` starts, and tells what is behind them.

    Raises WireError for a header that is cut off, whose length is wrong, or whose rows break its rules, and for more
    headers than any program sends.
    """
    links: list[Link] = []
    while data.format in HEADER_FORMATS:
        step = _extension(buffer, data) if data.format == MQFMT_MD_EXTENSION else _step(buffer, data)
        if step is None:
            break
        if len(links) >= MOST_HEADERS:
            raise WireError("headers", data.at, f"another header behind {len(links)}")
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
    """An MQXQH, and the descriptor in it."""
    at = link.end
    descriptor, end = MQMD1.decode(buffer, at, link.context)
    if (descriptor.struc_id, descriptor.version) != ("MD", 1):
        raise WireError("MQMD1.struc_id", at, f"{bytes(buffer[at : at + 8]).hex().upper()} is no MQMD of version 1")
    embedded = link._replace(header=descriptor, at=at, end=end)
    return (link, embedded), _behind(descriptor, Data("", 0, 0, msg_type=descriptor.msg_type), end)


def _end(header: MQH, least: int, buffer: Buffer, at: int) -> int:
    """The byte behind a header and all that belongs to it."""
    left = len(buffer) - at
    if not least <= header.struc_length <= left:
        why = f"a length of {header.struc_length}, where it has at least {least} and {left} are left"
        raise WireError(f"{type(header).__name__}.struc_length", at + 8, why)
    return at + header.struc_length


def _behind(header: MQH | MQDLH | MQMD1, data: Data, end: int) -> Data:
    encoding, ccsid = header.encoding, header.coded_char_set_id
    if data.format in _WITHOUT_ENCODING:
        encoding, ccsid = data.encoding, data.ccsid
    elif ccsid == MQCCSI_INHERIT:
        ccsid = data.ccsid
    return data._replace(format=header.format, encoding=encoding, ccsid=ccsid, at=end)
