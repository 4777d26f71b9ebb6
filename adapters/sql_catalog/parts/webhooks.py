"""Webhooks: their positions in the event log, and the events that were given up."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import ColumnElement, Row, delete, func, select, tuple_, update

from adapters.sql_catalog.parts.part import CatalogPart, chunks
from adapters.sql_catalog.schema.catalog_tables import dead_letters, webhooks
from app.model.records import EventRecord
from app.model.webhook_state import DeadLetter, WebhookRecord, WebhookState

_FIELDS = tuple(field.name for field in fields(WebhookRecord))


class WebhooksPart(CatalogPart):
    """`app.ports.WebhookCatalog` over SQL."""

    def webhooks(self) -> dict[str, WebhookRecord]:
        found = self._all(select(webhooks), _record)
        return {record.name: record for record in found}

    def save_webhook(self, record: WebhookRecord, dead: Sequence[DeadLetter] = ()) -> None:
        values = asdict(record) | {"state": record.state.value}
        saved = self._database.insert(webhooks).values(values)
        saved = saved.on_conflict_do_update(index_elements=["name"], set_=values)
        with self._database.write() as connection:
            connection.execute(saved)
            for letter in dead:
                row = _letter_values(letter)
                added = self._database.insert(dead_letters).values(row)
                connection.execute(added.on_conflict_do_update(index_elements=["webhook", "number"], set_=row))

    def dead_letters(self, webhook: str, after: int, limit: int, *, queued: bool = False) -> list[DeadLetter]:
        later = select(dead_letters).where(dead_letters.c.webhook == webhook, dead_letters.c.number > after)
        if queued:
            later = later.where(dead_letters.c.queued_at.is_not(None))
        return self._all(later.order_by(dead_letters.c.number).limit(limit), _letter)

    def queue_dead_letters(self, webhook: str, events: Collection[int] | None, now: int) -> int:
        return sum(
            self._execute(update(dead_letters).where(condition).values(queued_at=now))
            for condition in _these(webhook, events)
        )

    def drop_dead_letters(self, webhook: str, events: Collection[int] | None) -> int:
        return sum(self._execute(delete(dead_letters).where(condition)) for condition in _these(webhook, events))

    def dead_letter_counts(self) -> dict[str, int]:
        counted = select(dead_letters.c.webhook, func.count().label("number")).group_by(dead_letters.c.webhook)
        with self._database.read() as connection:
            return {row.webhook: row.number for row in connection.execute(counted)}

    def prune_dead_letters(self, failed_before: int, limit: int) -> int:
        key = (dead_letters.c.webhook, dead_letters.c.number)
        old = select(*key).where(dead_letters.c.failed_at < failed_before, dead_letters.c.queued_at.is_(None))
        old = old.order_by(dead_letters.c.failed_at).limit(limit)
        return self._execute(delete(dead_letters).where(tuple_(*key).in_(old)))

    def _execute(self, statement: Any) -> int:
        with self._database.write() as connection:
            return int(connection.execute(statement).rowcount)


def _these(webhook: str, events: Collection[int] | None) -> Iterator[ColumnElement[bool]]:
    """Yield conditions that together select these dead letters."""
    its = dead_letters.c.webhook == webhook
    if events is None:
        yield its
        return
    for some in chunks(sorted(set(events))):
        yield its & dead_letters.c.number.in_(some)


def _record(row: Row[Any]) -> WebhookRecord:
    values = {name: getattr(row, name) for name in _FIELDS}
    return WebhookRecord(**values | {"state": WebhookState(row.state)})


def _letter(row: Row[Any]) -> DeadLetter:
    event = EventRecord(row.number, row.type, row.subject, row.time, row.data, row.trace_parent)
    return DeadLetter(row.webhook, event, row.failed_at, row.reason, row.queued_at)


def _letter_values(letter: DeadLetter) -> dict[str, object]:
    values: dict[str, object] = letter._asdict()
    del values["event"]
    return {**letter.event._asdict(), **values}
