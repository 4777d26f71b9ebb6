"""The journal segments that are still needed, one by one and never as a range."""

from collections.abc import Collection, Iterator

from sqlalchemy import Connection, select, update

from adapters.sql_catalog.parts.part import CatalogPart
from adapters.sql_catalog.schema import catalog_tables
from adapters.sql_catalog.schema.record_rows import SEGMENT_SHIFT, unpack_extents
from app.model.attachment import AttachmentState

_attachments, _part_runs, _quarantine = catalog_tables.attachments, catalog_tables.part_runs, catalog_tables.quarantine


class Segments(CatalogPart):
    """`app.ports.JournalReferences.needed_segments` over SQL."""

    def needed_segments(self, among: Collection[int] | None = None) -> set[int]:
        """Return the needed segments. All rows that the answer depends on are on disk by then, since the caller may
        delete the other segments."""
        needed: set[int] = set()
        with self._database.read() as connection:
            for find in (_of_parts, _of_waiting, _of_quarantined, _of_content):
                asked = None if among is None else set(among) - needed
                if asked is None:
                    needed.update(find(connection, None))
                elif asked:
                    needed.update(asked.intersection(find(connection, asked)))
        if among is None or needed != set(among):
            with self._database.write(durable=True) as connection:
                # Any durable write takes the quick ones before it to disk; this one changes no value.
                connection.execute(update(catalog_tables.progress).values(position=catalog_tables.progress.c.position))
        return needed


def _of_parts(connection: Connection, asked: set[int] | None) -> Iterator[int]:
    """Yield segments with parts of attachments that are unfinished, unsettled, refused, or expired and still kept."""
    if asked is None:
        yield from connection.scalars(select(_part_runs.c.segment).distinct())
        return
    for segment in asked:
        if connection.scalar(select(_part_runs.c.number).where(_part_runs.c.segment == segment).limit(1)) is not None:
            yield segment


def _of_waiting(connection: Connection, _asked: set[int] | None) -> Iterator[int]:
    """Yield segments with messages that no header has explained yet."""
    pending = _attachments.c.pending_position
    waiting = select(pending).where(catalog_tables.HAS_PENDING, _attachments.c.state != AttachmentState.DELETED.value)
    yield from (position >> SEGMENT_SHIFT for position in connection.scalars(waiting))


def _of_quarantined(connection: Connection, _asked: set[int] | None) -> Iterator[int]:
    """Yield segments with messages in quarantine that have no copy."""
    kept = select(_quarantine.c.position).where(catalog_tables.IS_IN_JOURNAL, _quarantine.c.state != "dismissed")
    yield from (position >> SEGMENT_SHIFT for position in connection.scalars(kept))


def _of_content(connection: Connection, _asked: set[int] | None) -> Iterator[int]:
    """Yield segments with finished content that has not been copied to the content store."""
    for packed in connection.scalars(select(catalog_tables.extents.c.extents)):
        yield from {extent.segment for extent in unpack_extents(packed)}
