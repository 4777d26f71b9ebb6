"""The specification's types and constants."""

from enum import IntEnum
from typing import Annotated, Final

from app.wire import Num, Raw, Text

HEADER_MSG_TYPE: Final = 100000
SUBORDINATE_MSG_TYPE: Final = 100001

MQ_MSG_TYPES: Final = frozenset({0, 1, 2, 4, 8})
"""Message types that IBM MQ defines (none, MQMT_REQUEST, MQMT_REPLY, MQMT_REPORT, MQMT_DATAGRAM)."""
APPLICATION_MSG_TYPES: Final = range(65_536, 1_000_000_000)
"""Message types that IBM MQ leaves to applications (MQMT_APPL_FIRST to MQMT_APPL_LAST)."""

Int = Annotated[int, Num("i")]
Long = Annotated[int, Num("long")]
Short = Annotated[int, Num("h")]
Char = Annotated[bytes, Raw(1)]
Byte4 = Annotated[bytes, Raw(4)]
Correlid = Annotated[bytes, Raw(24)]
IntString = Annotated[str, Text("i")]
LongString = Annotated[str, Text("long")]
LongStringOrOne = Annotated[str, Text("long", or_one=True)]


class MessageKind(IntEnum):
    """The type identifier at the beginning of a data set's messages."""

    DEFINITION = 1
    VARIABLES = 2
    OBSERVATIONS = 3
    INDEXES = 4
    CONSTRAINTS = 5
