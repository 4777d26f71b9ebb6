"""The byte ranges of a file: their assembly, contradictions, and which bytes are missing.

The key of a range holds its offset and its size, and is higher than any key of a group's part (`app.assembly.groups`).
Below the ranges are the beginning of the file and its ends, whose keys hold what they say. So the parts are in order:
the beginning, an end that says the size alone, one that says more, and the ranges by offset. Ranges may overlap. The
framing compares their bytes, which assembly never holds, when it reads the file.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from app.assembly.collecting import NOTHING, Effect, Refused, TrackedAttachment
from app.assembly.part_places import Parts, gaps
from app.model.event import RangePart
from app.model.records import OF_RANGES, GroupProgress

_END_FROM: Final = 1 << 31
"""The lowest key of an end. Those of beginnings are lower."""
_RANGES_FROM: Final = 3 << 61
_SIZE_BITS: Final = 26
LONGEST_RANGE: Final = (1 << _SIZE_BITS) - 1
LARGEST_FILE: Final = (1 << 61 - _SIZE_BITS) - 1
"""The most bytes of a range and of a file."""


class RangePlace(NamedTuple):
    """A range of the bytes of a file."""

    offset: int
    size: int

    @classmethod
    def of(cls, key: int) -> "RangePlace":
        return cls(key - _RANGES_FROM >> _SIZE_BITS, key & LONGEST_RANGE)

    @property
    def key(self) -> int:
        return _RANGES_FROM | self.offset << _SIZE_BITS | self.size

    @property
    def end(self) -> int:
        return self.offset + self.size


def is_range(key: int) -> bool:
    """Tell whether this is the key of a range, and not of a beginning or an end."""
    return key >= _RANGES_FROM


def take(attachment: TrackedAttachment, part: RangePart, position: int, most: int) -> tuple[Effect, ...]:
    """Add a part to its file, which takes at most `most` parts. `position` is its packed place in the journal."""
    parts, group = attachment.parts, attachment.group or GroupProgress(ended=OF_RANGES)
    key, is_end = _key(part), part.definition is None and not part.size
    has_other_size = is_end and group.last not in (None, part.offset)
    if not has_other_size and (first := parts.find(key)) is not None:
        return NOTHING if first == position else attachment.repeated(first, position, say_the_same=not part.size)
    is_all_there = attachment.record.parts_expected is not None
    says_less = not part.statement or (is_all_there and not _other_end(parts))
    if is_end and group.last == part.offset and says_less:
        return attachment.repeated(None, position)
    if (refusal := _refusal(parts, group, part, position)) is not None:
        return (refusal,)
    if is_all_there and part.size:  # all bytes are there, in other ranges
        return attachment.repeated(None, position)
    if parts.count >= most:
        why = f"the file has {most} messages, the most that are allowed"
        return (Refused(position, "too-many-parts", "topic", why),)
    parts.add(key, position)
    if part.definition is not None:
        attachment.define(part.definition, trace_parent=part.trace_parent)
    elif part.size:
        attachment.bytes_received += part.size
    else:
        group = group._replace(last=part.offset)
    attachment.group = group
    covered = _covered(parts, part)
    # What is known of the file from before its parts were lost does not stand for its beginning.
    is_complete = _beginning(parts) and group.last is not None and covered >= group.last
    return attachment.completed(parts.count) if is_complete else NOTHING


def missing(parts: Parts, last: int | None, limit: int) -> list[tuple[int, int]]:
    """Return closed ranges of the bytes that have not come, counted from 1, at most `limit` ranges.

    Until the `last` byte is known, only those before the last one that has come are considered.
    """
    return gaps(((each.offset + 1, each.size) for each in _ranges(parts, 0)), last, limit)


def furthest(parts: Parts) -> int:
    """Return the last byte that has come, counted from 1."""
    return max((each.end for each in _ranges(parts, 0)), default=0)


def leading(parts: Parts) -> Iterator[tuple[int, int]]:
    """Yield the (key, packed position) of the beginning of a file, if it has come, and of the ranges up to the first
    gap."""
    covered = 0
    for key, position in parts:
        if is_range(key):
            if (place := RangePlace.of(key)).offset > covered:
                return
            covered = max(covered, place.end)
        if is_range(key) or key < _END_FROM:
            yield key, position


def _key(part: RangePart) -> int:
    if part.definition is not None:
        return max(part.statement, 1)
    return RangePlace(part.offset, part.size).key if part.size else _END_FROM | part.statement


def _beginning(parts: Parts) -> int:
    """Return the key of the beginning of a file; 0 if it has not come."""
    return parts.highest_below(_END_FROM)


def _other_end(parts: Parts) -> bool:
    """Tell whether an end has come that says more than the size."""
    return parts.highest_below(_RANGES_FROM) > _END_FROM


def _refusal(parts: Parts, group: GroupProgress, part: RangePart, position: int) -> Refused | None:
    """Return the refusal of a beginning, a range or an end that contradicts the other parts."""
    if part.definition is not None:
        why = "an earlier message began the file with other facts"
        return Refused(position, "conflicting-init", "body", why) if _beginning(parts) else None
    if part.size:
        why = f"bytes {part.offset} to {part.offset + part.size - 1}, but the file has {group.last} bytes"
        is_beyond = group.last is not None and part.offset + part.size > group.last
        return Refused(position, "segment-beyond-end", "topic", why) if is_beyond else None
    furthest, why = parts.highest(), ""
    if group.last is not None and group.last != part.offset:
        why = f"but an earlier message said {group.last}"
    elif group.last is not None and _other_end(parts):
        why = "as an earlier message said, which gave another checksum"
    elif is_range(furthest) and (end := RangePlace.of(furthest).end) > part.offset:
        why = f"but byte {end - 1} came"
    return Refused(position, "conflicting-end", "topic", f"the file ends at {part.offset}, {why}") if why else None


def _covered(parts: Parts, added: RangePart) -> int:
    """Return up to which byte ranges are there without a gap, now that a part has been added."""
    before = parts.covered
    if before is None:
        parts.covered = _reached(parts, 0, 0)
    elif added.offset <= before < added.offset + added.size:
        parts.covered = _reached(parts, before + 1, added.offset + added.size)
    return parts.covered or 0


def _reached(parts: Parts, start: int, covered: int) -> int:
    """Return up to which byte the ranges from the offset `start` on reach without a gap, if the bytes before `covered`
    are there."""
    for each in _ranges(parts, start):
        if each.offset > covered:
            break
        covered = max(covered, each.end)
    return covered


def _ranges(parts: Parts, start: int) -> Iterator[RangePlace]:
    return map(RangePlace.of, parts.numbers_from(RangePlace(start, 0).key))
