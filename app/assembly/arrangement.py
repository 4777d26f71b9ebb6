"""The arrangements of an attachment's parts: in which order they are read, and which ones are missing.

The events of an attachment decide its arrangement. Its parts have numbers up to a count, or they are the logical
messages and segments of an IBM MQ group, or the byte ranges of a file. The attachment's record shows which.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from app.assembly import groups, ranges
from app.assembly.groups import Sizes
from app.assembly.part_places import Parts
from app.model.records import AttachmentRecord


class Arrangement(Protocol):
    """An order of parts by their keys. `record` is the record of their attachment."""

    def in_order(self, record: AttachmentRecord, parts: Parts) -> Iterator[tuple[int, int]]:
        """Return the (key, packed position) of every part of a complete attachment, in the order of its content."""

    def misfit(self, keys: Sequence[int], sizes: Iterable[int]) -> str | None:
        """Return why parts with these keys and sizes, in order, are not a whole attachment; None when they are."""

    def missing(self, record: AttachmentRecord, parts: Parts, sizes: Sizes, limit: int) -> list[tuple[int, int]]:
        """Return closed ranges of the numbers of missing parts, at most `limit` ranges."""


class NumberedParts:
    """Parts with sequence numbers from 1 up to a count."""

    def in_order(self, record: AttachmentRecord, parts: Parts) -> Iterator[tuple[int, int]]:
        return enumerate(parts.in_order(record.parts_expected or 0), 1)

    def misfit(self, keys: Sequence[int], sizes: Iterable[int]) -> str | None:  # noqa: ARG002 - assembly counted them
        return None

    def missing(self, record: AttachmentRecord, parts: Parts, sizes: Sizes, limit: int) -> list[tuple[int, int]]:  # noqa: ARG002
        return parts.missing(record.parts_expected, limit)


class GroupedParts:
    """The logical messages of an IBM MQ group by MsgSeqNumber, and their segments by Offset (`app.assembly.groups`)."""

    def in_order(self, record: AttachmentRecord, parts: Parts) -> Iterator[tuple[int, int]]:  # noqa: ARG002
        return groups.in_order(parts)

    def misfit(self, keys: Sequence[int], sizes: Iterable[int]) -> str | None:
        return groups.misfit(keys, sizes)

    def missing(self, record: AttachmentRecord, parts: Parts, sizes: Sizes, limit: int) -> list[tuple[int, int]]:
        return groups.missing(parts, None if record.group is None else record.group.last, sizes, limit)


class RangedParts:
    """The beginning and the end of a file, and its byte ranges by offset (`app.assembly.ranges`)."""

    def in_order(self, record: AttachmentRecord, parts: Parts) -> Iterator[tuple[int, int]]:  # noqa: ARG002
        return iter(parts)

    def misfit(self, keys: Sequence[int], sizes: Iterable[int]) -> str | None:  # noqa: ARG002 - the framing compares
        return None

    def missing(self, record: AttachmentRecord, parts: Parts, sizes: Sizes, limit: int) -> list[tuple[int, int]]:  # noqa: ARG002
        return ranges.missing(parts, None if record.group is None else record.group.last, limit)


NUMBERED, GROUPED, RANGED = NumberedParts(), GroupedParts(), RangedParts()

ARRANGEMENTS: Mapping[str, Arrangement] = {"numbered": NUMBERED, "grouped": GROUPED, "ranged": RANGED}
"""The arrangements by the names that framings use for them."""


def arrangement_of(record: AttachmentRecord) -> Arrangement:
    """Return how the parts of an attachment are arranged."""
    if record.group is None:
        return NUMBERED
    return RANGED if record.group.is_of_ranges else GROUPED
