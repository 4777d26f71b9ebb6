"""The journal that receivers share: the order of its segments, and the receivers' own journals."""

from itertools import groupby
from operator import attrgetter

from sqlalchemy import Connection, delete, func, insert, literal, select, update

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
        self, own: JournalIdentity, receiver: str, new: JournalIdentity, newest: int, alone: int, now: int
    ) -> JournalIdentity:
        # A gateway that receives alone has this lock while it runs, and asks for receivers when it starts.
        self._database.lock.take()
        try:
            return self._join(own, receiver, new, newest, alone, now)
        finally:
            self._database.lock.release()

    def _join(
        self, own: JournalIdentity, receiver: str, new: JournalIdentity, newest: int, alone: int, now: int
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
            if known is None:
                # A gateway that received alone has archived its own segments under their own numbers.
                published = alone if own.id == shared.id else 0
                joined = {"id": own.id, "receiver": receiver, "published": published, "opened_at": now, "seen_at": now}
                connection.execute(insert(_joined).values(joined))
                self._begin_counting(connection, own.id)
            else:
                connection.execute(
                    update(_joined).where(_joined.c.id == own.id).values(receiver=receiver, opened_at=now, seen_at=now)
                )
        return shared

    def _begin_counting(self, connection: Connection, journal: str) -> None:
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

    def published(self) -> int:
        with self._database.read() as connection:
            return connection.scalar(select(progress.c.published)) or 0

    def receiving_journals(self) -> list[ReceivingJournal]:
        return self._all(
            select(_joined).order_by(_joined.c.id),
            ReceivingJournal._make,
        )

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
            return bool(connection.execute(delete(_joined).where(_joined.c.id == journal)).rowcount)
