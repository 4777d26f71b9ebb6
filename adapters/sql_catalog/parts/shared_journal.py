"""The journal that receivers share: the order of its segments, and the receivers' own journals."""

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, literal, or_, select, update

from adapters.sql_catalog.locks import taken
from adapters.sql_catalog.parts.leases import holder_of
from adapters.sql_catalog.parts.part import CatalogPart, now_of
from adapters.sql_catalog.schema.bounded_types import AnyText
from adapters.sql_catalog.schema.catalog_tables import (
    expirations,
    progress,
    receiving_journals,
    receiving_marks,
    receiving_time,
)
from app.model.errors import GatewayError
from app.model.message import Position
from app.model.records import ALONE, JournalIdentity, Publication
from app.ports import ACTIVE
from app.ports.catalog.shared_journal import NO_SESSIONS, ArchivedJournal, ReceivingJournal

_joined, _times, _marks, _expirations = receiving_journals, receiving_time, receiving_marks, expirations
_IS_PRESENT = or_(_joined.c.has_left.is_(False), _joined.c.sessions.is_not(None))


class SharedJournalPart(CatalogPart):
    """`app.ports.catalog.shared_journal` over SQL."""

    def join(
        self,
        own: JournalIdentity,
        receiver: str,
        sources: Collection[str],
        archived: ArchivedJournal,
        *,
        in_archive: bool = False,
        sessions: Mapping[str, str] = NO_SESSIONS,
    ) -> JournalIdentity:
        with ExitStack() as ending:
            # A gateway that receives alone has this lock while it runs, and asks for receivers when it starts. Several
            # receivers may join at the same time.
            self._database.lock.take(shared=True)
            ending.callback(self._database.lock.release)
            connection = ending.enter_context(self._database.write(durable=True))
            # One beside which another one stands by has a lease instead. It asks for receivers after it has taken that.
            if (active := holder_of(connection, ACTIVE)) is not None:
                raise taken(self._database.place, f" ({active})")
            shared = self._continued(connection, archived)
            now = now_of(connection)
            opened: dict[str, Any] = {"receiver": receiver, "opened_at": now, "seen_at": now}
            opened |= {
                "in_archive": in_archive,
                "has_left": False,
                "is_leaving": False,
                "sessions": {**sessions} or None,
                "answered": func.coalesce(_joined.c.answered, 0),
            }
            if not connection.execute(update(_joined).where(_joined.c.id == own.id).values(opened)).rowcount:
                # A gateway that received alone has archived its own segments under their own numbers.
                published = Position.unpack(archived.alone).segment if own.id == shared.id else 0
                new = opened | {"answered": 0}
                connection.execute(insert(_joined).values(id=own.id, published=published, asked=0, **new))
            _take_sessions(connection, own.id, sessions)
            _count(connection, own.id, sources)
        return shared

    def _continued(self, connection: Connection, archived: ArchivedJournal) -> JournalIdentity:
        """Return the journal that receivers continue: that of the catalog, if it is of one. Raises GatewayError if the
        archive lacks what the catalog has assembled."""
        row = connection.execute(select(progress)).one()
        if row.published == 0:
            reached = Position.unpack(row.position or 0).segment
            if reached > archived.newest:
                raise GatewayError(
                    f"the catalog {self._database.place} has assembled its journal up to segment {reached}, and the "
                    f"archive has it up to segment {archived.newest}: let the gateway that received alone archive the "
                    "rest before others share its journal"
                )
            connection.execute(update(progress).values(published=archived.alone))
        shared = archived.journal if row.journal_id is None else JournalIdentity(row.journal_id, row.journal_epoch)
        connection.execute(update(progress).values(journal_id=shared.id, journal_epoch=shared.epoch))
        return shared

    def published(self) -> int:
        with self._database.read() as connection:
            return connection.scalar(select(progress.c.published)) or 0

    def receiving_journals(self) -> list[ReceivingJournal]:
        return self._journals(_IS_PRESENT)

    def receiving_journal(self, journal: str) -> ReceivingJournal | None:
        return next(iter(self._journals(_joined.c.id == journal)), None)

    def _journals(self, which: ColumnElement[bool]) -> list[ReceivingJournal]:
        with self._database.read() as connection:
            silent = now_of(connection) - _joined.c.seen_at
            rows = connection.execute(select(_joined, silent).where(which).order_by(_joined.c.id))
            return [ReceivingJournal._make(row)._replace(sessions=row.sessions or NO_SESSIONS) for row in rows]

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
            now = now_of(connection)
            own = self._database.insert(_joined).values(
                id=origin.journal,
                receiver="",
                published=origin.segment,
                opened_at=now,
                seen_at=now,
                in_archive=False,
                has_left=True,
                is_leaving=False,
            )
            own = own.on_conflict_do_update(
                index_elements=["id"],
                set_={"published": origin.segment},
                where=_joined.c.published < origin.segment,
            )
            connection.execute(own)

    def ask_to_publish(self) -> None:
        present = update(_joined).where(_joined.c.has_left.is_(False))
        self._execute(present.values(asked=_joined.c.asked + 1), durable=True)

    def answer(self, journal: str, request: int | None) -> None:
        self._execute(update(_joined).where(_joined.c.id == journal).values(answered=request), durable=True)

    def ask_to_leave(self, journal: str) -> None:
        self._execute(update(_joined).where(_joined.c.id == journal, _IS_PRESENT).values(is_leaving=True), durable=True)

    def leave(self, journal: str, *, keeps_sessions: bool = False, if_asked: bool = False) -> bool:
        left: dict[str, Any] = {"has_left": True}
        if not keeps_sessions:
            left |= {"is_leaving": False, "sessions": None}
        which = [_joined.c.id == journal, _joined.c.has_left.is_(False) if keeps_sessions else _IS_PRESENT]
        if if_asked:
            which.append(_joined.c.is_leaving.is_(True))
        with self._database.write(durable=True) as connection:
            if not connection.execute(update(_joined).where(*which).values(left)).rowcount:
                return False
            _forget(connection, journal, connection.scalars(select(_times.c.source).distinct()).all())
            return True


def _take_sessions(connection: Connection, journal: str, sessions: Mapping[str, str]) -> None:
    """Leave no other receiver the sessions that one has now: it has come in the place of that one."""
    with_some = select(_joined.c.id, _joined.c.sessions).where(_joined.c.id != journal, _joined.c.sessions.is_not(None))
    for row in connection.execute(with_some).all():
        kept = dict(row.sessions.items() - sessions.items())
        if len(kept) < len(row.sessions):
            connection.execute(update(_joined).where(_joined.c.id == row.id).values(sessions=kept or None))


def _count(connection: Connection, journal: str, sources: Collection[str]) -> None:
    """Count the receiving time of these sources for a journal. A new one begins where the one is that has counted
    least: before it was opened, it could not keep any message from the others. Without any other, it begins at 0.

    What a gateway counted that received alone continues as that of the first journal.
    """
    counted: dict[str, list[tuple[int, str]]] = {}
    for row in connection.execute(select(_times)):
        counted.setdefault(row.source, []).append((row.counted, row.journal))
    for source in sources:
        found = counted.get(source, [])
        if any(each == journal for _, each in found):
            continue
        least, other = min(found, default=(0, ""))
        connection.execute(insert(_times).values(journal=journal, source=source, counted=least))
        columns = _marks.c.source, _marks.c.counted, _marks.c.position
        copied = select(literal(journal, AnyText), *columns)
        copied = copied.where(_marks.c.source == source, _marks.c.journal == other)
        connection.execute(insert(_marks).from_select(["journal", *(each.name for each in columns)], copied))
    _forget(connection, ALONE, sources)
    by_others = [source for source, found in counted.items() if source not in sources and len(found) > 1]
    _forget(connection, journal, by_others)  # they need not wait for this one


def _forget(connection: Connection, journal: str, sources: Collection[str]) -> None:
    """Forget the receiving time of a journal. What has expired by it keeps its distance from the time that counts."""
    if not sources:
        return
    before = _least(connection)
    for table in (_times, _marks):
        connection.execute(delete(table).where(table.c.journal == journal, table.c.source.in_(sources)))
    for source, least in _least(connection).items():
        if later := least - before[source]:
            of_source = _expirations.c.source == source
            connection.execute(update(_expirations).where(of_source).values(counted=_expirations.c.counted + later))


def _least(connection: Connection) -> dict[str, int]:
    """Return the time of each source that counts: that of the receiver that could receive for the shortest time."""
    least = select(_times.c.source, func.min(_times.c.counted)).group_by(_times.c.source)
    return {row[0]: row[1] for row in connection.execute(least)}
