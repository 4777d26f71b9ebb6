"""Where the bytes of attachments lie in the journal, and the segments that are still needed."""

from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import Connection, select

from adapters.sql_catalog.parts.part import CatalogPart, Lookup, chunks, rewrite_progress
from adapters.sql_catalog.schema import catalog_tables
from adapters.sql_catalog.schema.record_rows import SEGMENT_SHIFT, unpack_extents, unpack_runs
from app.model.attachment import AttachmentState
from app.model.records import Extent, PartRun

_attachments, _part_runs, _quarantine = catalog_tables.attachments, catalog_tables.part_runs, catalog_tables.quarantine


_EXTENTS = Lookup(
    catalog_tables.extents.c.attachment_id,
    lambda wanted: select(catalog_tables.extents.c.attachment_id, catalog_tables.extents.c.extents).where(wanted),
)

_RUNS = Lookup(
    _part_runs.c.attachment_id,
    lambda wanted: select(_part_runs.c.attachment_id, _part_runs.c.runs).where(wanted).order_by(_part_runs.c.number),
)


class JournalReferencesPart(CatalogPart):
    """`app.ports.JournalReferences` over SQL."""

    def part_runs(self, attachment_id: str) -> list[PartRun]:
        return unpack_runs([self.packed_part_runs(attachment_id)])

    def packed_part_runs(self, attachment_id: str) -> bytes:
        runs = select(_part_runs.c.runs).where(_part_runs.c.attachment_id == attachment_id)
        with self._database.read() as connection:
            return b"".join(connection.scalars(runs.order_by(_part_runs.c.number)))

    def part_runs_of(self, attachment_ids: Sequence[str]) -> dict[str, list[PartRun]]:
        found: dict[str, list[PartRun]] = {}
        with self._database.read() as connection:
            for row in (row for some in chunks(attachment_ids) for row in _RUNS.run(connection, some)):
                found.setdefault(row.attachment_id, []).extend(unpack_runs([row.runs]))
        return found

    def extents(self, attachment_id: str) -> tuple[Extent, ...]:
        with self._database.read() as connection:
            packed = connection.scalar(
                select(catalog_tables.extents.c.extents).where(catalog_tables.extents.c.attachment_id == attachment_id)
            )
        return unpack_extents(packed or b"")

    def extents_of(self, attachment_ids: Sequence[str]) -> dict[str, tuple[Extent, ...]]:
        with self._database.read() as connection:
            rows = [row for some in chunks(attachment_ids) for row in _EXTENTS.run(connection, some)]
        return {row.attachment_id: unpack_extents(row.extents) for row in rows}

    def needed_segments(self, among: Collection[int] | None = None) -> set[int]:
        """Return the needed segments. All rows that the answer depends on are on disk by then, since the caller may
        delete the other segments."""
        needed: set[int] = set()
        with self._database.read() as connection:
            for find in (_of_parts, _of_messages, _of_content):
                asked = None if among is None else set(among) - needed
                if asked is None:
                    needed.update(find(connection, None))
                elif asked:
                    needed.update(asked.intersection(find(connection, asked)))
        if among is None or needed != set(among):
            with self._database.write(durable=True) as connection:
                rewrite_progress(connection)
        return needed


def _of_parts(connection: Connection, asked: set[int] | None) -> Iterator[int]:
    """Yield segments with parts of attachments that are unfinished, unsettled, refused, or expired and still kept."""
    if asked is None:
        yield from connection.scalars(select(_part_runs.c.segment).distinct())
        return
    for segment in asked:
        if connection.scalar(select(_part_runs.c.number).where(_part_runs.c.segment == segment).limit(1)) is not None:
            yield segment


def _of_messages(connection: Connection, _asked: set[int] | None) -> Iterator[int]:
    """Yield segments with messages that no header has explained yet, and with messages in quarantine that have no
    copy."""
    pending = _attachments.c.pending_position
    waiting = select(pending).where(catalog_tables.HAS_PENDING, _attachments.c.state != AttachmentState.DELETED.value)
    kept = select(_quarantine.c.position).where(catalog_tables.IS_IN_JOURNAL, _quarantine.c.state != "dismissed")
    for positions in (waiting, kept):
        yield from (position >> SEGMENT_SHIFT for position in connection.scalars(positions))


def _of_content(connection: Connection, _asked: set[int] | None) -> Iterator[int]:
    """Yield segments with finished content that has not been copied to the content store."""
    for packed in connection.scalars(select(catalog_tables.extents.c.extents)):
        yield from {extent.segment for extent in unpack_extents(packed)}
