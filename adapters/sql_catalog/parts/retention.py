"""Counts of the catalog's records, and their deletion by age: in batches, the oldest first."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Table,
    Text,
    cast,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    update,
)

from adapters.sql_catalog.parts.part import CatalogPart, among, chunks, log_events
from adapters.sql_catalog.schema import catalog_tables
from adapters.sql_catalog.schema.record_rows import attachment_record, quarantine_record
from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord, Kept, NewEvent, QuarantineRecord

_receipt_tables = catalog_tables.receipt_tables
_attachments, _messages, _quarantine, _events = (
    catalog_tables.attachments,
    catalog_tables.messages,
    catalog_tables.quarantine,
    catalog_tables.events,
)
_number = func.count().label("number")
_holds_parts = exists().where(catalog_tables.part_runs.c.attachment_id == _attachments.c.id)
_is_kept_as_expired = exists().where(catalog_tables.expirations.c.attachment_id == _attachments.c.id)
_has_attachments = exists().where(_attachments.c.message_id == _messages.c.id)

_no_size = literal(0, BigInteger)

_COUNTS: dict[str, Any] = {
    "content": select(_number, func.coalesce(func.sum(_attachments.c.size), 0)).where(catalog_tables.HAS_CONTENT),
    "attachments": select(_number, _no_size).select_from(_attachments).where(catalog_tables.IS_ENDED),
    "messages": select(_number, _no_size).select_from(_messages),
    "deliveries": select(_number, _no_size).select_from(catalog_tables.deliveries).where(catalog_tables.IS_OVER),
    "quarantine": select(_number, func.coalesce(func.sum(_quarantine.c.size), 0)),
    "events": select(_number, _no_size).select_from(_events),
}


class RetentionPart(CatalogPart):
    """`app.ports.catalog.retention` over SQL."""

    def kept(self) -> dict[str, Kept]:
        with self._database.read() as connection:
            counted = {what: connection.execute(count).one() for what, count in _COUNTS.items()}
        return {what: Kept(*map(int, row)) for what, row in counted.items()}

    def oldest_content(self, finished_before: int, limit: int) -> list[AttachmentRecord]:
        finished_at = _attachments.c.finished_at
        stored = select(_attachments).where(
            catalog_tables.HAS_CONTENT, _attachments.c.storage == "store", finished_at < finished_before
        )
        return self._all(stored.order_by(finished_at, _attachments.c.id).limit(limit), attachment_record)

    def content_to_remove(self, limit: int) -> list[AttachmentRecord]:
        to_remove = select(_attachments).where(catalog_tables.IS_TO_REMOVE)
        return self._all(to_remove.order_by(_attachments.c.id).limit(limit), attachment_record)

    def content_removed(self, attachment_ids: Sequence[str]) -> None:
        with self._database.write() as connection:
            for some in chunks(attachment_ids):
                removed = update(_attachments).where(among(connection, _attachments.c.id, some))
                connection.execute(removed.where(catalog_tables.IS_TO_REMOVE).values(object_name=None))

    def refused_attachments(self, last_received_before: int, limit: int) -> list[AttachmentRecord]:
        last = _attachments.c.last_received_at
        state = func.coalesce(_attachments.c.state, "")
        refused = select(_attachments).where(
            catalog_tables.IS_ENDED,
            last < last_received_before,
            state == AttachmentState.QUARANTINED.value,
            _holds_parts,
        )
        return self._all(refused.order_by(last, _attachments.c.id).limit(limit), attachment_record)

    def drop_attachments(
        self,
        states: Collection[AttachmentState],
        last_received_before: int,
        limit: int,
        event: Callable[[AttachmentRecord], NewEvent],
    ) -> tuple[int, int]:
        last = _attachments.c.last_received_at
        ended = select(_attachments).where(
            catalog_tables.IS_ENDED,
            last < last_received_before,
            # Not the bare column: SQLite would search by the index on states, and sort.
            func.coalesce(_attachments.c.state, "").in_([state.value for state in states]),
            ~_holds_parts,
            ~_is_kept_as_expired,
            or_(_attachments.c.object_name.is_(None), _attachments.c.storage.is_not(None)),
        )
        with self._database.write(durable=True) as connection:
            rows = connection.execute(ended.order_by(last, _attachments.c.id).limit(limit)).all()
            records = [attachment_record(row) for row in rows]
            _delete(connection, _attachments, [each.id for each in records])
            theirs = sorted({each.message_id for each in records if each.message_id is not None})
            messages = _delete(connection, _messages, theirs, ~_has_attachments)
            log_events(connection, [event(each) for each in records if each.state is not AttachmentState.DELETED])
        return len(records), messages

    def drop_messages(self, received_before: int, limit: int) -> int:
        received_at = _messages.c.received_at
        alone = select(_messages.c.id).where(received_at < received_before, cast(_messages.c.attachments, Text) == "[]")
        return self._drop(_messages, alone.order_by(received_at, _messages.c.id).limit(limit))

    def drop_message(self, message_id: str, events: Sequence[NewEvent]) -> bool:
        with self._database.write(durable=True) as connection:
            is_dropped = bool(_delete(connection, _messages, [message_id]))
            log_events(connection, events if is_dropped else ())
        return is_dropped

    def drop_deliveries(self, delivery_ids: Sequence[str], events: Sequence[NewEvent] = ()) -> set[str]:
        deliveries = catalog_tables.deliveries
        dropped: set[str] = set()
        with self._database.write(durable=True) as connection:
            for some in chunks(delivery_ids):
                ended = delete(deliveries).where(among(connection, deliveries.c.id, some), catalog_tables.IS_OVER)
                dropped.update(connection.scalars(ended.returning(deliveries.c.id)))
            log_events(connection, [event for event in events if event.subject in dropped])
        return dropped

    def quarantine_by_source(self) -> dict[str, Kept]:
        size = func.coalesce(func.sum(_quarantine.c.size), 0).label("size")
        counted = select(_quarantine.c.source, _number, size).group_by(_quarantine.c.source)
        with self._database.read() as connection:
            return {row.source: Kept(row.number, int(row.size)) for row in connection.execute(counted)}

    def oldest_quarantine(self, source: str, received_before: int, limit: int) -> list[QuarantineRecord]:
        received_at = _quarantine.c.received_at
        old = select(_quarantine).where(_quarantine.c.source == source, received_at < received_before)
        return self._all(old.order_by(received_at, _quarantine.c.id).limit(limit), quarantine_record)

    def drop_quarantine(self, quarantine_ids: Sequence[str], objects: Sequence[str] = ()) -> set[str]:
        name = _quarantine.c.object_name
        dropped: set[str] = set()
        with self._database.write() as connection:
            for some in chunks(quarantine_ids):
                which = among(connection, _quarantine.c.id, some), or_(name.is_(None), among(connection, name, objects))
                dropped.update(connection.scalars(delete(_quarantine).where(*which).returning(_quarantine.c.id)))
        return dropped

    def prune_events(
        self, before: int, keep: int | None = None, limit: int | None = None, up_to: int | None = None
    ) -> int:
        """Delete old events, but not the last one. Their numbers are not used again."""
        newest = select(func.max(_events.c.number)).scalar_subquery()
        is_old = (_events.c.time < before, _events.c.number < newest)
        old = [select(_events.c.number).where(*is_old).order_by(_events.c.time)]
        if keep is not None:
            old.append(
                select(_events.c.number).where(_events.c.number <= newest - max(keep, 1)).order_by(_events.c.number)
            )
        if up_to is not None:
            old = [each.where(_events.c.number <= up_to) for each in old]
        pruned = 0
        for each in old:
            pruned += self._drop(_events, each if limit is None else each.limit(limit - pruned))
        if pruned:
            oldest = select(func.min(_events.c.time)).scalar_subquery()
            self._execute(delete(_receipt_tables).where(_receipt_tables.c.finished_at < oldest))
        return pruned

    def _drop(self, table: Table, which: Select[tuple[object]]) -> int:
        (key,) = table.primary_key.columns
        return self._execute(delete(table).where(key.in_(which)))


def _delete(connection: Connection, table: Table, ids: Sequence[str], *conditions: ColumnElement[bool]) -> int:
    (key,) = table.primary_key.columns
    deleted = 0
    for some in chunks(ids):
        deleted += connection.execute(delete(table).where(among(connection, key, some), *conditions)).rowcount
    return deleted
