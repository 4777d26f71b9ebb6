"""The listings and records that clients read."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    and_,
    bindparam,
    case,
    func,
    literal,
    select,
)

from adapters.sql_catalog.listing_pages import (
    Condition,
    Listing,
    Search,
    among_places,
    between,
    count_rows,
    equal,
    fetch_page,
)
from adapters.sql_catalog.parts.part import CatalogPart, Lookup, chunks, limited
from adapters.sql_catalog.schema import catalog_tables
from adapters.sql_catalog.schema.bounded_types import AnyText
from adapters.sql_catalog.schema.record_rows import attachment_record, folded, message_record
from app.model.attachment import AttachmentState, DeliveryState
from app.model.records import AttachmentRecord, MessageRecord, QuarantineState
from app.ports import NEWEST_FIRST, AttachmentFilter, Identified, Page, Sort, Tallies, Total

T = TypeVar("T")

_attachments, _messages = catalog_tables.attachments, catalog_tables.messages

_SORTS: Mapping[str, ColumnElement[Any]] = {
    "received": _attachments.c.first_received_at,
    "size": catalog_tables.SIZE_KEY,
    "name": catalog_tables.NAME_KEY,
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
_ATTACHMENT, _MESSAGE = (select(table).where(table.c.id == bindparam("wanted")) for table in (_attachments, _messages))
_ATTACHMENTS_BY_ID = Lookup(_attachments.c.id, select(_attachments).where)
_MESSAGES_BY_ID = Lookup(_messages.c.id, select(_messages).where)
_MESSAGES_THAT_WAITED = Lookup(
    _messages.c.waited_as,
    lambda wanted: (
        select(_messages)
        .where(catalog_tables.HAS_WAITED, wanted)
        .order_by(_messages.c.waited_as, _messages.c.header_position, _messages.c.id)
    ),
)

_IDENTIFIED: Mapping[Identified, Sequence[tuple[Column[Any], Column[str]]]] = {
    "attachments": ((_attachments.c.id, _attachments.c.source), (_messages.c.waited_as, _messages.c.source)),
    "messages": ((_messages.c.id, _messages.c.source),),
    "deliveries": ((catalog_tables.deliveries.c.id, catalog_tables.deliveries.c.destination),),
}
_LAST_DIGITS = "f" * 32

_FINISHED = AttachmentState.FINISHED.value
_NOT_FINISHED = _attachments.c.state.in_([state.value for state in AttachmentState if state.value != _FINISHED])

_IS_UNANNOUNCED = _attachments.c.kind.is_(None)
_IS_WAITING = _IS_UNANNOUNCED & (_attachments.c.state == AttachmentState.RECEIVING.value)
_UNANNOUNCED = "unannounced"
_STATE_OR_UNANNOUNCED = case((_attachments.c.kind.is_not(None), _attachments.c.state), (_IS_WAITING, _UNANNOUNCED))
"""The state of an announced attachment; `unannounced` for one that waits for its header, and null for any other."""

_COUNTED: tuple[tuple[Table, tuple[str, ...]], ...] = (
    (catalog_tables.deliveries, tuple(DeliveryState)),
    (catalog_tables.quarantine, get_args(QuarantineState)),
)


class ListingPart(CatalogPart):
    """`app.ports.catalog.listing` over SQL."""

    def attachments(
        self, which: AttachmentFilter, cursor: str | None, limit: int, sort: Sort = NEWEST_FIRST
    ) -> Page[AttachmentRecord]:
        search = self._search(which, sort.removeprefix("-"))
        with self._database.read() as connection:
            return fetch_page(connection, _ATTACHMENTS[sort], select(_attachments), cursor, limit, search)

    def count_attachments(self, which: AttachmentFilter) -> Total:
        with self._database.read() as connection:
            search = self._search(which, "received")
            return count_rows(connection, _ATTACHMENTS[NEWEST_FIRST], select(_attachments), search)

    def attachment(self, attachment_id: str) -> AttachmentRecord | None:
        return self._one(_ATTACHMENT, attachment_record, wanted=attachment_id)

    def attachments_by_id(self, attachment_ids: Sequence[str]) -> list[AttachmentRecord]:
        return self._by_id(_ATTACHMENTS_BY_ID, attachment_ids, attachment_record)

    def messages_by_id(self, message_ids: Sequence[str]) -> list[MessageRecord]:
        return self._by_id(_MESSAGES_BY_ID, message_ids, message_record)

    def messages_that_waited(self, attachment_ids: Sequence[str]) -> list[MessageRecord]:
        return self._by_id(_MESSAGES_THAT_WAITED, attachment_ids, message_record)

    def _by_id(self, lookup: Lookup, ids: Sequence[str], record: Callable[[Row[Any]], T]) -> list[T]:
        with self._database.read() as connection:
            return [record(row) for some in chunks(ids) for row in lookup.run(connection, some).all()]

    def messages(
        self,
        source: str | None,
        cursor: str | None,
        limit: int,
        within: Collection[str] | None = None,
        received_after: int | None = None,
        received_before: int | None = None,
    ) -> Page[MessageRecord]:
        times = between(_messages.c.received_at, received_after, received_before)
        search = Search(times, *among_places(_messages.c.source, source, within))
        with self._database.read() as connection:
            return fetch_page(connection, _MESSAGES, select(_messages), cursor, limit, search)

    def message(self, message_id: str) -> MessageRecord | None:
        return self._one(_MESSAGE, message_record, wanted=message_id)

    def identifiers(self, of: Identified, prefix: str, limit: int, within: Collection[str] | None = None) -> list[str]:
        found: set[str] = set()
        with self._database.read() as connection:
            for column, place in _IDENTIFIED[of]:
                # A range of the primary key, not LIKE: PostgreSQL can use an index for LIKE only with the collation C.
                begins = column.between(literal(prefix, AnyText), literal(prefix + _LAST_DIGITS, AnyText))
                which = select(column).where(begins, *limited(place, None, within))
                if column.nullable:
                    which = which.where(catalog_tables.HAS_WAITED)
                found.update(connection.scalars(which.order_by(column).limit(limit)))
        return sorted(found)[:limit]

    def counts(self) -> dict[str, dict[str, int]]:
        with self._database.read() as connection:
            every = _states(connection, _by_state(_attachments), AttachmentState)
            others = _states(connection, _by_state(_attachments).where(_IS_UNANNOUNCED), AttachmentState)
            counted = {table.name: _states(connection, _by_state(table), states) for table, states in _COUNTED}
        announced = {state: number - others[state] for state, number in every.items()}
        return {"attachments": announced, _UNANNOUNCED: others, **counted}

    def tallies(self, times: Sequence[int]) -> Tallies:
        # Most attachments are finished, and an index alone has their number by source. So only the rows of others are
        # read. All finished ones are announced.
        source, destination = _attachments.c.source, catalog_tables.deliveries.c.destination
        age = case(*((_attachments.c.last_received_at > time, at) for at, time in enumerate(times)), else_=len(times))
        is_waiting = (_attachments.c.state == AttachmentState.RECEIVING.value) & _attachments.c.kind.is_not(None)
        with self._database.read() as connection:
            all_of = {row.place: row.number for row in connection.execute(_by(_attachments, source))}
            others = _placed(connection.execute(_by(_attachments, source, _STATE_OR_UNANNOUNCED).where(_NOT_FINISHED)))
            deliveries = _placed(
                connection.execute(_by(catalog_tables.deliveries, destination, catalog_tables.deliveries.c.state))
            )
            quarantined = catalog_tables.quarantine.c
            kept = _placed(connection.execute(_by(catalog_tables.quarantine, quarantined.source, quarantined.state)))
            waiting = _placed(connection.execute(_by(_attachments, source, age).where(is_waiting)))
        attachments = {
            place: {_FINISHED: number - sum(others.get(place, {}).values())} | others.get(place, {})
            for place, number in all_of.items()
        }
        unannounced = {place: found.pop(_UNANNOUNCED, 0) for place, found in attachments.items()}
        for found in attachments.values():
            found.pop(None, None)
        ages = {place: [found.get(age, 0) for age in range(len(times) + 1)] for place, found in waiting.items()}
        return Tallies(attachments, deliveries, kept, ages, unannounced)

    def _search(self, which: AttachmentFilter, key: str) -> Search:
        """Return what to search for in the order of a key: `received`, `size` or `name`."""
        c = _attachments.c
        is_finished = which.state is AttachmentState.FINISHED
        by_state = [] if which.state is None else [equal(c.state, which.state.value)]
        of_one, of_several = among_places(c.source, which.source, which.within)
        by_time: list[Condition] = [
            *([] if which.message is None else [equal(c.message_id, which.message)]),
            *([lambda _of: catalog_tables.HAS_WARNINGS] if which.warned else []),
            *([] if is_finished else by_state),
            *of_one,
            *(by_state if is_finished else []),
            *([] if which.kind is None else [equal(c.kind, int(which.kind))]),
        ]
        found = [*of_several, *([lambda of: of(c.kind).is_(None)] if which.announced is False else [])]
        times = between(c.first_received_at, which.received_after, which.received_before)
        sizes = _sized(which.min_size, which.max_size)
        others: list[Condition] = [
            *([lambda of: of(c.kind).is_not(None)] if which.announced else []),
            *([lambda _of: catalog_tables.HAS_NO_WARNINGS] if which.warned is False else []),
            *([self._named(which.name)] if which.name else []),
        ]
        if key == "received":
            return Search(times, by_time, [*found, *_as_one(sizes)], others)
        found += [*by_time, *_as_one(times)]
        if key == "size":
            return Search(sizes, (), found, others)
        return Search((), (), [*found, *_as_one(sizes)], others)

    def _named(self, name: str) -> Condition:
        # LIKE would need escaped wildcards, limit the length of the search text, and use the database's own letter
        # case.
        find = func.instr if self._database.dialect == "sqlite" else func.strpos
        return lambda of: find(of(_attachments.c.name_folded), literal(folded(name), AnyText)) > 0


def _sized(least: int | None, most: int | None) -> list[Condition]:
    """Return the conditions that a size lies between two others. Attachments without a size have the key -1."""
    if least is None and most is None:
        return []
    smallest: list[Condition] = [lambda of: of(catalog_tables.SIZE_KEY) >= max(least or 0, 0)]
    return [*smallest, *([] if most is None else [lambda of: of(catalog_tables.SIZE_KEY) <= most])]


def _as_one(range_of_key: Sequence[Condition]) -> list[Condition]:
    """Return the conditions of a range as one, so that an index is asked for both ends; none if it is not limited."""
    return [lambda of: and_(*(each(of) for each in range_of_key))] if range_of_key else []


def _by_state(table: Table) -> Select[tuple[str, int]]:
    return select(table.c.state, func.count().label("number")).group_by(table.c.state)


def _states(connection: Connection, counted: Select[tuple[str, int]], states: Iterable[str]) -> dict[str, int]:
    found = {row.state: row.number for row in connection.execute(counted)}
    return {str(state): found.get(state, 0) for state in states}


def _by(table: Table, place: ColumnElement[str], *more: ColumnElement[Any]) -> Select[Any]:
    """Return how many rows there are by place, and by another column that is called `kind` here."""
    named = [column.label("kind") for column in more]
    return select(place.label("place"), *named, func.count().label("number")).select_from(table).group_by(place, *more)


def _placed(rows: Iterable[Row[Any]]) -> dict[str, dict[Any, int]]:
    found: dict[str, dict[Any, int]] = {}
    for row in rows:
        found.setdefault(row.place, {})[row.kind] = row.number
    return found
