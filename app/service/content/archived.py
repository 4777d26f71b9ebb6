"""What of the journal a process can read: all of its own, and of another's what has been archived."""

from collections.abc import Iterable
from math import inf

from app.model.errors import NotArchived
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


def require_archived(extents: Iterable[Extent], context: ServiceContext) -> None:
    """Raise NotArchived if one of these extents is in a segment that this process cannot read, or not yet."""
    if is_archived(extents, newest_readable(context)):
        return
    if context.settings.journal.archive_url is None:
        raise NotArchived("it is in the journal, and this process does not know where: set journal.archive_url")
    raise NotArchived("it is in a segment of the journal that the process which receives has not archived yet")
