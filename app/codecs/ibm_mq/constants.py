"""IBM MQ's elementary types and the constants that the gateway uses, by their names in `cmqc.h`."""

from typing import Annotated

from app.wire import Chars, Num, Raw

MQLONG = Annotated[int, Num("i")]
MQCHAR4 = Annotated[str, Chars(4)]
MQCHAR8 = Annotated[str, Chars(8)]
MQCHAR12 = Annotated[str, Chars(12)]
MQCHAR28 = Annotated[str, Chars(28)]
MQCHAR32 = Annotated[str, Chars(32)]
MQCHAR48 = Annotated[str, Chars(48)]
MQBYTE24 = Annotated[bytes, Raw(24)]
MQBYTE32 = Annotated[bytes, Raw(32)]

MQFMT_NONE = ""
MQFMT_STRING = "MQSTR"
MQFMT_CICS = "MQCICS"
MQFMT_DEAD_LETTER_HEADER = "MQDEAD"
MQFMT_DIST_HEADER = "MQHDIST"
MQFMT_EMBEDDED_PCF = "MQHEPCF"
MQFMT_IMS = "MQIMS"
MQFMT_MD_EXTENSION = "MQHMDE"
MQFMT_REF_MSG_HEADER = "MQHREF"
MQFMT_RF_HEADER = "MQHRF"
MQFMT_RF_HEADER_2 = "MQHRF2"
MQFMT_SAP = "MQHSAP"
MQFMT_WORK_INFO_HEADER = "MQHWIH"
MQFMT_XMIT_Q_HEADER = "MQXMIT"

HEADER_FORMATS = frozenset(
    {
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
    }
)
"""Formats of data that begins with a header."""

MQMT_REPLY = 2
MQMT_REPORT = 4
MQMT_DATAGRAM = 8
MQEI_UNLIMITED = -1
MQPRI_PRIORITY_AS_Q_DEF = -1
MQPER_PERSISTENCE_AS_Q_DEF = 2
MQRO_PASS_CORREL_ID = 64
MQRO_PASS_MSG_ID = 128

MQCCSI_INHERIT = -2
MQCCSI_UNDEFINED = 0
"""Also MQCCSI_Q_MGR, the queue manager's own character set, which a receiver does not learn."""

MQOL_UNDEFINED = -1
MQ_NO_ID = bytes(24)
"""MQMI_NONE, MQCI_NONE and MQGI_NONE."""

MQMF_SEGMENTATION_ALLOWED = 1
MQMF_SEGMENT = 2
MQMF_LAST_SEGMENT = 4
MQMF_MSG_IN_GROUP = 8
MQMF_LAST_MSG_IN_GROUP = 16
SEGMENT_FLAGS = MQMF_SEGMENT | MQMF_LAST_SEGMENT
"""Message flags of segments. A queue manager that puts the segments of a message together sets both."""
MQMF_REJECT_UNSUP_MASK = 0xFFF
"""Message flags that a queue manager refuses if it does not know them."""

MQRC_MDE_ERROR = 2248
MQRC_MSG_FLAGS_ERROR = 2249
MQRC_MSG_SEQ_NUMBER_ERROR = 2250
MQRC_OFFSET_ERROR = 2251
MQRC_ORIGINAL_LENGTH_ERROR = 2252
