"""Messages, their attachments and deliveries, as clients see them."""

from dataclasses import dataclass, fields
from enum import IntEnum, StrEnum
from operator import attrgetter
from typing import Any, Literal

DataSetVersion = Literal["V8", "V9"]
"""The version of the SAS data set that a receiving program expects."""


class AttachmentKind(IntEnum):
    """The attachment type of an attachment header (seed document 000)."""

    DATA_SET = 1
    TEXT_FILE = 2
    BINARY_FILE = 3

    @property
    def word(self) -> str:
        return {1: "data-set", 2: "text-file", 3: "binary-file"}[self]


class AttachmentState(StrEnum):
    """An attachment's life; `app.assembly.states` holds the transitions."""

    RECEIVING = "receiving"
    COMPLETE = "complete"
    FINISHED = "finished"
    EXPIRED = "expired"
    QUARANTINED = "quarantined"
    DELETED = "deleted"


class DeliveryState(StrEnum):
    """The life of an outgoing message."""

    QUEUED = "queued"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class AttachmentDefinition:
    """A sender's facts about an attachment: an entry of an attachment header's list, or the descriptor of a message.

    `correl_id` is the 16-byte attachment correlid; of an IBM MQ group its GroupId of 24 bytes, and of a message that is
    a file by itself its MsgId. For files qualifier 1 is FILENAME or FILEREF and qualifier 2 the sender's file name or
    fileref, for data sets they are the library and the member; an attachment without a name has its GROUPID or MSGID,
    in hexadecimal. Names are data, never paths. `warnings` say what is in doubt about how they were read."""

    kind: AttachmentKind
    correl_id: bytes
    qualifier_1: str
    qualifier_2: str
    description: str = ""
    minor_version: int = 0
    major_version: int = 0
    warnings: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[type["AttachmentDefinition"], tuple[Any, ...]]:
        """Return the values alone: a pipeline's tasks send very many definitions, and dataclasses ask for their
        names."""
        return AttachmentDefinition, _DEFINITION_VALUES(self)


_DEFINITION_VALUES = attrgetter(*(each.name for each in fields(AttachmentDefinition)))


@dataclass(frozen=True, slots=True)
class MessageHeader:
    """The contents of an attachment header message. Correlids have 24 bytes, attachment correlids 16."""

    header_correl_id: bytes
    original_msg_type: int
    original_correl_id: bytes
    message_correl_id: bytes
    attachments: tuple[AttachmentDefinition, ...]
