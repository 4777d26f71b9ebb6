"""IBM MQ's elementary types, and the constants that the gateway speaks of, by their names in `cmqc.h`."""

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
MQFMT_MD_EXTENSION = "MQHMDE"

MQMT_DATAGRAM = 8
MQEI_UNLIMITED = -1
MQPRI_PRIORITY_AS_Q_DEF = -1
MQPER_PERSISTENCE_AS_Q_DEF = 2

MQCCSI_INHERIT = -2
MQCCSI_EMBEDDED = -1
MQCCSI_UNDEFINED = 0

MQOL_UNDEFINED = -1
MQ_NO_ID = bytes(24)
"""MQMI_NONE, MQCI_NONE and MQGI_NONE."""

MQMF_SEGMENTATION_ALLOWED = 1
MQMF_SEGMENT = 2
MQMF_LAST_SEGMENT = 4
MQMF_MSG_IN_GROUP = 8
MQMF_LAST_MSG_IN_GROUP = 16
