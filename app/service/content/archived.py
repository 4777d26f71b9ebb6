"""What of the journal a process can read: all of its own, and of another's what has been archived."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path

from app import plugins
from app.model.errors import NotArchived
from app.model.message import Position
from app.model.records import Extent
from app.ports import Catalog, JournalArchive
from app.service.context import ArchiveContext, ServiceContext
from app.settings import Settings


def archive_of(
    catalog: Catalog | None, place: str | Path, settings: Settings, *, is_growing: bool = False
) -> JournalArchive:
    """Open the archive that the positions of a catalog are of: that in a place, or the archives whose segments have one
    order in the catalog."""
    cache, size = settings.archive_cache, settings.pipeline.cache_bytes
    if catalog is not None and catalog.combined() is not None:
        return plugins.archive().combined(catalog.combined, cache, size)
    return plugins.archive()(place, cache, size, is_growing=is_growing)


def newest_readable(context: ServiceContext) -> float:
    """Return the number of the newest segment that this process can read; infinity where the journal is its own."""
    if not isinstance(context, ArchiveContext):
        return inf
    return max((segment.number for segment in context.journal.segments()), default=-1)


def is_archived(extents: Iterable[Extent], newest: float) -> bool:
    """Tell whether none of these extents is in a segment after the newest one."""
    return all(extent.segment <= newest for extent in extents)


def require_archived(extents: Iterable[Extent], context: ServiceContext) -> None:
    """Raise NotArchived if one of these extents is in a segment that this process cannot read yet.

    Segments are archived in order, so the newest one decides. One that is gone is found when it is read.
    """
    newest = max((extent.segment for extent in extents), default=None)
    if newest is not None and isinstance(context, ArchiveContext):
        with suppress(KeyError):
            for _ in context.journal.views([Extent(newest, 0, 0)]):
                pass


def readable_start(positions: Sequence[Position], context: ServiceContext) -> Sequence[Position]:
    """Return these positions up to the first one in a segment that this process cannot read yet.

    Raises NotArchived if that is the first of all.
    """
    newest = newest_readable(context)
    count = next((n for n, position in enumerate(positions) if position.segment > newest), len(positions))
    if positions and not count:
        raise NotArchived(f"segment {positions[0].segment} of the journal is not in the archive yet")
    return positions[:count]
