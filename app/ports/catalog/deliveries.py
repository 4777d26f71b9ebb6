"""Deliveries: outgoing messages on their way to destinations."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from app.model.attachment import DeliveryState
from app.model.records import DeliveryRecord, NewEvent
from app.ports.catalog.listing import Page


class IdempotencyConflict(Exception):
    """An idempotency key that was used before: for another request, or (`same_request`) for this `delivery`."""

    def __init__(self, delivery: DeliveryRecord, *, same_request: bool) -> None:
        super().__init__(delivery.id)
        self.delivery, self.same_request = delivery, same_request


class Sending(NamedTuple):
    """A process that sends deliveries to a destination.

    If it `is_alone` with the catalog, claims of other processes do not count. If deliveries are `ordered`, each waits
    until the one before has ended.
    """

    destination: str
    process: str
    is_alone: bool = True
    ordered: bool = False


Begin = Callable[[DeliveryRecord], tuple[DeliveryRecord, Sequence[NewEvent]]]
"""A function that returns a claimed delivery as it is to be recorded, with the events of its attempt."""


class DeliveryCatalog(Protocol):
    """Deliveries, from the request that made them to their end."""

    def add_delivery(self, delivery: DeliveryRecord, events: Sequence[NewEvent]) -> None:
        """Add a delivery. Raises IdempotencyConflict, with the earlier delivery, if its key is taken."""

    def claim_delivery(
        self, sending: Sending, seconds: float, begin: Begin, now: int, latest: int | None = None
    ) -> DeliveryRecord | None:
        """Claim the oldest delivery that is due, for so many seconds, and return it as `begin` changed it.

        Queued deliveries and those being sent are due when no other process has claimed them and their next attempt is
        at or before `now`. One planned for later than `latest` is due too: a clock that was ahead has put it off.
        Many processes may call this at once: a delivery goes to one of them. Its number of claims has grown by one.
        """

    def renew_claim(self, delivery: DeliveryRecord, seconds: float) -> bool:
        """Let the claim of a delivery last for so many seconds more. Return whether a client has asked to cancel it.

        Raises KeyError if it has been claimed again, or has ended.
        """

    def update_delivery(
        self,
        delivery: DeliveryRecord,
        events: Sequence[NewEvent] = (),
        expected: Collection[DeliveryState] | None = None,
    ) -> bool:
        """Replace a delivery's record, except `cancel_requested`, which is kept until the delivery has ended.

        Its claim ends, unless its state is `sending`. Return whether a client has asked to cancel it.
        Raises KeyError if there is none, none in an `expected` state, or if it has been claimed since it was read.
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

    def open_deliveries(self) -> Mapping[str, int]:
        """Return how many deliveries have not ended, by destination."""

    def delivery(self, delivery_id: str) -> DeliveryRecord | None:
        """Return a delivery, or None if it is unknown."""

    def is_delivery_recorded(self, delivery_id: str) -> bool:
        """Tell whether a delivery is recorded, once every write that has begun has ended.

        For a writer that did not learn the outcome of its own write: the database may still be at work on it.
        """

    def ended_deliveries(self, updated_before: int, limit: int) -> list[DeliveryRecord]:
        """Return sent and failed deliveries that ended before a time, oldest first."""
