"""The event log and the webhooks: their positions in the log, and the events that were given up for them."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import ColumnElement, Row, delete, func, select, tuple_, update

from adapters.sql_catalog.log_beginnings import last_event, newest_log
from adapters.sql_catalog.parts.part import CatalogPart, chunks
from adapters.sql_catalog.schema.catalog_tables import dead_letters, event_logs, events, webhooks
from adapters.sql_catalog.schema.record_rows import event_record, reads
from app.model.event_logs import EventLogs
from app.model.records import EventRecord
from app.model.webhook_state import DeadLetter, WebhookRecord, WebhookState

_OF_CLIENTS = ("changes", "requeues")
_FRESH = {"attempts": 0, "failing_since": None, "next_attempt_at": 0, "reason": None}


class EventsPart(CatalogPart):
    """`app.ports.catalog.events` over SQL."""

    def events_after(self, number: int, limit: int) -> list[EventRecord]:
        later = select(events).where(events.c.number > number).order_by(events.c.number).limit(limit)
        return self._all(later, event_record)

    def events_about(self, subject: str, since: int) -> list[EventRecord]:
        """Return the events about a subject. They are found by their time: an index on the subject would cost each
        event more than the few questions for it save."""
        about = select(events).where(events.c.time >= since, events.c.subject == subject)
        return self._all(about.order_by(events.c.number), event_record)

    def last_event(self) -> int:
        with self._database.read() as connection:
            return last_event(connection)

    def event_logs(self) -> EventLogs:
        with self._database.read() as connection:
            found = connection.execute(select(event_logs).order_by(event_logs.c.begins_after)).all()
        return EventLogs(tuple(row.begins_after for row in found), tuple(row.name for row in found))

    def newest_log(self) -> str:
        with self._database.read() as connection:
            newest = newest_log(connection)
        if newest.goes_on:
            return newest.name
        # Whatever keeps this process from writing does not matter here: it is about what it has read.
        with self._database.admitting_all().write(durable=True) as connection:
            return newest_log(connection).name

    def webhooks(self) -> dict[str, WebhookRecord]:
        found = self._all(select(webhooks), _record)
        return {record.name: record for record in found}

    def save_webhook(self, record: WebhookRecord, dead: Sequence[DeadLetter] = ()) -> bool:
        values = asdict(record) | {"state": record.state.value}
        own = {name: value for name, value in values.items() if name not in _OF_CLIENTS}
        saved = self._database.insert(webhooks).values(values)
        unchanged = webhooks.c.changes == record.changes
        saved = saved.on_conflict_do_update(index_elements=["name"], set_=own, where=unchanged)
        with self._database.write() as connection:
            if not connection.execute(saved).rowcount:
                return False
            for letter in dead:
                row: dict[str, object] = letter.event._asdict() | letter._asdict()
                del row["event"]
                connection.execute(self._database.upsert(dead_letters, *row), row)
        return True

    def change_webhook(
        self, name: str, now: int, *, state: WebhookState | None = None, position: int | None = None
    ) -> None:
        wanted = {"state": None if state is None else state.value, "position": position}
        changed = {column: value for column, value in wanted.items() if value is not None}
        self._execute(
            update(webhooks)
            .where(webhooks.c.name == name)
            .values(**_FRESH, **changed, updated_at=now, changes=webhooks.c.changes + 1)
        )

    def dead_letters(self, webhook: str, after: int, limit: int, *, queued: bool = False) -> list[DeadLetter]:
        later = select(dead_letters).where(dead_letters.c.webhook == webhook, dead_letters.c.number > after)
        if queued:
            later = later.where(dead_letters.c.queued_at.is_not(None))
        return self._all(later.order_by(dead_letters.c.number).limit(limit), _letter)

    def queue_dead_letters(self, webhook: str, events: Collection[int] | None, now: int) -> int:
        with self._database.write() as connection:
            queued = sum(
                connection.execute(update(dead_letters).where(condition).values(queued_at=now)).rowcount
                for condition in _these(webhook, events)
            )
            counted = update(webhooks).where(webhooks.c.name == webhook)
            connection.execute(counted.values(requeues=webhooks.c.requeues + 1))
        return queued

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


_FIELDS = tuple(field.name for field in fields(WebhookRecord))


def _these(webhook: str, events: Collection[int] | None) -> Iterator[ColumnElement[bool]]:
    """Yield conditions that together select these dead letters."""
    its = dead_letters.c.webhook == webhook
    if events is None:
        yield its
        return
    for some in chunks(sorted(set(events))):
        yield its & dead_letters.c.number.in_(some)


@reads(webhooks)
def _record(row: Row[Any]) -> WebhookRecord:
    values = {name: getattr(row, name) for name in _FIELDS}
    return WebhookRecord(**values | {"state": WebhookState(row.state)})


@reads(dead_letters)
def _letter(row: Row[Any]) -> DeadLetter:
    event = EventRecord(row.number, row.type, row.subject, row.time, row.data, row.trace_parent)
    return DeadLetter(row.webhook, event, row.failed_at, row.reason, row.queued_at)
