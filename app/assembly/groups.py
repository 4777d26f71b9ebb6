"""The parts of an IBM MQ group: their assembly, contradictions and order, and which are missing.

A logical message that came in one piece has its MsgSeqNumber as key, so that the messages of a group sent alone share
runs. A segment's key holds its MsgSeqNumber, its offset and whether it is the last one, and is higher than any of
those. What a key says need not be kept elsewhere; the sizes of the parts are where the parts are, in the journal. A
part that is only a piece of the body that brought it has a key that holds how many units it has, too, and is higher
than all others."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import dropwhile, groupby, takewhile
from typing import NamedTuple

from app.assembly.collecting import NOTHING, Effect, Refused, TrackedAttachment
from app.assembly.part_places import Parts, gaps
from app.model.event import GroupPart
from app.model.records import GroupProgress

SEGMENTS_FROM = 1 << 32
"""The lowest key of a segment. MsgSeqNumber and Offset are at most 999,999,999."""

Sizes = Callable[[Sequence[int]], Iterable[int]]
"""A function from packed positions to the sizes of the bodies there."""


PIECES_FROM = 1 << 62
"""The lowest key of a piece."""

_MESSAGE_SHIFT, _OFFSET_SHIFT = 50, 19
MOST_UNITS = (1 << _OFFSET_SHIFT - 1) - 1
"""The most units that a piece can have."""


class GroupPlace(NamedTuple):
    """Where a part belongs, as its key says; and of a piece of a body how many units it has."""

    message: int
    offset: int
    is_last: bool
    units: int | None = None

    @classmethod
    def of(cls, key: int) -> "GroupPlace":
        if key < SEGMENTS_FROM:
            return cls(key, 0, True)
        if key >= PIECES_FROM:
            offset = key >> _OFFSET_SHIFT & (1 << _MESSAGE_SHIFT - _OFFSET_SHIFT) - 1
            return cls((key - PIECES_FROM) >> _MESSAGE_SHIFT, offset, bool(key & 1), key >> 1 & MOST_UNITS)
        return cls(key >> 32, (key & 0xFFFF_FFFF) >> 1, bool(key & 1))

    @property
    def is_whole(self) -> bool:
        return self.is_last and not self.offset

    @property
    def key(self) -> int:
        if self.units is not None:
            return self.first | self.offset << _OFFSET_SHIFT | self.units << 1 | self.is_last
        return self.message if self.is_whole else self.message << 32 | self.offset << 1 | self.is_last

    @property
    def following(self) -> int:
        """The lowest key of a segment or piece of the next message."""
        return self._replace(message=self.message + 1).first

    @property
    def first(self) -> int:
        """The lowest key of a segment or piece of the message."""
        if self.units is not None:
            return PIECES_FROM | self.message << _MESSAGE_SHIFT
        return self.message << 32

    @property
    def behind(self) -> int:
        """The lowest key of a piece that begins after the place."""
        return self.first + (self.offset + 1 << _OFFSET_SHIFT)


class Contradiction(NamedTuple):
    """The reason why a part contradicts earlier ones: a code for programs, the field, and a sentence for people."""

    code: str
    row: str
    why: str


# --- one part more ----------------------------------------------------------------------------------------------------


def take(attachment: TrackedAttachment, part: GroupPart, position: int, most: int) -> tuple[Effect, ...]:
    """Add a part to its group, which takes at most `most` parts. `position` is its packed place in the journal."""
    parts, group = attachment.parts, attachment.group or GroupProgress()
    place = GroupPlace(part.message, part.offset, part.ends_message, part.units)
    if (first := parts.find(place.key)) is not None:
        if first == position:
            return NOTHING
        if part.ends_group and part.message != group.last:
            why = f"message {part.message} is flagged the last of its group, but was not when it came before"
            return attachment.refused(Refused(position, "conflicting-last", "msg_flags", why))
        return attachment.repeated(first, position)
    refusal = _against_group(parts, group, part) or _against_piece(parts, place) or _against_message(parts, place)
    if refusal is not None:
        return attachment.refused(Refused(position, *refusal))
    if (refusal := _no_room(attachment, part, most)) is not None:
        return (Refused(position, *refusal),)
    parts.add(place.key, position)
    attachment.bytes_received += part.size
    last = part.message if part.ends_group else group.last
    units = part.size if part.units is None else part.units
    size = group.size + part.size - units
    if part.ends_message:
        group = GroupProgress(last, group.ended + 1, size + part.offset + units)
    else:
        group = group._replace(last=last, size=size)
    attachment.group = group
    if attachment.record.kind is None or part.begins_group:
        attachment.define(part.definition, trace_parent=part.trace_parent)
    # `misfit` finds out whether these bytes are contiguous, when they are read.
    is_all_there = group.ended == group.last and attachment.bytes_received >= group.size
    return attachment.completed(parts.count) if is_all_there else NOTHING


def _no_room(attachment: TrackedAttachment, part: GroupPart, most: int) -> Contradiction | None:
    """Return the contradiction of a part whose group has all of its parts, or as many as are allowed."""
    if attachment.record.parts_expected is not None:
        why = f"offset {part.offset} of message {part.message}, but all bytes of the group have come"
        return Contradiction("conflicting-segment", "offset", why)
    if attachment.parts.count >= most:
        return Contradiction(
            "too-many-parts", "msg_seq_number", f"the group has {most} parts, the most that are allowed"
        )
    return None


def _against_group(parts: Parts, group: GroupProgress, part: GroupPart) -> Contradiction | None:
    if part.ends_group and group.last not in {None, part.message}:
        why = f"message {part.message} is flagged the last of its group, but an earlier one said {group.last}"
        return Contradiction("conflicting-last", "msg_flags", why)
    if group.last is not None and part.message > group.last:
        why = f"message {part.message}, but the last message of the group is {group.last}"
        return Contradiction("sequence-beyond-last", "msg_seq_number", why)
    if part.ends_group and (highest := highest_message(parts)) > part.message:
        why = f"message {part.message} is flagged the last of its group, but message {highest} has come"
        return Contradiction("conflicting-last", "msg_flags", why)
    return None


def _against_piece(parts: Parts, place: GroupPlace) -> Contradiction | None:
    """Against a piece that begins at the same place and has another size."""
    if place.units is None or (highest := parts.highest_below(place.behind)) < PIECES_FROM:
        return None
    before = GroupPlace.of(highest)
    if (before.message, before.offset) != (place.message, place.offset):
        return None
    why = f"{place.units} units at offset {place.offset} of message {place.message}, but {before.units} came before"
    return Contradiction("conflicting-segment", "offset", why)


def _against_message(parts: Parts, place: GroupPlace) -> Contradiction | None:
    """Against the other parts of the same logical message."""
    message, offset, is_last, _ = place
    if parts.find(message) is not None:
        return Contradiction("conflicting-segment", "msg_flags", f"message {message} came in one piece before")
    highest = parts.highest_below(place.following)
    if highest < place.first or highest < SEGMENTS_FROM:
        return None
    furthest = GroupPlace.of(highest)
    if place.is_whole:
        why = f"message {message} came in segments before"
        return Contradiction("conflicting-segment", "msg_flags", why)
    if furthest.is_last and offset >= furthest.offset:
        why = f"offset {offset}, but the last segment of message {message} has offset {furthest.offset}"
        return Contradiction("conflicting-segment", "offset", why)
    if is_last and offset <= furthest.offset:
        why = f"offset {offset} of a last segment, but message {message} has a segment at offset {furthest.offset}"
        return Contradiction("conflicting-segment", "offset", why)
    return None


def highest_message(parts: Parts) -> int:
    highest = parts.highest()
    return max(GroupPlace.of(highest).message, parts.highest_below(SEGMENTS_FROM))


# --- all of them ------------------------------------------------------------------------------------------------------


def in_order(parts: Parts) -> Iterator[tuple[int, int]]:
    """Return the (key, packed position) of every part, by MsgSeqNumber and Offset."""
    if parts.highest() < SEGMENTS_FROM or parts.highest_below(SEGMENTS_FROM) == 0:
        return iter(parts)
    whole = takewhile(lambda part: part[0] < SEGMENTS_FROM, parts)
    segments = dropwhile(lambda part: part[0] < SEGMENTS_FROM, parts)
    return merge(whole, segments, key=lambda part: part[0] << 32 if part[0] < SEGMENTS_FROM else part[0])


def misfit(keys: Iterable[int], sizes: Iterable[int], first: int = 1) -> str | None:
    """Return why parts, in order, are not contiguous from the start of message `first`; None when they are."""
    message, offset = first, 0
    for key, size in zip(keys, sizes, strict=True):
        place = GroupPlace.of(key)
        if (place.message, place.offset) != (message, offset):
            return f"message {place.message} has a part at offset {place.offset}, but {_spoken(message, offset)}"
        units = size if place.units is None else place.units
        message, offset = (message + 1, 0) if place.is_last else (message, offset + units)
    return f"it ends where {_spoken(message, offset)}" if offset else None


def missing(parts: Parts, last: int | None, sizes: Sizes, limit: int) -> list[tuple[int, int]]:
    """Return closed ranges of the MsgSeqNumbers of incomplete logical messages, at most `limit` ranges.

    Until the last message is known, only those up to the highest number seen are considered.
    """
    whole = ((message, 1) for message in _whole_messages(parts, sizes))
    return gaps(whole, highest_message(parts) if last is None else last, limit)


def _whole_messages(parts: Parts, sizes: Sizes) -> Iterator[int]:
    for message, members in groupby(in_order(parts), lambda part: GroupPlace.of(part[0]).message):
        keys, positions = zip(*members, strict=True)
        if keys[0] == message or misfit(keys, sizes(positions), message) is None:
            yield message


def _spoken(message: int, offset: int) -> str:
    return f"byte {offset} of message {message} is expected"
