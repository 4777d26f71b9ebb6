"""A message without its headers: what these say becomes fields and properties of the message.

| header | becomes |
|---|---|
| MQMDE | `group_id`, `msg_seq_number`, `offset`, `msg_flags`, `original_length` |
| MQXQH | all fields, from the descriptor in it; properties `mqxqh.remote_q_name` and `mqxqh.remote_q_mgr_name` |
| MQDLH | properties `mqdlh.reason`, `mqdlh.dest_q_name`, `mqdlh.dest_q_mgr_name` |
| MQRFH2 | properties: of the folder `usr` by their own names, of others by `folder.name` or `folder.group.name` |
| MQRFH | properties, by their own names |

Format, Encoding and CodedCharSetId are then those of the data. Values of properties are text as it stands in the
header, whatever its type; a property that has none is left out, and of a name given twice the last one counts.
"""

from collections.abc import Mapping

from app.codecs.ibm_mq import rfh
from app.codecs.ibm_mq.chain import Data, Header, Link, peel
from app.codecs.ibm_mq.encodings import charset
from app.codecs.ibm_mq.extension import grouping_of, with_grouping
from app.codecs.ibm_mq.headers import MQDLH, MQMD1, MQRFH, MQRFH2, MQXQH
from app.codecs.ibm_mq.moments import microseconds
from app.codecs.ibm_mq.words import HEADER_FORMATS, MQ_NO_ID
from app.model.message import PhysicalMessage
from app.wire.kinds import Buffer

_NAMES: Mapping[type[Header], tuple[str, ...]] = {
    MQXQH: ("remote_q_name", "remote_q_mgr_name"),
    MQDLH: ("reason", "dest_q_name", "dest_q_mgr_name"),
}
"""Rows that become properties."""


def unwrap(message: PhysicalMessage) -> PhysicalMessage:
    """The message that stands behind the headers of one that is as its descriptor describes it, with the whole of the
    buffer for its body. The body of the result is a slice of that one.

    The five fields are the descriptor's own, initial for version 1, when an MQMDE may be honoured. Raises WireError;
    its bytes are counted from the start of the body.
    """
    return message if message.format not in HEADER_FORMATS else _unwrapped(message)


def _unwrapped(message: PhysicalMessage) -> PhysicalMessage:
    said = Data(message.format, message.encoding, message.ccsid, 0, grouping_of(message), message.msg_type)
    buffer = memoryview(message.body)
    links, data = peel(buffer, said)
    named: dict[str, str] = {}
    for link in links:
        named |= properties(buffer, link)
        if isinstance(link.header, MQMD1):
            message = _original(message, link.header)
    if named:
        message = message._replace(properties={**message.properties, **named})
    if data.grouping != said.grouping:
        message = with_grouping(message, data.grouping)
    return message._replace(body=buffer[data.at :], format=data.format, encoding=data.encoding, ccsid=data.ccsid)


def properties(buffer: Buffer, link: Link) -> dict[str, str]:
    """The properties that one header gives a message. Raises WireError."""
    header = link.header
    match header:
        case MQRFH2():
            return rfh.properties_of(rfh.read_folders(buffer, link.at + header.SIZE, link.end, header, link.context))
        case MQRFH():
            codec = charset(link.ccsid) or link.context.charset
            return rfh.read_pairs(buffer, link.at + header.SIZE, link.end, codec)
        case _:
            names = _NAMES.get(type(header), ())
            return {f"{type(header).__name__.lower()}.{name}": str(getattr(header, name)) for name in names}


def _original(message: PhysicalMessage, descriptor: MQMD1) -> PhysicalMessage:
    """The message with what the descriptor in an MQXQH says of it."""
    return message._replace(
        msg_type=descriptor.msg_type,
        correl_id=descriptor.correl_id,
        message_id=b"" if descriptor.msg_id == MQ_NO_ID else descriptor.msg_id,
        put_time=microseconds(f"{descriptor.put_date:8}{descriptor.put_time:8}"),
    )
