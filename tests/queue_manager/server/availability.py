"""What of a group or a segmented message is there.

Sources: IBM MQ, "MQGMO" options MQGMO_COMPLETE_MSG, MQGMO_ALL_MSGS_AVAILABLE and MQGMO_ALL_SEGMENTS_AVAILABLE, and
"Logical and physical ordering". That a group stands where its first message stands, whichever arrived first, is
believed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.queue import Message
from tests.queue_manager.server.structures import MessageDescriptor


def segments(message: Message, members: Iterable[Message]) -> list[Message] | None:
    """All segments of the message's logical message, from the first on; None when some are missing.

    `members` are the messages of the same GroupId that can be had. A message that is no segment is its only one.
    """
    if not message.descriptor.msg_flags & mq.MQMF_SEGMENTED:
        return [message]
    found: list[Message] = []
    end = 0
    for segment in sorted(_of_message(message, members), key=lambda segment: segment.descriptor.offset):
        if segment.descriptor.offset != end:
            return None
        found.append(segment)
        end += _length(segment)
        if segment.descriptor.msg_flags & mq.MQMF_LAST_SEGMENT:
            return found
    return None


def group_is_complete(members: Iterable[Message]) -> bool:
    """Whether these are all messages of a group, each with all its segments."""
    messages: dict[int, list[Message]] = {}
    last = 0
    for member in members:
        number = member.descriptor.msg_seq_number
        messages.setdefault(number, []).append(member)
        if member.descriptor.msg_flags & mq.MQMF_LAST_MSG_IN_GROUP:
            last = number
    return bool(last) and all(
        number in messages and segments(messages[number][0], messages[number]) is not None
        for number in range(1, last + 1)
    )


def _of_message(message: Message, members: Iterable[Message]) -> list[Message]:
    number = message.descriptor.msg_seq_number
    return [member for member in members if member.descriptor.msg_seq_number == number]


def _length(segment: Message) -> int:
    """How much of the logical message a segment stands for; a report may hold less than that."""
    length = segment.descriptor.original_length
    return len(segment.data) if length == mq.MQOL_UNDEFINED else length


@dataclass(frozen=True, slots=True)
class Whole:
    """What an MQGET takes: a message, or the segments of one put together."""

    parts: list[Message]
    descriptor: MessageDescriptor
    data: bytes
    warning: int = mq.MQRC_NONE


def put_together(parts: list[Message]) -> Whole:
    """The message that segments make.

    Those from the first that differs in character set or encoding on are left; then there is a warning.
    """
    first = parts[0].descriptor
    if len(parts) == 1:
        return Whole(parts, first, parts[0].data)
    alike = parts
    warning = mq.MQRC_NONE
    for place, part in enumerate(parts):
        if part.descriptor.coded_char_set_id != first.coded_char_set_id:
            warning = mq.MQRC_INCONSISTENT_CCSIDS
        elif part.descriptor.encoding != first.encoding:
            warning = mq.MQRC_INCONSISTENT_ENCODINGS
        if warning:
            alike = parts[:place]
            break
    descriptor = first.copy()
    if not warning:
        descriptor.msg_flags |= mq.MQMF_LAST_SEGMENT
    return Whole(alike, descriptor, b"".join(part.data for part in alike), warning)
