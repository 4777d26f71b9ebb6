"""The journal that receivers share: the order of its segments, and the receivers' own journals."""

from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, literal, select, update

from adapters.sql_catalog.database_clock import now_of
from adapters.sql_catalog.parts.part import CatalogPart
from adapters.sql_catalog.schema.bounded_types import AnyText
from adapters.sql_catalog.schema.catalog_tables import progress, receiving_journals, receiving_marks, receiving_time
from app.model.errors import GatewayError
from app.model.message import Position
from app.model.records import ALONE, JournalIdentity, Publication
from app.ports.catalog.shared_journal import ReceivingJournal

_joined, _times, _marks = receiving_journals, receiving_time, receiving_marks


class SharedJournalPart(CatalogPart):
    """`app.ports.catalog.shared_journal` over SQL."""

    def join(
        self, own: JournalIdentity, receiver: str, new: JournalIdentity, newest: int, *, in_archive: bool
    ) -> JournalIdentity:
        with self._database.write(durable=True) as connection:
            row = connection.execute(select(progress)).one()
            is_first = connection.scalar(select(func.count()).select_from(_joined)) == 0
            if is_first:
                reached = Position.unpack(row.position or 0).segment
                if reached > newest:
                    raise GatewayError(
                        f"the catalog {self._database.place} has assembled its journal up to segment {reached}, and "
                        f"the archive has it up to segment {newest}: let the gateway that received alone archive the "
                        "rest before others share its journal"
                    )
                end = row.position if reached == newest else Position(newest + 1, 0, 0).pack() - 1
                connection.execute(update(progress).values(published=end if newest else 0))
            shared = new if row.journal_id is None else JournalIdentity(row.journal_id, row.journal_epoch)
            connection.execute(update(progress).values(journal_id=shared.id, journal_epoch=shared.epoch))
            known = connection.execute(select(_joined).where(_joined.c.id == own.id)).first()
            now = now_of(connection)
            opened: dict[str, Any] = {"receiver": receiver, "opened_at": now, "seen_at": now}
            opened |= {"in_archive": in_archive, "has_left": False}
            if known is None:
                # A gateway that received alone has archived its own segments under their own numbers.
                published = newest if own.id == shared.id else 0
                connection.execute(insert(_joined).values(id=own.id, published=published, **opened))
            else:
                connection.execute(update(_joined).where(_joined.c.id == own.id).values(opened))
            if known is None or known.has_left:
                _begin_counting(connection, own.id)
        return shared

    def published(self) -> int:
        with self._database.read() as connection:
            return connection.scalar(select(progress.c.published)) or 0

    def receiving_journals(self) -> list[ReceivingJournal]:
        return self._journals(_joined.c.has_left.is_(False))

    def receiving_journal(self, journal: str) -> ReceivingJournal | None:
        return next(iter(self._journals(_joined.c.id == journal)), None)

    def _journals(self, which: ColumnElement[bool]) -> list[ReceivingJournal]:
        with self._database.read() as connection:
            silent = now_of(connection) - _joined.c.seen_at
            rows = connection.execute(select(_joined, silent).where(which).order_by(_joined.c.id))
            return [*map(ReceivingJournal._make, rows)]

    def see(self, journal: str) -> None:
        with self._database.write() as connection:
            own = update(_joined).where(_joined.c.id == journal)
            connection.execute(own.values(seen_at=now_of(connection)))

    def record_published(self, origin: Publication) -> None:
        with self._database.write(durable=True) as connection:
            last = connection.scalar(select(progress.c.published)) or 0
            if Position.unpack(origin.end).segment != Position.unpack(last).segment + 1:
                return
            connection.execute(update(progress).values(published=origin.end))
            is_new = _joined.c.id == origin.journal, _joined.c.published < origin.segment
            connection.execute(update(_joined).where(*is_new).values(published=origin.segment))

    def leave(self, journal: str) -> bool:
        with self._database.write(durable=True) as connection:
            connection.execute(delete(_marks).where(_marks.c.journal == journal))
            connection.execute(delete(_times).where(_times.c.journal == journal))
            which = _joined.c.id == journal, _joined.c.has_left.is_(False)
            return bool(connection.execute(update(_joined).where(*which).values(has_left=True)).rowcount)


def _begin_counting(connection: Connection, journal: str) -> None:
    """Count the receiving time of a new journal from where the one that has counted least is: before it was opened,
    it could not keep any message from the others.

    What a gateway counted that received alone continues as that of the first journal.
    """
    others = connection.execute(select(_times).where(_times.c.journal != journal).order_by(_times.c.counted)).all()
    for source, of_source in groupby(sorted(others, key=attrgetter("source")), key=attrgetter("source")):
        least = min(of_source, key=attrgetter("counted"))
        connection.execute(insert(_times).values(journal=journal, source=source, counted=least.counted))
        marks = _marks.c.source == source, _marks.c.journal == least.journal
        columns = _marks.c.source, _marks.c.counted, _marks.c.position
        copied = select(literal(journal, AnyText), *columns).where(*marks)
        connection.execute(insert(_marks).from_select(["journal", *(each.name for each in columns)], copied))
    connection.execute(delete(_times).where(_times.c.journal == ALONE))
    connection.execute(delete(_marks).where(_marks.c.journal == ALONE))
