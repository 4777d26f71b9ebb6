"""Reading of messages of any framing."""

from collections.abc import Mapping

from app.codecs.ibm_mq.constants import MQMF_LAST_SEGMENT, SEGMENT_FLAGS
from app.codecs.missing_parts.request_documents import GONE_FORMAT, GONE_MSG_TYPE
from app.framing.registry import find_framing, traits
from app.model.errors import InvalidInputError, with_type
from app.model.event import Announced, Event, GroupPart, Pieces, RangePart
from app.model.message import NO_ENVELOPE, REFUSED, REFUSED_FRAMING, REPLAYED, UNREADABLE, PhysicalMessage
from app.model.trace_context import trace_parent_in

FAILED = "framing-failed"
"""The code of a message at which a framing fails by a fault of its own."""


def failure(error: Exception) -> InvalidInputError:
    """Return the error by which a message goes to quarantine at which a framing fails. It must not stop all others.

    Raises a fault of the machine again, which is not the message's.
    """
    if isinstance(error, MemoryError | OSError):
        raise error
    return InvalidInputError(FAILED, "", -1, f"the program fails at it: {with_type(error)}")


def read_event(message: PhysicalMessage, known: int) -> Event | Pieces:
    """Return what a message means, given the dialects its source has used. Raises InvalidInputError, also for a
    message that no transport could read, and for one at which the framing fails."""
    framing = find_framing(message.framing)
    if is_answer(message) and framing is not None and framing.names_missing:
        return Pieces()
    if framing is not None:
        if (message.offset or message.msg_flags & SEGMENT_FLAGS) and not framing.traits.reads_segments:
            _check_whole(message)
        try:
            event = framing.read(message, known)
            return _traced(event, message.properties) if message.properties else event
        except InvalidInputError:
            raise
        except Exception as error:
            raise failure(error) from error
    if message.framing == UNREADABLE:
        code, why, row, at = map(message.properties.get, REFUSED)
        raise InvalidInputError(code or "unreadable", row or "", int(at or -1), why or "")
    raise InvalidInputError(
        "unknown-framing", "framing", -1, f"unknown framing {message.framing!r}: messages of it are kept, not read"
    )


def as_framed_now(message: PhysicalMessage, name: str) -> PhysicalMessage:
    """Return a message of the journal as one of the framing that its source has now.

    One whose envelope could not be read stays as it is, but for one without a descriptor where none is needed now.
    Raises InvalidInputError for a message that says too little for the framing.
    """
    wanted, came = traits(name), message.framing
    if came == UNREADABLE:
        is_bare = message.properties.get("refused-code") == NO_ENVELOPE and not wanted.needs_descriptor
        came = "" if is_bare else message.properties.get(REFUSED_FRAMING, name)
    if came == name:
        return message
    before = find_framing(came)
    if wanted.numbered_on_arrival:
        lacks = "numbers messages in the order in which they come"
    elif wanted.told_by_topic and not (before is not None and before.traits.told_by_topic):
        lacks = "reads the topic of a message"
    elif before is not None and before.traits.told_by_topic and not wanted.told_by_topic:
        lacks = f"reads descriptor fields, which {came} does not"
    else:
        return message.readable_again(name)
    why = f"it came before its source had the framing {name}, which {lacks}: have it sent again"
    raise InvalidInputError("other-framing", "framing", -1, why)


def _check_whole(message: PhysicalMessage) -> None:
    """Refuse a part of a segmented message, since the framing would take its bytes for a whole message.

    The only segment of a message is whole: so a queue manager describes a message that it has put together.
    """
    flags, offset = message.msg_flags, message.offset
    if offset or not flags & MQMF_LAST_SEGMENT:
        why = (
            f"a segment (MsgFlags {flags}, Offset {offset}), but {message.framing} reads whole messages: have the "
            "queue manager put them together (mqmd_version = 2 of an ibm_mq source, MQGMO_COMPLETE_MSG elsewhere), or "
            "send whole ones"
        )
        raise InvalidInputError("segmented-message", "offset" if offset else "msg_flags", -1, why)


def is_answer(message: PhysicalMessage) -> bool:
    """Tell whether a message answers a request for missing parts, and is a part of nothing."""
    return message.msg_type == GONE_MSG_TYPE and message.format == GONE_FORMAT


def is_header(message: PhysicalMessage) -> bool:
    """Tell whether a message is a header. Headers are read in the order of their source."""
    framing = find_framing(message.framing)
    return framing is not None and framing.is_header(message)


def is_answered(message: PhysicalMessage) -> bool:
    """Tell whether the sender of a message wants an answer. A message that an operator has processed again has been
    answered."""
    framing = find_framing(message.framing)
    return framing is not None and framing.is_answered(message) and REPLAYED not in message.properties


def _traced(event: Event | Pieces, properties: Mapping[str, str]) -> Event | Pieces:
    """Return the event with the message's `traceparent` if it begins an attachment. Other parts do not need it."""
    if isinstance(event, Pieces):
        parts = tuple(_first_traced(part, properties) for part in event.parts)
        return event._replace(parts=parts)
    if isinstance(event, GroupPart):
        return _first_traced(event, properties)
    if isinstance(event, Announced | RangePart) and (trace_parent := trace_parent_in(properties)) is not None:
        return event._replace(trace_parent=trace_parent)
    return event


def _first_traced(part: GroupPart, properties: Mapping[str, str]) -> GroupPart:
    if not part.begins_group or (trace_parent := trace_parent_in(properties)) is None:
        return part
    return part._replace(trace_parent=trace_parent)
