"""The listings and records that clients read."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args

from sqlalchemy import BigInteger, Column, ColumnElement, Row, Select, Table, TextClause, case, func, literal, select

from adapters.sql_catalog import tables
from adapters.sql_catalog.column_types import AnyText
from adapters.sql_catalog.paging import Listing, between, fetch_page
from adapters.sql_catalog.part import CatalogPart, Lookup, chunks, limited
from adapters.sql_catalog.rows import attachment_record, folded, message_record
from app.model.attachment import AttachmentState, DeliveryState
from app.model.records import AttachmentRecord, MessageRecord, QuarantineState
from app.ports import NEWEST_FIRST, AttachmentFilter, Identified, Page, Sort, Tallies

T = TypeVar("T")

_attachments, _messages = tables.attachments, tables.messages

_SORTS: Mapping[str, ColumnElement[Any]] = {
    "received": _attachments.c.first_received_at,
    "size": func.coalesce(_attachments.c.size, literal(-1, BigInteger)),
    "name": _attachments.c.name_folded,
}
_ATTACHMENTS: Mapping[str, Listing[AttachmentRecord]] = {
    sort: Listing(
        _SORTS[sort.removeprefix("-")],
        _attachments.c.id,
        attachment_record,
        None if sort == NEWEST_FIRST else sort,
        sort.startswith("-"),
    )
    for sort in get_args(Sort)
}
_MESSAGES = Listing(_messages.c.received_at, _messages.c.id, message_record)
_ATTACHMENTS_BY_ID = Lookup(_attachments.c.id, select(_attachments).where)
_MESSAGES_BY_ID = Lookup(_messages.c.id, select(_messages).where)

_IDENTIFIED: dict[Identified, tuple[Table, Column[str]]] = {
    "attachments": (tables.attachments, tables.attachments.c.source),
    "messages": (tables.messages, tables.messages.c.source),
    "deliveries": (tables.deliveries, tables.deliveries.c.destination),
}
_LAST_DIGITS = "f" * 32

_FINISHED = AttachmentState.FINISHED.value
_NOT_FINISHED = _attachments.c.state.in_([state.value for state in AttachmentState if state.value != _FINISHED])

_COUNTED: tuple[tuple[Table, tuple[str, ...]], ...] = (
    (tables.attachments, tuple(AttachmentState)),
    (tables.deliveries, tuple(DeliveryState)),
    (tables.quarantine, get_args(QuarantineState)),
)


class Reading(CatalogPart):
    """`app.ports.ListingCatalog` over SQL."""

    def attachments(
        self, which: AttachmentFilter, cursor: str | None, limit: int, sort: Sort = NEWEST_FIRST
    ) -> Page[AttachmentRecord]:
        statement = select(_attachments).where(*self._conditions(which))
        with self._database.read() as connection:
            return fetch_page(connection, _ATTACHMENTS[sort], statement, cursor, limit)

    def count_attachments(self, which: AttachmentFilter) -> int:
        counted = select(func.count()).select_from(_attachments).where(*self._conditions(which))
        with self._database.read() as connection:
            return connection.scalar(counted) or 0

    def attachment(self, attachment_id: str) -> AttachmentRecord | None:
        return self._one(select(_attachments).where(_attachments.c.id == attachment_id), attachment_record)

    def attachments_by_id(self, attachment_ids: Sequence[str]) -> list[AttachmentRecord]:
        return self._by_id(_ATTACHMENTS_BY_ID, attachment_ids, attachment_record)

    def messages_by_id(self, message_ids: Sequence[str]) -> list[MessageRecord]:
        return self._by_id(_MESSAGES_BY_ID, message_ids, message_record)

    def _by_id(self, lookup: Lookup, ids: Sequence[str], record: Callable[[Row[Any]], T]) -> list[T]:
        with self._database.read() as connection:
            return [record(row) for some in chunks(ids) for row in lookup.run(connection, some)]

    def messages(
        self,
        source: str | None,
        cursor: str | None,
        limit: int,
        within: Collection[str] | None = None,
        received_after: int | None = None,
        received_before: int | None = None,
    ) -> Page[MessageRecord]:
        statement = select(_messages).where(*limited(_messages.c.source, source, within))
        statement = statement.where(*between(_messages.c.received_at, received_after, received_before))
        with self._database.read() as connection:
            return fetch_page(connection, _MESSAGES, statement, cursor, limit)

    def message(self, message_id: str) -> MessageRecord | None:
        return self._one(select(_messages).where(_messages.c.id == message_id), message_record)

    def identifiers(self, of: Identified, prefix: str, limit: int, within: Collection[str] | None = None) -> list[str]:
        """Return the first identifiers that begin with a prefix.

        A range of the primary key, not LIKE: PostgreSQL can use an index for LIKE only with the collation C.
        """
        table, place = _IDENTIFIED[of]
        found = table.c.id
        begins = found.between(literal(prefix, AnyText), literal(prefix + _LAST_DIGITS, AnyText))
        which = select(found).where(begins, *limited(place, None, within))
        with self._database.read() as connection:
            return list(connection.scalars(which.order_by(found).limit(limit)))

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the number of records in every state, 0 included."""
        with self._database.read() as connection:
            return {
                table.name: dict.fromkeys(map(str, states), 0)
                | {row.state: row.number for row in connection.execute(_by_state(table))}
                for table, states in _COUNTED
            }

    def tallies(self, times: Sequence[int]) -> Tallies:
        """Return how many there are, by place and state.

        Most attachments are finished, and an index without the rows has how many there are of a source. So only the
        others are read.
        """
        source, destination = _attachments.c.source, tables.deliveries.c.destination
        with self._database.read() as connection:
            all_of = {row.place: row.number for row in connection.execute(_by(_attachments, source))}
            others = _placed(connection.execute(_by(_attachments, source, _attachments.c.state).where(_NOT_FINISHED)))
            deliveries = _placed(connection.execute(_by(tables.deliveries, destination, tables.deliveries.c.state)))
            quarantined = tables.quarantine.c
            kept = _placed(connection.execute(_by(tables.quarantine, quarantined.source, quarantined.state)))
            waiting = _placed(connection.execute(_waiting(times)))
        attachments = {
            place: {_FINISHED: number - sum(others.get(place, {}).values())} | others.get(place, {})
            for place, number in all_of.items()
        }
        ages = {place: [found.get(age, 0) for age in range(len(times) + 1)] for place, found in waiting.items()}
        return Tallies(attachments, deliveries, kept, ages)

    def _conditions(self, which: AttachmentFilter) -> Iterator[ColumnElement[bool] | TextClause]:
        equal: tuple[tuple[Column[object], object], ...] = (
            (_attachments.c.state, which.state and which.state.value),
            (_attachments.c.kind, which.kind and int(which.kind)),
            (_attachments.c.message_id, which.message),
        )
        yield from limited(_attachments.c.source, which.source, which.within)
        for column, wanted in equal:
            if wanted is not None:
                yield column == wanted
        yield from between(_attachments.c.first_received_at, which.received_after, which.received_before)
        if which.min_size is not None:
            yield _attachments.c.size >= which.min_size
        if which.max_size is not None:
            yield _attachments.c.size <= which.max_size
        if which.warned is not None:
            yield tables.HAS_WARNINGS if which.warned else tables.HAS_NO_WARNINGS
        if which.name:
            # LIKE would need escaped wildcards, limit the length of the search text, and use the database's own letter
            # case.
            find = func.instr if self._database.dialect == "sqlite" else func.strpos
            yield find(_attachments.c.name_folded, literal(folded(which.name), AnyText)) > 0


def _by_state(table: Table) -> Select[tuple[str, int]]:
    return select(table.c.state, func.count().label("number")).group_by(table.c.state)


def _by(table: Table, place: ColumnElement[str], *more: ColumnElement[Any]) -> Select[Any]:
    """Return how many rows there are by place, and by another column that is called `kind` here."""
    named = [column.label("kind") for column in more]
    return select(place.label("place"), *named, func.count().label("number")).select_from(table).group_by(place, *more)


def _waiting(times: Sequence[int]) -> Select[Any]:
    last = _attachments.c.last_received_at
    age = case(*((last > time, at) for at, time in enumerate(times)), else_=len(times))
    return _by(_attachments, _attachments.c.source, age).where(_attachments.c.state == AttachmentState.RECEIVING.value)


def _placed(rows: Iterable[Row[Any]]) -> dict[str, dict[Any, int]]:
    found: dict[str, dict[Any, int]] = {}
    for row in rows:
        found.setdefault(row.place, {})[row.kind] = row.number
    return found
