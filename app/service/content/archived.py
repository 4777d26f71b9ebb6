"""What of the journal a process can read: all of its own, and of another's what has been archived."""

from collections.abc import Iterable
from math import inf

from app.model.records import Extent
from app.service.context import ArchiveContext, ServiceContext


def newest_readable(context: ServiceContext) -> float:
    """Return the number of the newest segment that this process can read; infinity where the journal is its own."""
    if not isinstance(context, ArchiveContext):
        return inf
    return max((segment.number for segment in context.journal.segments()), default=-1)


def is_archived(extents: Iterable[Extent], newest: float) -> bool:
    """Tell whether none of these extents is in a segment after the newest one."""
    return all(extent.segment <= newest for extent in extents)
