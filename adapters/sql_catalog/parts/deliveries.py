"""Outgoing messages. Clients rely on them and the journal does not have them, so every write is durable on return.

A process claims a delivery before it sends it. Each claim has a number, and a record is written only under the number
with which it was read. So a process that was paused, and whose claim has ended meanwhile, changes nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Select, Update, and_, func, or_, select, update

from adapters.sql_catalog.listing_pages import Listing, Search, among_places, between, equal, fetch_page
from adapters.sql_catalog.parts.missing_parts import keys_of
from adapters.sql_catalog.parts.part import CatalogPart, ends_in, is_past, log_events, now_of
from adapters.sql_catalog.schema.catalog_tables import IS_OPEN, IS_OVER, deliveries, sent_attachments
from adapters.sql_catalog.schema.record_rows import ENDED, delivery_record, delivery_values
from app.model.attachment import DeliveryState
from app.model.records import DeliveryRecord, NewEvent
from app.ports import Begin, IdempotencyConflict, Page, Sending

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
            if keys := keys_of(delivery):
                connection.execute(self._database.insert(sent_attachments).on_conflict_do_nothing(), keys)
            log_events(connection, events)

    def update_delivery(
        self,
        delivery: DeliveryRecord,
        events: Sequence[NewEvent] = (),
        expected: Collection[DeliveryState] | None = None,
    ) -> bool:
        change = _change(delivery, delivery.claim)
        if expected is not None:
            change = change.where(deliveries.c.state.in_([state.value for state in expected]))
        with self._database.write(durable=True) as connection:
            is_unwanted = _is_unwanted(connection, change, delivery)
            log_events(connection, events)
        return is_unwanted

    def request_cancel(self, delivery_id: str) -> None:
        change = update(deliveries).where(deliveries.c.id == delivery_id, IS_OPEN).values(cancel_requested=True)
        if not self._execute(change, durable=True):
            raise KeyError(delivery_id)

    def open_deliveries(self) -> Mapping[str, int]:
        count = select(deliveries.c.destination, func.count()).where(IS_OPEN).group_by(deliveries.c.destination)
        with self._database.read() as connection:
            return {row[0]: row[1] for row in connection.execute(count)}

    def delivery(self, delivery_id: str) -> DeliveryRecord | None:
        return self._one(select(deliveries).where(deliveries.c.id == delivery_id), delivery_record)

    def is_delivery_recorded(self, delivery_id: str) -> bool:
        with self._database.write() as connection:  # it begins when the write before it has ended
            return connection.scalar(select(deliveries.c.id).where(deliveries.c.id == delivery_id)) is not None

    def claim_delivery(
        self, sending: Sending, seconds: float, begin: Begin, now: int, latest: int | None = None
    ) -> DeliveryRecord | None:
        order = deliveries.c.created_at, deliveries.c.id
        at, until = deliveries.c.next_attempt_at, deliveries.c.claimed_until
        to_destination = and_(IS_OPEN, deliveries.c.destination == sending.destination)
        candidates = select(deliveries).where(to_destination)
        if sending.ordered:
            oldest = select(deliveries.c.id).where(to_destination).order_by(*order).limit(1)
            candidates = select(deliveries).where(deliveries.c.id == oldest.scalar_subquery())
        due = candidates.where(is_past(at, now, latest)).order_by(*order).limit(1)

        def free(connection: Connection) -> Select[Any]:
            if sending.is_alone:
                return due
            is_own = deliveries.c.claimed_by == sending.process
            return due.where(or_(until.is_(None), until <= now_of(connection), is_own))

        with self._database.read() as connection:  # mostly there is none
            if connection.execute(free(connection)).first() is None:
                return None
        with self._database.write(durable=True) as connection:
            row = connection.execute(free(connection).with_for_update(skip_locked=True)).first()
            if row is None:
                return None
            found = delivery_record(row)
            begun, events = begin(replace(found, claim=found.claim + 1))
            ends = ends_in(connection, seconds)
            connection.execute(_change(begun, found.claim).values(claimed_by=sending.process, claimed_until=ends))
            log_events(connection, events)
        return begun

    def renew_claim(self, delivery: DeliveryRecord, seconds: float) -> bool:
        same = (deliveries.c.id == delivery.id, deliveries.c.claim == delivery.claim)
        is_sent = deliveries.c.state == DeliveryState.SENDING.value
        with self._database.write() as connection:
            change = update(deliveries).where(*same, is_sent).values(claimed_until=ends_in(connection, seconds))
            return _is_unwanted(connection, change, delivery)

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
        times = between(deliveries.c.created_at, created_after, created_before)
        to_one, to_several = among_places(deliveries.c.destination, destination, within)
        by_state = [] if state is None else [equal(deliveries.c.state, state.value)]
        # Most deliveries are sent.
        ordered = [*to_one, *by_state] if state is DeliveryState.SENT else [*by_state, *to_one]
        search = Search(times, ordered, to_several)
        with self._database.read() as connection:
            return fetch_page(connection, _DELIVERIES, select(deliveries), cursor, limit, search)


def _change(delivery: DeliveryRecord, claim: int) -> Update:
    """Return the statement that records a delivery which was read under a claim."""
    values = delivery_values(delivery)
    del values["cancel_requested"]
    if delivery.state in ENDED:
        values["cancel_requested"] = False
    if delivery.state is not DeliveryState.SENDING:
        values |= {"claimed_by": None, "claimed_until": None}
    return update(deliveries).where(deliveries.c.id == delivery.id, deliveries.c.claim == claim).values(values)


def _is_unwanted(connection: Connection, change: Update, delivery: DeliveryRecord) -> bool:
    """Execute a change of a delivery; return whether a client has asked to cancel it. Raises KeyError if there is no
    such row."""
    is_unwanted = connection.scalar(change.returning(deliveries.c.cancel_requested))
    if is_unwanted is None:
        raise KeyError(delivery.id)
    return bool(is_unwanted)
