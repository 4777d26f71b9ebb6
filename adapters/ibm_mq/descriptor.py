"""Conversion between message descriptors in the client library's form and physical messages."""

import sys
from dataclasses import replace
from time import time_ns
from typing import Any, Final, Literal

from adapters.ibm_mq.client import MqMessage
from adapters.ibm_mq.constants import MQAT_UNIX, MQPER_NOT_PERSISTENT, MQPER_PERSISTENT
from adapters.ibm_mq.reason_codes import MQRC_BACKOUT_THRESHOLD_REACHED
from adapters.ibm_mq.settings import DestinationSettings
from app.codecs.ibm_mq.constants import (
    MQEI_UNLIMITED,
    MQFMT_DEAD_LETTER_HEADER,
    MQFMT_MD_EXTENSION,
    MQFMT_STRING,
    MQMF_LAST_SEGMENT,
    MQMF_SEGMENT,
    MQMT_DATAGRAM,
    MQPRI_PRIORITY_AS_Q_DEF,
)
from app.codecs.ibm_mq.encodings import LATIN_1_CCSID, MQENC_BIG_ENDIAN, MQENC_LITTLE_ENDIAN
from app.codecs.ibm_mq.extension import extension, grouping_of
from app.codecs.ibm_mq.field_positions import place
from app.codecs.ibm_mq.headers import MQDLH, MQMD1, MQMD2, MQMDE, put_date_and_time
from app.codecs.ibm_mq.image import described
from app.codecs.ibm_mq.rfh import with_properties
from app.codecs.ibm_mq.structure_writing import ASCII, identifier
from app.model.message import PhysicalMessage
from app.model.trace_context import TRACE_PARENT
from app.wire import Context

NATIVE: Final = Context("<" if sys.byteorder == "little" else ">", ASCII)
"""The byte order and character set of the client library's structures."""
NATIVE_ENCODING: Final = MQENC_LITTLE_ENDIAN if NATIVE.order == "<" else MQENC_BIG_ENDIAN
EXTENSION_SIZE: Final = MQMDE.SIZE
UTF_8: Final = 1208
"""The CCSID."""
_BACKOUT_COUNT = place(MQMD1, "backout_count")
_SEGMENT = MQMF_SEGMENT | MQMF_LAST_SEGMENT


def text_to_put(text: bytes, msg_type: int, persistence: int, correl_id: bytes) -> MqMessage:
    """Return a message with a text in UTF-8 that the gateway has for itself or for another program."""
    descriptor = MQMD2(
        msg_type=msg_type,
        expiry=MQEI_UNLIMITED,
        encoding=NATIVE_ENCODING,
        coded_char_set_id=UTF_8,
        format=MQFMT_STRING,
        persistence=persistence,
        correl_id=correl_id,
    )
    return MqMessage(descriptor.encode(NATIVE), text)


def descriptor_to_get(version: Literal[1, 2]) -> bytes:
    """Return the descriptor to give to MQGET for any message, an MQMD of this version."""
    return MQMD1().encode(NATIVE) if version == 1 else MQMD2().encode(NATIVE)


def received(message: MqMessage, source: str, framing: str) -> tuple[PhysicalMessage, int]:
    """Return a message as its descriptor describes it, with all headers in its body, and its backout count."""
    backed_out = int.from_bytes(message.descriptor[_BACKOUT_COUNT], sys.byteorder)
    received_at = time_ns() // 1000
    return described(message.descriptor, message.body, source, framing, received_at), backed_out


def to_put(message: PhysicalMessage, settings: DestinationSettings, ccsid: int) -> MqMessage:
    """Return the descriptor and data with which a message is put.

    `ccsid` is the queue manager's own, in which an MQMDE has to be written.

    Raises WireError for a value that its field cannot hold.
    """
    message = message._replace(encoding=message.encoding or NATIVE_ENCODING, ccsid=message.ccsid or ccsid)
    # A traceparent alone makes no MQRFH2: readers of a framing without properties expect none.
    is_told = settings.properties == "mqrfh2" and not message.msg_flags & _SEGMENT
    if is_told and message.properties.keys() - {TRACE_PARENT}:
        message = with_properties(message, NATIVE_ENCODING, LATIN_1_CCSID)
    fields: dict[str, Any] = {
        "msg_type": message.msg_type or MQMT_DATAGRAM,
        "expiry": MQEI_UNLIMITED if settings.expiry is None else round(settings.expiry * 10),
        "encoding": message.encoding,
        "coded_char_set_id": message.ccsid,
        "format": message.format,
        "priority": MQPRI_PRIORITY_AS_Q_DEF if settings.priority is None else settings.priority,
        "persistence": MQPER_PERSISTENT if settings.persistent else MQPER_NOT_PERSISTENT,
        "msg_id": identifier(message.message_id),
        "correl_id": identifier(message.correl_id),
        "reply_to_q": settings.answer_missing or "",
    }
    if settings.mqmd_version == 2:
        grouping = grouping_of(message)._asdict()
        return MqMessage(MQMD2(**fields, **grouping).encode(NATIVE), bytes(message.body))
    encoding = settings.queue_manager_encoding
    prefix = extension(message, encoding, ccsid)
    if prefix:
        fields |= {"encoding": encoding, "coded_char_set_id": ccsid, "format": MQFMT_MD_EXTENSION}
    return MqMessage(MQMD1(**fields).encode(NATIVE), prefix + bytes(message.body))


def dead_letter(message: MqMessage, queue: str, queue_manager: str) -> MqMessage:
    """Return a message got from `queue` with an MQDLH in front, because it was backed out too often."""
    descriptor, end = MQMD1.decode(message.descriptor, 0, NATIVE)
    put_date, put_time = put_date_and_time(time_ns() // 1000)
    header = MQDLH(
        reason=MQRC_BACKOUT_THRESHOLD_REACHED,
        dest_q_name=queue,
        dest_q_mgr_name=queue_manager,
        encoding=descriptor.encoding,
        coded_char_set_id=descriptor.coded_char_set_id,
        format=descriptor.format,
        put_appl_type=MQAT_UNIX,
        put_appl_name="attachment-gateway",
        put_date=put_date,
        put_time=put_time,
    )
    headed = replace(
        descriptor,
        encoding=NATIVE_ENCODING,
        coded_char_set_id=LATIN_1_CCSID,
        format=MQFMT_DEAD_LETTER_HEADER,
    )
    return MqMessage(headed.encode(NATIVE) + message.descriptor[end:], header.encode(NATIVE) + message.body)
