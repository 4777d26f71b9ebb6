"""The message descriptor and the headers that may precede a message's data.

Sources: IBM MQ, "MQMD - Message descriptor", "MQMDE - Message descriptor extension", "MQDLH - Dead-letter header",
"MQXQH - Transmission-queue header", "MQRFH - Rules and formatting header" and "MQRFH2 - Rules and formatting header 2".
"""

from datetime import UTC, datetime

from app.codecs.ibm_mq.constants import (
    MQ_NO_ID,
    MQBYTE24,
    MQBYTE32,
    MQCCSI_INHERIT,
    MQCCSI_UNDEFINED,
    MQCHAR4,
    MQCHAR8,
    MQCHAR12,
    MQCHAR28,
    MQCHAR32,
    MQCHAR48,
    MQEI_UNLIMITED,
    MQFMT_NONE,
    MQLONG,
    MQMT_DATAGRAM,
    MQOL_UNDEFINED,
    MQPER_PERSISTENCE_AS_Q_DEF,
    MQPRI_PRIORITY_AS_Q_DEF,
)
from app.codecs.ibm_mq.encodings import MQENC_BIG_ENDIAN
from app.wire import Layout, row


class MQMD1(Layout):
    """MQMD version 1, the message descriptor: 324 bytes."""

    struc_id: MQCHAR4 = row("structure identifier", default="MD")
    version: MQLONG = row("structure version number", default=1)
    report: MQLONG = row("options for report messages", default=0)
    msg_type: MQLONG = row("message type", default=MQMT_DATAGRAM)
    expiry: MQLONG = row("message lifetime in tenths of a second, -1 for unlimited", default=MQEI_UNLIMITED)
    feedback: MQLONG = row("feedback or reason code", default=0)
    encoding: MQLONG = row("numeric encoding of the data that follows", default=MQENC_BIG_ENDIAN)
    coded_char_set_id: MQLONG = row("character set of the data that follows", default=MQCCSI_UNDEFINED)
    format: MQCHAR8 = row("format name of the data that follows", default=MQFMT_NONE)
    priority: MQLONG = row("message priority", default=MQPRI_PRIORITY_AS_Q_DEF)
    persistence: MQLONG = row("message persistence", default=MQPER_PERSISTENCE_AS_Q_DEF)
    msg_id: MQBYTE24 = row("message identifier", default=MQ_NO_ID)
    correl_id: MQBYTE24 = row("correlation identifier", default=MQ_NO_ID)
    backout_count: MQLONG = row("backout counter", default=0)
    reply_to_q: MQCHAR48 = row("name of reply queue", default="")
    reply_to_q_mgr: MQCHAR48 = row("name of reply queue manager", default="")
    user_identifier: MQCHAR12 = row("user identifier", default="")
    accounting_token: MQBYTE32 = row("accounting token", default=bytes(32))
    appl_identity_data: MQCHAR32 = row("application data relating to identity", default="")
    put_appl_type: MQLONG = row("type of application that put the message", default=0)
    put_appl_name: MQCHAR28 = row("name of application that put the message", default="")
    put_date: MQCHAR8 = row("date when message was put, YYYYMMDD in GMT", default="")
    put_time: MQCHAR8 = row("time when message was put, HHMMSSTH in GMT", default="")
    appl_origin_data: MQCHAR4 = row("application data relating to origin", default="")


class MQMD2(MQMD1):
    """MQMD version 2: 364 bytes, with five more fields, which an MQMDE carries for version 1."""

    version: MQLONG = row("structure version number", default=2)
    group_id: MQBYTE24 = row("group identifier", default=MQ_NO_ID)
    msg_seq_number: MQLONG = row("sequence number of logical message within group", default=1)
    offset: MQLONG = row("offset of data in physical message from start of logical message", default=0)
    msg_flags: MQLONG = row("message flags", default=0)
    original_length: MQLONG = row("length of original message", default=MQOL_UNDEFINED)


class MQH(Layout):
    """The beginning that most headers share: 32 bytes."""

    struc_id: MQCHAR4 = row("structure identifier")
    version: MQLONG = row("structure version number")
    struc_length: MQLONG = row("length of the structure, all that belongs to it included")
    encoding: MQLONG = row("numeric encoding of data that follows the structure", default=MQENC_BIG_ENDIAN)
    coded_char_set_id: MQLONG = row("character-set identifier of data that follows", default=MQCCSI_UNDEFINED)
    format: MQCHAR8 = row("format name of data that follows", default=MQFMT_NONE)
    flags: MQLONG = row("general flags", default=0)


class MQCIH(MQH):
    """MQCIH, the CICS bridge header: 164 bytes for version 1, 180 bytes for version 2."""


class MQDH(MQH):
    """MQDH, the distribution header: 48 bytes, then records of objects and of puts."""


class MQEPH(MQH):
    """MQEPH, the embedded PCF header: 68 bytes, then PCF parameters."""


class MQIIH(MQH):
    """MQIIH, the IMS information header: 84 bytes."""


class MQRMH(MQH):
    """MQRMH, the reference message header: 108 bytes, then names."""


class MQSAPH(MQH):
    """MQSAPH, the SAP header of the link for R/3: 108 bytes."""


class MQWIH(MQH):
    """MQWIH, the work information header: 120 bytes."""


class MQMDE(MQH):
    """MQMDE, the message descriptor extension: 72 bytes (table 2 of its page)."""

    struc_id: MQCHAR4 = row("structure identifier", default="MDE")
    version: MQLONG = row("structure version number", default=2)
    struc_length: MQLONG = row("length of MQMDE structure", default=72)
    group_id: MQBYTE24 = row("group identifier", default=MQ_NO_ID)
    msg_seq_number: MQLONG = row("sequence number of logical message within group", default=1)
    offset: MQLONG = row("offset of data in physical message from start of logical message", default=0)
    msg_flags: MQLONG = row("message flags", default=0)
    original_length: MQLONG = row("length of original message", default=MQOL_UNDEFINED)


class MQDLH(Layout):
    """MQDLH, the dead-letter header: 172 bytes."""

    struc_id: MQCHAR4 = row("structure identifier", default="DLH")
    version: MQLONG = row("structure version number", default=1)
    reason: MQLONG = row("reason or feedback code why the message is on the dead-letter queue", default=0)
    dest_q_name: MQCHAR48 = row("name of original destination queue", default="")
    dest_q_mgr_name: MQCHAR48 = row("name of original destination queue manager", default="")
    encoding: MQLONG = row("numeric encoding of data that follows MQDLH", default=0)
    coded_char_set_id: MQLONG = row("character set of data that follows MQDLH", default=MQCCSI_UNDEFINED)
    format: MQCHAR8 = row("format name of data that follows MQDLH", default=MQFMT_NONE)
    put_appl_type: MQLONG = row("type of application that put the message on the dead-letter queue", default=0)
    put_appl_name: MQCHAR28 = row("name of that application", default="")
    put_date: MQCHAR8 = row("date when it did so, YYYYMMDD in GMT", default="")
    put_time: MQCHAR8 = row("time when it did so, HHMMSSTH in GMT", default="")


class MQXQH(Layout):
    """MQXQH, the transmission-queue header: 104 bytes, then its last field MsgDesc, an MQMD1; together 428 bytes."""

    struc_id: MQCHAR4 = row("structure identifier", default="XQH")
    version: MQLONG = row("structure version number", default=1)
    remote_q_name: MQCHAR48 = row("name of destination queue", default="")
    remote_q_mgr_name: MQCHAR48 = row("name of destination queue manager", default="")


class MQRFH(MQH):
    """MQRFH, the rules and formatting header: 32 bytes, then NameValueString."""

    struc_id: MQCHAR4 = row("structure identifier", default="RFH")
    version: MQLONG = row("structure version number", default=1)
    struc_length: MQLONG = row("total length of MQRFH including NameValueString", default=32)


class MQRFH2(MQH):
    """MQRFH2, the rules and formatting header 2: 36 bytes, then pairs of NameValueLength and NameValueData."""

    struc_id: MQCHAR4 = row("structure identifier", default="RFH")
    version: MQLONG = row("structure version number", default=2)
    struc_length: MQLONG = row("total length of MQRFH2 including all NameValueLengths and NameValueData", default=36)
    coded_char_set_id: MQLONG = row("character-set identifier of data that follows", default=MQCCSI_INHERIT)
    name_value_ccsid: MQLONG = row("character set of NameValueData", default=1208)


def put_time_in(put_date_and_time: str) -> int:
    """Return the time of a PutDate followed by its PutTime, in microseconds since 1970; 0 if it is not a valid time."""
    try:
        moment = datetime.strptime(put_date_and_time[:14] + "+0000", "%Y%m%d%H%M%S%z")
        return int(moment.timestamp()) * 1_000_000 + int(put_date_and_time[14:]) * 10_000
    except ValueError:
        return 0


def put_date_and_time(put_time_in: int) -> tuple[str, str]:
    """Return the PutDate and the PutTime of a time; two empty strings for 0."""
    if not put_time_in:
        return "", ""
    seconds, rest = divmod(put_time_in, 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y%m%d}", f"{moment:%H%M%S}{rest // 10_000:02d}"
