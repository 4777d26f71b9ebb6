"""The order of the segments of several archives."""

from collections.abc import Mapping, Sequence
from secrets import token_hex

from sqlalchemy import Connection, func, insert, select, update

from adapters.sql_catalog.parts.part import CatalogPart
from adapters.sql_catalog.schema.catalog_tables import combined_archives, combined_segments, progress
from app.model.message import Position
from app.model.records import CombinedArchives, CombinedSegment, JournalIdentity

_archives, _segments = combined_archives, combined_segments


class CombinedArchivesPart(CatalogPart):
    """`app.ports.catalog.combined_archives` over SQL."""

    def combined(self, after: int = 0) -> CombinedArchives | None:
        behind = select(_segments).where(_segments.c.number > after).order_by(_segments.c.number)
        with self._database.read() as connection:
            places = connection.execute(select(_archives).order_by(_archives.c.journal)).all()
            if not places:
                return None
            bound = connection.execute(select(progress.c.journal_id, progress.c.journal_epoch)).one()
            segments = map(CombinedSegment._make, connection.execute(behind))
            journal = JournalIdentity(bound.journal_id, bound.journal_epoch)
            return CombinedArchives(journal, tuple((row.journal, row.place) for row in places), tuple(segments))

    def combine(self, places: Mapping[str, str], newest: Mapping[str, int], coming: Sequence[tuple[str, int]]) -> None:
        with self._database.write(durable=True) as connection:
            if connection.execute(select(_archives.c.journal)).first() is None:
                # The order begins with the segments of the archive that the catalog is of, or with none.
                row = connection.execute(select(progress)).one()
                if row.journal_id is None:
                    connection.execute(update(progress).values(journal_id=token_hex(16), journal_epoch=1))
                else:
                    reached = max(Position.unpack(row.position or 0).segment, newest.get(row.journal_id, 0))
                    numbers = range(1, reached + 1)
                    _add(connection, [CombinedSegment(number, row.journal_id, number) for number in numbers])
            rows = [{"journal": journal, "place": place} for journal, place in places.items()]
            connection.execute(self._database.upsert(_archives, "place"), rows)
            known = {(row.journal, row.segment) for row in connection.execute(select(_segments))}
            last = connection.scalar(select(func.max(_segments.c.number))) or 0
            new = [each for each in coming if each not in known]
            _add(connection, [CombinedSegment(last + at, *each) for at, each in enumerate(new, 1)])


def _add(connection: Connection, segments: Sequence[CombinedSegment]) -> None:
    if segments:
        connection.execute(insert(_segments), [each._asdict() for each in segments])
