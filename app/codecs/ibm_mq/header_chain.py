"""The chain of headers before a message's data.

The Format of the descriptor names the first header. Each header's own Format, Encoding and CodedCharSetId describe what
follows it; the fields of the last header describe the data. A header that is not there, is not written as announced, or
breaks its own rules is an error, with three exceptions:

- An MQMDE of another version, byte order or character set is data (IBM MQ, "MQMDE", table 1). No page says this of any
  other header.
- A header in the other byte order than announced is read if its StrucId, version and length agree in that order. No
  other reading is possible then.
- A segment after the first one of its message has the Format of the whole message. If it begins with neither the
  StrucId nor a version of the header, it is data: the header was in the first segment.

`Data.doubts` says where the first two were met.

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
    MQFMT_SAP,
    MQFMT_WORK_INFO_HEADER,
    MQFMT_XMIT_Q_HEADER,
)
from app.codecs.ibm_mq.encodings import EBCDIC, integer_order
from app.codecs.ibm_mq.extension import HEADS, INITIAL, Grouping, grouping_in, on_put
from app.codecs.ibm_mq.field_positions import place
from app.codecs.ibm_mq.headers import (
    MQCIH,
    MQDH,
    MQDLH,
    MQEPH,
    MQH,
    MQIIH,
    MQMD1,
    MQRFH,
    MQRFH2,
    MQRMH,
    MQSAPH,
    MQWIH,
    MQXQH,
)
from app.codecs.ibm_mq.structure_writing import ASCII, ORDERS, Heads, family
from app.wire import Context, WireError
from app.wire.kinds import Buffer

Header = MQH | MQDLH | MQXQH | MQMD1

_INITIAL: Mapping[str, tuple[Header, ...]] = {
    MQFMT_CICS: (MQCIH("CIH", 1, 164), MQCIH("CIH", 2, 180)),
    MQFMT_DEAD_LETTER_HEADER: (MQDLH(),),
    MQFMT_DIST_HEADER: (MQDH("DH", 1, 48),),
    MQFMT_EMBEDDED_PCF: (MQEPH("EPH", 1, 68),),
    MQFMT_IMS: (MQIIH("IIH", 1, 84),),
    MQFMT_REF_MSG_HEADER: (MQRMH("RMH", 1, 108),),
    MQFMT_RF_HEADER: (MQRFH(),),
    MQFMT_RF_HEADER_2: (MQRFH2(),),
    MQFMT_SAP: (MQSAPH("SAPH", 1, 108),),
    MQFMT_WORK_INFO_HEADER: (MQWIH("WIH", 1, 120),),
    MQFMT_XMIT_Q_HEADER: (MQXQH(),),
}
"""Initial values of the headers by format; the length in them is the minimum length of such a header."""

_HEADS = {name: Heads(initial) for name, initial in _INITIAL.items()}
MOST_HEADERS: Final = 16
_WITHOUT_ENCODING = frozenset({MQFMT_CICS, MQFMT_IMS})
_OF_ONE_LENGTH = (MQCIH, MQIIH, MQSAPH, MQWIH)
"""Headers that nothing belongs to but their own fields: their minimum length is the only one."""
_ENCODINGS, _CCSIDS = range(1 << 16), range(-3, 1 << 16)
_DLH_ENCODING = place(MQDLH, "encoding")
_ORDER_NAMES = {">": "big-endian", "<": "little-endian"}
_CHARSET_NAMES = {ASCII: "ASCII", EBCDIC: "EBCDIC"}


class HeaderLink(NamedTuple):
    """A header, the bytes that it takes (with all that belongs to it), and how it is written.

    Its numbers and names are written as `context` says, other text in the CodedCharSetId that announced it.
    """

    header: Header
    at: int
    end: int
    context: Context
    ccsid: int


class Doubt(NamedTuple):
    """A header at byte `at` that is not as announced; `why` continues the sentence that begins with its name."""

    name: str
    at: int
    why: str


class Data(NamedTuple):
    """The description of the bytes from `at` on, taken from the descriptor or the last header.

    `doubts` are those that were met before.
    """

    format: str
    encoding: int
    ccsid: int
    at: int = 0
    grouping: Grouping = INITIAL
    msg_type: int = 0
    doubts: tuple[Doubt, ...] = ()


Step = tuple[tuple[HeaderLink, ...], Data]
"""A header, and the description of what follows it. Without a header the rest is data."""


def peel(buffer: Buffer, data: Data) -> tuple[list[HeaderLink], Data]:
    """Return the headers from the start of `data` on, and the description of the data after them.

    Raises WireError for a header that is not there, is cut off, is not written as announced, has a wrong length or
    breaks its rules, and for more than `MOST_HEADERS` headers.
    """
    links: list[HeaderLink] = []
    while data.format in HEADER_FORMATS:
        found, following = (_extension if data.format == MQFMT_MD_EXTENSION else _step)(buffer, data)
        if not found:
            return links, following
        if len(links) >= MOST_HEADERS:
            raise WireError("headers", data.at, f"more than {len(links)} headers")
        data = following
        links += found
    return links, data


def _extension(buffer: Buffer, data: Data) -> Step:
    honoured = on_put(data.grouping, data.msg_type, buffer, data.at, data.encoding, data.ccsid)
    if honoured is None:
        is_valid = HEADS.find(buffer, data.at, data.encoding, data.ccsid) is not None
        why = "the message has group fields already" if is_valid else "its version or its writing is not as announced"
        return (), _doubted(data, Doubt("MQMDE", data.at, f"is data, since {why}"))
    extension, context = honoured
    end = data.at + extension.struc_length
    behind = _behind(extension, data, end)._replace(grouping=grouping_in(extension))
    return (HeaderLink(extension, data.at, end, context, data.ccsid),), behind


def _step(buffer: Buffer, data: Data) -> Step:
    found = _HEADS[data.format].at(buffer, data.at)
    if found is None:
        head = bytes(buffer[data.at : data.at + 8])
        versions = {
            each.version.to_bytes(4, "big" if order == ">" else "little")
            for each in _INITIAL[data.format]
            for order in ORDERS
        }
        # A later segment of a message has the announced header in the first one.
        if data.grouping.offset and not _has_identifier(head, data) and head[4:] not in versions:
            return (), data
        raise _missing(head, data)
    initial, context = found
    if family(data.ccsid) not in (None, context.charset):
        why = f"the header is in {_CHARSET_NAMES[context.charset]}, but CodedCharSetId {data.ccsid} is not"
        raise WireError(f"{type(initial).__name__}.struc_id", data.at, why)
    if integer_order(data.encoding) in (None, context.order):
        return _read(buffer, data, initial, context)
    return _in_the_other_order(buffer, data, initial, context)


def _in_the_other_order(buffer: Buffer, data: Data, initial: Header, context: Context) -> Step:
    """Return a header whose StrucId and version are in the other byte order than announced. Raises WireError."""
    name, is_in = type(initial).__name__, _ORDER_NAMES[context.order]
    why = f"is {is_in}, but its Encoding {data.encoding} says {_ORDER_NAMES['<' if context.order == '>' else '>']}"
    try:
        found, behind = _read(buffer, data, initial, context)
        _check_numbers(found[0])
    except WireError as error:
        raise WireError(f"{name}.version", data.at + 4, f"it {why}; read as {is_in}, {error}") from None
    if data.format in _WITHOUT_ENCODING:
        # The Encoding that is wrong for the header was meant for what follows, too.
        behind, why = behind._replace(encoding=0), f"{why}; nothing says the byte order of what follows it"
    return found, _doubted(behind, Doubt(name, data.at, why))


def _check_numbers(link: HeaderLink) -> None:
    """Raise WireError for numbers that no sender writes, in a header whose length does not show its byte order."""
    header = link.header
    if isinstance(header, MQDLH) and not (header.encoding in _ENCODINGS and header.coded_char_set_id in _CCSIDS):
        why = f"Encoding {header.encoding} and CodedCharSetId {header.coded_char_set_id} are not valid"
        raise WireError("MQDLH.encoding", link.at + _DLH_ENCODING.start, why)


def _doubted(data: Data, doubt: Doubt) -> Data:
    return data._replace(doubts=(*data.doubts, doubt))


def _missing(head: bytes, data: Data) -> WireError:
    """Return the error for bytes that are not the announced header."""
    initial = _INITIAL[data.format][0]
    name, announces = type(initial).__name__, f"but Format {data.format} announces"
    if not _has_identifier(head, data):
        why = f"found {head[:4].hex().upper() or 'nothing'}, {announces} '{initial.struc_id:4}'"
        return WireError(f"{name}.struc_id", data.at, why)
    versions = " or ".join(str(each.version) for each in _INITIAL[data.format])
    why = f"found {head[4:].hex().upper() or 'nothing'}, {announces} version {versions}"
    return WireError(f"{name}.version", data.at + 4, why)


def _has_identifier(head: bytes, data: Data) -> bool:
    struc_id = f"{_INITIAL[data.format][0].struc_id:4}"
    return head[:4] in {struc_id.encode(charset) for charset in _CHARSET_NAMES}


def _read(buffer: Buffer, data: Data, initial: Header, context: Context) -> Step:
    """Return a header that is written like this, and what it says of the bytes after it. Raises WireError."""
    header, end = type(initial).decode(buffer, data.at, context)
    if isinstance(header, MQXQH):
        return _transmitted(HeaderLink(header, data.at, end, context, data.ccsid), buffer, data)
    if isinstance(header, MQH) and isinstance(initial, MQH):
        least, left = initial.struc_length, len(buffer) - data.at
        is_fixed = isinstance(header, _OF_ONE_LENGTH)
        if not least <= header.struc_length <= (min(least, left) if is_fixed else left):
            must = f"must be {least}" if is_fixed else f"must be at least {least}"
            why = f"length {header.struc_length}; it {must}, and {left} bytes are left"
            raise WireError(f"{type(header).__name__}.struc_length", data.at + 8, why)
        end = data.at + header.struc_length
    return (HeaderLink(header, data.at, end, context, data.ccsid),), _behind(header, data, end)


def _transmitted(link: HeaderLink, buffer: Buffer, data: Data) -> Step:
    at = link.end
    descriptor, end = MQMD1.decode(buffer, at, link.context)
    if (descriptor.struc_id, descriptor.version) != ("MD", 1):
        row, wrong_at = ("version", at + 4) if descriptor.struc_id == "MD" else ("struc_id", at)
        why = f"found {bytes(buffer[wrong_at : wrong_at + 4]).hex().upper()}, but an MQXQH has an MQMD of version 1"
        raise WireError(f"MQMD1.{row}", wrong_at, why)
    embedded = link._replace(header=descriptor, at=at, end=end)
    original = Data("", 0, 0, msg_type=descriptor.msg_type, doubts=data.doubts)
    return (link, embedded), _behind(descriptor, original, end)


def _behind(header: MQH | MQDLH | MQMD1, data: Data, end: int) -> Data:
    encoding, ccsid = header.encoding, header.coded_char_set_id
    if data.format in _WITHOUT_ENCODING:
        encoding, ccsid = data.encoding, data.ccsid
    elif ccsid == MQCCSI_INHERIT:
        ccsid = data.ccsid
    return data._replace(format=header.format, encoding=encoding, ccsid=ccsid, at=end)
