"""Deliveries: outgoing messages on their way to destinations."""

from collections.abc import Collection, Sequence
from typing import Protocol

from app.model.attachment import DeliveryState
from app.model.records import DeliveryRecord, NewEvent
from app.ports.catalog.listing import Page


class IdempotencyConflict(Exception):
    """An idempotency key that was used before: for another request, or (`same_request`) for this `delivery`."""

    def __init__(self, delivery: DeliveryRecord, *, same_request: bool) -> None:
        super().__init__(delivery.id)
        self.delivery, self.same_request = delivery, same_request


class DeliveryCatalog(Protocol):
    """Deliveries, from the request that made them to their end."""

    def add_delivery(self, delivery: DeliveryRecord, events: Sequence[NewEvent]) -> None:
        """Add a delivery. Raises IdempotencyConflict, with the earlier delivery, if its key is taken."""

    def due_deliveries(self, destination: str, now: int, limit: int, latest: int | None = None) -> list[DeliveryRecord]:
        """Return queued and sending deliveries to a destination whose next attempt is due, oldest first.

        An attempt planned for later than `latest` is due too: a clock that was ahead has put it off.
        """

    def update_delivery(
        self,
        delivery: DeliveryRecord,
        events: Sequence[NewEvent] = (),
        expected: Collection[DeliveryState] | None = None,
    ) -> None:
        """Replace a delivery's record, except `cancel_requested`, which is kept until the delivery has ended.

        Raises KeyError if there is none, or none in an `expected` state.
        """

    def request_cancel(self, delivery_id: str) -> None:
        """Set `cancel_requested` of a delivery that has not ended. Raises KeyError if there is none."""

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
        """Return a page of deliveries, to one destination or to all (`within`: to these). Raises BadCursor."""

    def delivery(self, delivery_id: str) -> DeliveryRecord | None:
        """Return a delivery, or None if it is unknown."""

    def is_delivery_recorded(self, delivery_id: str) -> bool:
        """Tell whether a delivery is recorded, once every write that has begun has ended.

        For a writer that did not learn the outcome of its own write: the database may still be at work on it.
        """

    def ended_deliveries(self, updated_before: int, limit: int) -> list[DeliveryRecord]:
        """Return sent and failed deliveries that ended before a time, oldest first."""
