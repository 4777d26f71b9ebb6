"""The framing `mq_group`: a group of IBM MQ messages is one file, whatever program sends it.

A group has a GroupId and logical messages with MsgSeqNumber 1, 2, 3 ...; a flag marks the last one. A logical message
may be cut into segments by Offset. A segmented message outside a group has its own GroupId. A message that is neither
in a group nor segmented is a file by itself, with its MsgId as key. The file consists of all bodies, joined byte for
byte; their bytes are not interpreted. Its name is the property `filename` of the first message, or else its identifier.

Source: IBM MQ, "MQMD - Message descriptor" (GroupId, MsgSeqNumber, Offset, MsgFlags, OriginalLength), and the reason
codes with which MQPUT refuses them (2249 to 2253, 2258).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from app.codecs.ibm_mq.constants import (
    MQ_NO_ID,
    MQFMT_STRING,
    MQMF_LAST_MSG_IN_GROUP,
    MQMF_LAST_SEGMENT,
    MQMF_MSG_IN_GROUP,
    MQMF_SEGMENT,
    MQMT_DATAGRAM,
    MQMT_REPORT,
    MQOL_UNDEFINED,
    SEGMENT_FLAGS,
)
from app.codecs.ibm_mq.structure_writing import identifier
from app.framing.protocol import (
    ArrangementName,
    Bodies,
    DeliveryContents,
    FileContent,
    Framing,
    Received,
    fixed_records,
    joined_file,
    message_identifier,
)
from app.model.attachment import AttachmentDefinition, AttachmentKind
from app.model.errors import InvalidInputError
from app.model.event import GroupPart
from app.model.framing_facts import FramingTraits
from app.model.message import NO_PROPERTIES, PhysicalMessage
from app.model.records import AttachmentRecord, DeliveryRecord, FramingOptions, OutgoingAttachment

HIGHEST = 999_999_999
"""The highest MsgSeqNumber and the highest Offset."""

FILE_NAME = "filename"
DESCRIPTION = "description"
LONGEST_PROPERTY = 4096
"""The most characters of a file name or a description; a longer one is ignored."""

_IN_GROUP = MQMF_MSG_IN_GROUP | MQMF_LAST_MSG_IN_GROUP
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_TRAITS = FramingTraits("mq_group", reads_segments=True, refused_msg_types=frozenset({MQMT_REPORT}))


@dataclass(frozen=True)
class MqGroup(Framing):
    """The framing `mq_group`; see `app.framing.protocol.Framing`."""

    traits: FramingTraits = _TRAITS
    names_missing: bool = True
    arrangement: ArrangementName = "grouped"
    kinds: frozenset[AttachmentKind] = frozenset({AttachmentKind.TEXT_FILE, AttachmentKind.BINARY_FILE})
    options: frozenset[str] = frozenset({"body_limit", "ccsid", "encoding", "group"})

    def read(self, message: PhysicalMessage, known: int) -> GroupPart:  # noqa: ARG002 - it has no dialects
        """Return the event of a physical message.

        Raises InvalidInputError: `report-message`, `no-identifier`, or `bad-grouping` with the field of the descriptor.
        """
        if message.msg_type in self.traits.refused_msg_types:
            raise InvalidInputError(
                "report-message", "msg_type", -1, "a report message is about another message and has no data of a file"
            )
        key = self.attachment_key(message)
        flags = message.msg_flags
        if (fault := _number_fault(message) or _segment_fault(message)) is not None:
            raise InvalidInputError("bad-grouping", *fault)
        return GroupPart(
            _definition(message, key),
            message.msg_seq_number,
            message.offset,
            len(message.body),
            ends_message=not flags & SEGMENT_FLAGS or bool(flags & MQMF_LAST_SEGMENT),
            ends_group=not flags & _IN_GROUP or bool(flags & MQMF_LAST_MSG_IN_GROUP),
        )

    def attachment_key(self, message: PhysicalMessage) -> bytes:
        """Return the 24 bytes that identify a message's group. Raises InvalidInputError when it has none.

        They are its GroupId, or the MsgId of a message that is in no group and is not a segment.
        """
        row = "group_id" if message.msg_flags & (_IN_GROUP | SEGMENT_FLAGS) else "message_id"
        key: bytes = getattr(message, row)
        if len(key) > len(MQ_NO_ID):
            raise InvalidInputError(
                "no-identifier", row, len(MQ_NO_ID), f"{len(key)} bytes, at most {len(MQ_NO_ID)} are allowed"
            )
        key = identifier(key)
        if key == MQ_NO_ID:
            raise InvalidInputError("no-identifier", row, -1, "it is empty, so the group of the message is unknown")
        return key

    def file(self, record: AttachmentRecord, received: Received) -> FileContent:  # noqa: ARG002
        return joined_file(received)

    def properties(self, attachment: OutgoingAttachment) -> Mapping[str, str]:
        return properties(attachment)

    def write(
        self, delivery: DeliveryRecord, options: FramingOptions, contents: DeliveryContents
    ) -> Iterator[PhysicalMessage]:
        return messages(
            delivery, options, lambda attachment: fixed_records(contents.pieces(attachment), options.body_limit)
        )


MQ_GROUP = MqGroup()


_Fault = tuple[str, int, str]


def _number_fault(message: PhysicalMessage) -> _Fault | None:
    """Return the fault of a MsgSeqNumber and an Offset, given the flags; None if there is none."""
    number, offset, flags = message.msg_seq_number, message.offset, message.msg_flags
    if not 1 <= number <= HIGHEST:
        return "msg_seq_number", -1, f"{number} is outside 1 to {HIGHEST}"
    if number > 1 and not flags & _IN_GROUP:
        return "msg_seq_number", -1, f"{number}, but no flag puts the message into a group"
    if not 0 <= offset <= HIGHEST:
        return "offset", -1, f"{offset} is outside 0 to {HIGHEST}"
    if offset and not flags & SEGMENT_FLAGS:
        return "offset", -1, f"{offset}, but no flag makes the message a segment"
    return None


def _segment_fault(message: PhysicalMessage) -> _Fault | None:
    if not message.msg_flags & SEGMENT_FLAGS:
        return None
    size, original = len(message.body), message.original_length
    if original not in {MQOL_UNDEFINED, size}:
        return "original_length", -1, f"the segment had {original} bytes and has {size}: it was truncated or converted"
    if not size and not message.msg_flags & MQMF_LAST_SEGMENT:
        return "body", 0, "only the last segment of a message may be empty"
    return None


def _definition(message: PhysicalMessage, key: bytes) -> AttachmentDefinition:
    kind = AttachmentKind.TEXT_FILE if message.format.rstrip() == MQFMT_STRING else AttachmentKind.BINARY_FILE
    properties = message.properties
    if not properties:
        return AttachmentDefinition(kind, key, _called_by(message), key.hex())
    description = _sound(properties, DESCRIPTION) or ""
    if (name := _sound(properties, FILE_NAME)) is not None:
        return AttachmentDefinition(kind, key, "FILENAME", name, description)
    return AttachmentDefinition(kind, key, _called_by(message), key.hex(), description)


def _called_by(message: PhysicalMessage) -> str:
    return "GROUPID" if message.msg_flags & (_IN_GROUP | SEGMENT_FLAGS) else "MSGID"


def _sound(properties: Mapping[str, str], name: str) -> str | None:
    """Return a property that is short and printable; None for others, which have another meaning for their senders."""
    text = properties.get(name, "")
    return text if 0 < len(text) <= LONGEST_PROPERTY and not _CONTROL.search(text) else None


def messages(delivery: DeliveryRecord, how: FramingOptions, bodies: Bodies) -> Iterator[PhysicalMessage]:
    """Make all physical messages of a delivery: each attachment is a group, or one message in segments.

    The GroupId is the attachment's correlid and eight zeros. Raises InvalidInputError for a file too long for segments.
    """
    numbers = count()
    for attachment in delivery.attachments:
        if how.group == "segments" and attachment.size > HIGHEST:
            why = f"{attachment.size:,} bytes, but segments reach only {HIGHEST:,}: send it as the messages of a group"
            raise InvalidInputError("too-large", "offset", -1, why)
        text = attachment.kind is AttachmentKind.TEXT_FILE
        given = properties(attachment)
        offset = 0
        for number, (body, is_last) in enumerate(_with_last(bodies(attachment)), 1):
            flags = MQMF_SEGMENT if how.group == "segments" else MQMF_MSG_IN_GROUP
            if is_last:
                flags |= MQMF_LAST_SEGMENT if how.group == "segments" else MQMF_LAST_MSG_IN_GROUP
            yield PhysicalMessage(
                source=delivery.destination,
                framing=_TRAITS.name,
                msg_type=delivery.original_msg_type or MQMT_DATAGRAM,
                correl_id=delivery.original_correl_id,
                body=body,
                message_id=message_identifier(delivery.id, next(numbers)),
                group_id=identifier(attachment.correl_id),
                encoding=how.encoding,
                ccsid=how.ccsid if text else 0,
                format=MQFMT_STRING if text else "",
                properties=given if number == 1 else NO_PROPERTIES,
                msg_seq_number=1 if how.group == "segments" else number,
                offset=offset if how.group == "segments" else 0,
                msg_flags=flags,
            )
            offset += len(body)


def _with_last(bodies: Iterator[bytes | memoryview]) -> Iterator[tuple[bytes | memoryview, bool]]:
    """Yield each body and whether it is the last. Without any body, yield one empty body, for an empty file."""
    body = next(bodies, b"")
    for following in bodies:
        yield body, False
        body = following
    yield body, True


def properties(attachment: OutgoingAttachment) -> Mapping[str, str]:
    """Return the properties that the first message of an attachment has, in addition to its descriptor."""
    given = {FILE_NAME: attachment.qualifier_2, DESCRIPTION: attachment.description}
    return {name: text for name, text in given.items() if text}
