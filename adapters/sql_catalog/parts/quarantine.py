"""Quarantined messages, which could not be decoded or assembled."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import bindparam, delete, func, select, update

from adapters.sql_catalog.bulk_rows import BulkStatement
from adapters.sql_catalog.listing_pages import (
    Listing,
    Search,
    among_places,
    equal,
    fetch_page,
    newest_rows,
)
from adapters.sql_catalog.parts.part import CatalogPart, among, chunks
from adapters.sql_catalog.schema.bounded_types import AnyText
from adapters.sql_catalog.schema.catalog_tables import IS_IN_JOURNAL, quarantine, quarantine_copies, replay_requests
from adapters.sql_catalog.schema.record_rows import quarantine_record
from app.model.errors import kind_of_reason
from app.model.records import QuarantineCopy, QuarantineRecord, QuarantineState
from app.ports import Page, QuarantineGroup, QuarantineGroups

_copies = quarantine_copies
_SET_OBJECT = BulkStatement(
    update(quarantine)
    .where(quarantine.c.id == bindparam("entry", type_=AnyText))
    .values(object_name=bindparam("name", type_=AnyText)),
    ("entry", "name"),
)
_QUARANTINE = Listing(quarantine.c.received_at, quarantine.c.id, quarantine_record)
_GROUP = (quarantine.c.source, quarantine.c.code, quarantine.c.why_kind)
_OF_GROUP = (quarantine.c.received_at, quarantine.c.why)


class QuarantinePart(CatalogPart):
    """`app.ports.catalog.quarantine` over SQL."""

    def quarantined(
        self,
        source: str | None,
        state: QuarantineState | None,
        cursor: str | None,
        limit: int,
        within: Collection[str] | None = None,
        code: str | None = None,
        why: str | None = None,
    ) -> Page[QuarantineRecord]:
        search = _search(source, state, within, code, why)
        with self._database.read() as connection:
            return fetch_page(connection, _QUARANTINE, select(quarantine), cursor, limit, search)

    def quarantine_groups(
        self,
        source: str | None,
        state: QuarantineState | None,
        limit: int,
        within: Collection[str] | None = None,
        code: str | None = None,
        why: str | None = None,
    ) -> QuarantineGroups:
        search = _search(source, state, within, code, why)
        with self._database.read() as connection:
            found, is_all = newest_rows(connection, _QUARANTINE, select(*_GROUP, *_OF_GROUP), search)
            entries = found.subquery()
            group, count = [entries.c[column.name] for column in _GROUP], func.count()
            ends = (end(entries.c[column.name]) for column in _OF_GROUP for end in (func.min, func.max))
            grouped = select(*group, count, *ends, func.count().over(), func.sum(count).over()).group_by(*group)
            rows = connection.execute(grouped.order_by(count.desc(), *group).limit(limit)).all()
        items = [
            QuarantineGroup(source, code, least if least == greatest else kind, number, first, last)
            for source, code, kind, number, first, last, least, greatest, _, _ in rows
        ]
        groups, number = map(int, rows[0][-2:]) if rows else (0, 0)
        return QuarantineGroups(items, groups, number, is_all)

    def quarantine_between(self, source: str, first: int, last: int, limit: int) -> list[QuarantineRecord]:
        received = quarantine.c.received_at
        which = select(quarantine).where(quarantine.c.source == source, received.between(first, last))
        return self._all(which.order_by(received, quarantine.c.id).limit(limit), quarantine_record)

    def quarantine_entry(self, quarantine_id: str) -> QuarantineRecord | None:
        return self._one(select(quarantine).where(quarantine.c.id == quarantine_id), quarantine_record)

    def set_quarantine_state(self, quarantine_id: str, state: QuarantineState) -> bool:
        change = update(quarantine).where(quarantine.c.id == quarantine_id).values(state=state)
        return bool(self._execute(change, durable=True))

    def request_replay(self, quarantine_id: str) -> None:
        self._execute(
            self._database.insert(replay_requests).values(id=quarantine_id).on_conflict_do_nothing(), durable=True
        )

    def replay_requests(self, limit: int) -> list[str]:
        return self._all(
            select(replay_requests.c.id).order_by(replay_requests.c.id).limit(limit), lambda row: str(row.id)
        )

    def drop_replay_request(self, quarantine_id: str) -> None:
        self._execute(delete(replay_requests).where(replay_requests.c.id == quarantine_id), durable=True)

    def quarantine_copy(self, quarantine_id: str) -> QuarantineCopy | None:
        return self._one(
            select(_copies).where(_copies.c.id == quarantine_id),
            QuarantineCopy._make,
        )

    def uncopied_quarantine(self, position_below: int, largest: int, limit: int) -> list[QuarantineRecord]:
        position = quarantine.c.position
        which = (
            IS_IN_JOURNAL,
            position < position_below,
            quarantine.c.state != "dismissed",
            quarantine.c.size <= largest,
        )
        return self._all(select(quarantine).where(*which).order_by(position).limit(limit), quarantine_record)

    def copied_quarantine(
        self, copies: Sequence[QuarantineCopy], objects: Mapping[str, str], gone: Sequence[str]
    ) -> set[str]:
        add = self._database.insert(_copies).on_conflict_do_nothing()
        with self._database.write() as connection:
            for some in chunks([*(copy.id for copy in copies), *gone]):
                copied = among(connection, quarantine.c.id, some)
                connection.execute(update(quarantine).where(copied).values(in_journal=False))
            _SET_OBJECT.run(connection, {"entry": [*objects], "name": [*objects.values()]})
            known: set[str] = set()  # others have been deleted meanwhile
            for some in chunks([copy.id for copy in copies]):
                known.update(
                    connection.scalars(select(quarantine.c.id).where(among(connection, quarantine.c.id, some)))
                )
            rows = [copy._asdict() for copy in copies if copy.id in known]
            if rows:
                connection.execute(add, rows)
        return known


def _search(
    source: str | None, state: QuarantineState | None, within: Collection[str] | None, code: str | None, why: str | None
) -> Search:
    of_one, of_several = among_places(quarantine.c.source, source, within)
    by_state = [] if state is None else [equal(quarantine.c.state, state)]
    kind = None if why is None else kind_of_reason(why)
    others = ((quarantine.c.code, code), (quarantine.c.why_kind, kind))
    wanted = [equal(column, value) for column, value in others if value is not None]
    return Search((), [*of_one, *by_state], of_several, wanted)
