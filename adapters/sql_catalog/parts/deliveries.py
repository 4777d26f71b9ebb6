"""Outgoing messages. Clients rely on them and the journal does not have them, so every write is durable on return."""

from collections.abc import Collection, Sequence

from sqlalchemy import or_, select, update

from adapters.sql_catalog.listing_pages import Listing, between, fetch_page
from adapters.sql_catalog.parts.part import CatalogPart, limited, log_events
from adapters.sql_catalog.schema.catalog_tables import IS_OPEN, IS_OVER, deliveries
from adapters.sql_catalog.schema.record_rows import ENDED, delivery_record, delivery_values
from app.model.attachment import DeliveryState
from app.model.records import DeliveryRecord, NewEvent
from app.ports import IdempotencyConflict, Page

_DELIVERIES = Listing(deliveries.c.created_at, deliveries.c.id, delivery_record)


class DeliveriesPart(CatalogPart):
    """`app.ports.catalog.deliveries` over SQL."""

    def add_delivery(self, delivery: DeliveryRecord, events: Sequence[NewEvent]) -> None:
        new = (
            self._database.insert(deliveries)
            .values(delivery_values(delivery))
            .on_conflict_do_nothing(index_elements=["idempotency_key"])
            .returning(deliveries.c.id)
        )
        with self._database.write(durable=True) as connection:
            if connection.execute(new).first() is None:
                same_key = select(deliveries).where(deliveries.c.idempotency_key == delivery.idempotency_key)
                row = connection.execute(same_key).one()
                existing = delivery_record(row)
                raise IdempotencyConflict(existing, same_request=existing.fingerprint == delivery.fingerprint)
            log_events(connection, events)

    def update_delivery(
        self,
        delivery: DeliveryRecord,
        events: Sequence[NewEvent] = (),
        expected: Collection[DeliveryState] | None = None,
    ) -> None:
        values = delivery_values(delivery)
        del values["cancel_requested"]
        if delivery.state in ENDED:
            values["cancel_requested"] = False
        change = update(deliveries).where(deliveries.c.id == delivery.id).values(values)
        if expected is not None:
            change = change.where(deliveries.c.state.in_([state.value for state in expected]))
        with self._database.write(durable=True) as connection:
            if not connection.execute(change).rowcount:
                raise KeyError(delivery.id)
            log_events(connection, events)

    def request_cancel(self, delivery_id: str) -> None:
        change = update(deliveries).where(deliveries.c.id == delivery_id, IS_OPEN).values(cancel_requested=True)
        with self._database.write(durable=True) as connection:
            if not connection.execute(change).rowcount:
                raise KeyError(delivery_id)

    def delivery(self, delivery_id: str) -> DeliveryRecord | None:
        return self._one(select(deliveries).where(deliveries.c.id == delivery_id), delivery_record)

    def is_delivery_recorded(self, delivery_id: str) -> bool:
        with self._database.write() as connection:  # it begins when the write before it has ended
            return connection.scalar(select(deliveries.c.id).where(deliveries.c.id == delivery_id)) is not None

    def due_deliveries(self, destination: str, now: int, limit: int, latest: int | None = None) -> list[DeliveryRecord]:
        to_destination = select(deliveries).where(IS_OPEN, deliveries.c.destination == destination)
        at = deliveries.c.next_attempt_at
        due = to_destination.where(at <= now if latest is None else or_(at <= now, at > latest))
        return self._all(due.order_by(deliveries.c.created_at, deliveries.c.id).limit(limit), delivery_record)

    def ended_deliveries(self, updated_before: int, limit: int) -> list[DeliveryRecord]:
        ended = select(deliveries).where(IS_OVER, deliveries.c.updated_at < updated_before)
        return self._all(ended.order_by(deliveries.c.updated_at, deliveries.c.id).limit(limit), delivery_record)

    def deliveries(
        self,
        state: DeliveryState | None,
        destination: str | None,
        cursor: str | None,
        limit: int,
        within: Collection[str] | None = None,
        created_after: int | None = None,
        created_before: int | None = None,
    ) -> Page[DeliveryRecord]:
        statement = select(deliveries).where(*limited(deliveries.c.destination, destination, within))
        if state is not None:
            statement = statement.where(deliveries.c.state == state.value)
        statement = statement.where(*between(deliveries.c.created_at, created_after, created_before))
        with self._database.read() as connection:
            return fetch_page(connection, _DELIVERIES, statement, cursor, limit)
