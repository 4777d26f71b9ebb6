"""MQGMO_CONVERT: character data in the character set that the getter asks for.

Only format MQSTR is converted, and code pages that Python knows. Source: IBM MQ, "Data conversion" and the pages of
reasons 2110, 2111, 2115, 2119 and 2120.
"""

import codecs

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.structures import MessageDescriptor

_CODECS = {
    437: "cp437",
    819: "latin-1",
    850: "cp850",
    923: "iso8859-15",
    1200: "utf-16-be",
    1202: "utf-16-le",
    1208: "utf-8",
    1252: "cp1252",
    37: "cp037",
    273: "cp273",
    500: "cp500",
    1140: "cp1140",
}


def convert(descriptor: MessageDescriptor, data: bytes, encoding: int, ccsid: int) -> tuple[bytes, int, int]:
    """The data in this encoding and character set, and the two. Raises Refused where it stays as it is."""
    if ccsid == descriptor.coded_char_set_id and encoding == descriptor.encoding:
        return data, encoding, ccsid
    if descriptor.format != mq.MQFMT_STRING:
        raise Refused(mq.MQRC_FORMAT_ERROR, mq.MQCC_WARNING)
    source, target = _CODECS.get(descriptor.coded_char_set_id), _CODECS.get(ccsid)
    if source is None:
        raise Refused(mq.MQRC_SOURCE_CCSID_ERROR, mq.MQCC_WARNING)
    if target is None:
        raise Refused(mq.MQRC_TARGET_CCSID_ERROR, mq.MQCC_WARNING)
    try:
        return codecs.encode(codecs.decode(data, source), target, "replace"), encoding, ccsid
    except UnicodeDecodeError:
        raise Refused(mq.MQRC_NOT_CONVERTED, mq.MQCC_WARNING) from None
