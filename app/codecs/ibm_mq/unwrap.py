"""Removal of a message's headers: their contents become fields and properties of the message.

| header | becomes |
|---|---|
| MQMDE | `group_id`, `msg_seq_number`, `offset`, `msg_flags`, `original_length` |
| MQXQH | all fields and the properties `mqmd.…`, from the descriptor in it; properties `mqxqh.…` of both names |
| MQDLH | properties `mqdlh.…` of all its fields but the three that describe what follows |
| MQRFH2 | properties: of the folder `usr` by their own names, of others by `folder.name` or `folder.group.name` |
| MQRFH | properties, by their own names |

Format, Encoding and CodedCharSetId then describe the data. Property values are the text in the header, whatever
their type. A property without a value is left out; if a name occurs twice, the last value counts. `original_length` is
that of the data: if it includes headers that follow the field's own header, their length is subtracted.
"""

from collections.abc import Mapping
from typing import Final

from app.codecs.ibm_mq import rfh
from app.codecs.ibm_mq.constants import HEADER_FORMATS, MQ_NO_ID, MQCCSI_INHERIT, MQFMT_MD_EXTENSION, MQMT_REPORT
from app.codecs.ibm_mq.encodings import charset
from app.codecs.ibm_mq.extension import HEADS, INITIAL, MOST, UNKNOWN_FLAGS, grouping_of, with_grouping
from app.codecs.ibm_mq.field_positions import rows
from app.codecs.ibm_mq.header_chain import Data, Header, HeaderLink, peel
from app.codecs.ibm_mq.headers import MQDLH, MQMD1, MQMDE, MQRFH, MQRFH2, MQXQH, put_time_in
from app.codecs.ibm_mq.structure_writing import ORDERS, family, trimmed
from app.model.message import EVIDENCE, PhysicalMessage
from app.wire import WireError
from app.wire.kinds import Buffer

LONGEST_HEADER: Final = 1 << 20
"""Bytes of the longest header whose names and values are read: these take many times the memory of the header."""

_EXTENSION_NAMES = (
    "struc_length",
    "encoding",
    "coded_char_set_id",
    "format",
    "group_id",
    "msg_seq_number",
    "offset",
    "msg_flags",
    "original_length",
)
_EXTENSION_ROWS = {order: rows(MQMDE, order, *_EXTENSION_NAMES) for order in ORDERS}
_NAMES: Mapping[type[Header], tuple[str, ...]] = {
    MQXQH: ("remote_q_name", "remote_q_mgr_name"),
    MQDLH: (
        *("reason", "dest_q_name", "dest_q_mgr_name"),
        *("put_appl_type", "put_appl_name", "put_date", "put_time"),
    ),
}
"""Fields that become properties."""

_ORIGIN = "mqmd."
"""What begins the names of properties that have the origin of a message, and where answers to it go."""
ORIGIN_NAMES: Final = (
    *("report", "feedback", "reply_to_q", "reply_to_q_mgr", "user_identifier", "accounting_token"),
    *("appl_identity_data", "put_appl_type", "put_appl_name", "appl_origin_data"),
)


def unwrap(message: PhysicalMessage, before: int = 0) -> PhysicalMessage:
    """Return the message after the headers of a message whose body still has them.

    The new body is a slice of the old one. The five grouping fields must be the descriptor's own (initial for version
    1) for an MQMDE to be honoured. A header that is not as announced is named in the property `EVIDENCE`.

    Raises WireError. `before` is the number of bytes before the body, from where errors and evidence count bytes.
    """
    if message.format not in HEADER_FORMATS:
        return message
    try:
        return _unwrapped(message, before)
    except WireError as error:
        if not before:
            raise
        raise WireError(error.row, before + error.at, error.why) from error


def _unwrapped(message: PhysicalMessage, before: int) -> PhysicalMessage:
    buffer = memoryview(message.body)
    if message.format == MQFMT_MD_EXTENSION and (extended := _extended(message, buffer)) is not None:
        return extended
    announced = Data(message.format, message.encoding, message.ccsid, 0, grouping_of(message), message.msg_type)
    links, data = peel(buffer, announced)
    named: dict[str, str] = {}
    for link in links:
        named |= properties(buffer, link)
        if isinstance(link.header, MQMD1):
            descriptor = link.header
            others = {name: text for name, text in message.properties.items() if not name.startswith(_ORIGIN)}
            message = message._replace(
                properties=others | origin(descriptor),
                msg_type=descriptor.msg_type,
                correl_id=descriptor.correl_id,
                message_id=b"" if descriptor.msg_id == MQ_NO_ID else descriptor.msg_id,
                put_time=put_time_in(f"{descriptor.put_date:8}{descriptor.put_time:8}"),
            )
    if data.doubts:
        named[EVIDENCE] = "; ".join(f"the {name} at byte {before + at} {why}" for name, at, why in data.doubts)
    if named:
        message = message._replace(properties={**message.properties, **named})
    # An OriginalLength is "the length of the application message data" (IBM MQ, "OriginalLength"). Whether it includes
    # headers depends on the program that put them there.
    grouping, size = data.grouping, len(buffer)
    stated_at = max((link.end for link in links if isinstance(link.header, MQMDE)), default=0)
    if grouping.original_length == size - stated_at:
        grouping = grouping._replace(original_length=size - data.at)
    if grouping != announced.grouping:
        message = with_grouping(message, grouping)
    return message._replace(body=buffer[data.at :], format=data.format, encoding=data.encoding, ccsid=data.ccsid)


def _extended(message: PhysicalMessage, buffer: memoryview) -> PhysicalMessage | None:
    """Return the message after an MQMDE that is the only header; None in any other case, including every error.

    With version-1 descriptors each message of a group has an MQMDE, so this runs for many messages and reads the fields
    with one `struct` call. `peel` is the authority; tests compare this function with it.
    """
    found = HEADS.find(buffer, 0, message.encoding, message.ccsid)
    if found is None or len(buffer) < MQMDE.SIZE or grouping_of(message) != INITIAL:
        return None
    _, context = found
    length, encoding, ccsid, raw_format, group_id, *sequence = _EXTENSION_ROWS[context.order].unpack_from(buffer)
    msg_seq_number, offset, msg_flags, original_length = sequence
    format_ = trimmed(raw_format, context.charset)
    is_plain = (
        length == MQMDE.SIZE
        and 1 <= msg_seq_number <= MOST
        and 0 <= offset <= MOST
        and not msg_flags & UNKNOWN_FLAGS
        and message.msg_type != MQMT_REPORT
        and format_ not in HEADER_FORMATS
        and ccsid != MQCCSI_INHERIT
    )
    if not is_plain:
        return None
    return PhysicalMessage(
        message.source,
        message.framing,
        message.msg_type,
        message.correl_id,
        buffer[MQMDE.SIZE :],
        message.message_id,
        b"" if group_id == MQ_NO_ID else group_id,
        msg_seq_number,
        offset,
        msg_flags,
        original_length,
        encoding,
        ccsid,
        format_,
        message.put_time,
        message.received_at,
        message.properties,
    )


def properties(buffer: Buffer, link: HeaderLink) -> dict[str, str]:
    """Return the properties that one header gives a message. Raises WireError."""
    header = link.header
    if isinstance(header, MQRFH | MQRFH2) and header.struc_length > LONGEST_HEADER:
        why = f"{header.struc_length:,} bytes; the gateway reads at most {LONGEST_HEADER:,}"
        raise WireError(f"{type(header).__name__}.struc_length", link.at + 8, why)
    match header:
        case MQRFH2():
            return rfh.properties_of(rfh.read_folders(buffer, link.at + header.SIZE, link.end, header, link.context))
        case MQRFH():
            codec = (family(link.ccsid) and charset(link.ccsid)) or link.context.charset
            return rfh.read_pairs(buffer, link.at + header.SIZE, link.end, codec)
        case _:
            announced = {name: str(getattr(header, name)) for name in _NAMES.get(type(header), ())}
            return {f"{type(header).__name__.lower()}.{name}": text for name, text in announced.items() if text}


def origin(descriptor: MQMD1) -> dict[str, str]:
    """Return the properties for a message's origin, its reply-to queue and its reports. Empty fields are left out."""
    values = {name: getattr(descriptor, name) for name in ORIGIN_NAMES}
    texts = {
        name: (value.hex() if any(value) else "") if isinstance(value, bytes) else str(value or "")
        for name, value in values.items()
    }
    return {f"{_ORIGIN}{name}": text for name, text in texts.items() if text}
