"""Deliveries to destinations that the settings do not name any more: nobody sends them, so the keeper says why.

Only a delivery that is due and that no process has claimed is changed, under a claim, as an outbox does. Processes may
have different settings for a while, during an update: then one whose outbox knows the destination is quicker, and goes
on at once with what has got a reason here. A delivery that a client has cancelled ends.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from app.model.attachment import DeliveryState
from app.model.records import DeliveryRecord, NewEvent
from app.observe import Recurring, logger
from app.ports import Sending
from app.service.context import ServiceContext
from app.service.events.event_entries import delivery_event
from app.service.sending.outbox import CANCELLED

AT_ONCE: Final = 500
"""The most deliveries to one destination that one step looks at."""
DUE_SECONDS: Final = 60
"""How long a delivery must have been due where other processes may send it."""
AGAIN_SECONDS: Final = 3600
"""When a delivery is looked at again. A destination that is back sends at once what is to wait longer than its own
`retry_longest`."""

log = logger(__name__)


class UnknownDestinations:
    """Gives such deliveries their reason, with each call of `step`. `unknown` has how many are open, by destination."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._known = context.settings.destinations
        self._is_alone = not context.settings.is_catalog_shared
        self._fault = Recurring(log, "destinations_check")
        self.unknown: dict[str, int] = {}

    def step(self) -> None:
        """Look for such deliveries, and log destinations that had none before."""
        try:
            counts = self._context.catalog.open_deliveries()
            found = {name: count for name, count in counts.items() if name not in self._known}
            for name in found:
                self._explain(name)
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
            return
        self._fault.worked()
        for name in found.keys() - self.unknown.keys():
            log.warning("destination_missed", destination=name, deliveries=found[name], reason=_reason(name))
        self.unknown = found

    def check(self) -> dict[str, Any]:
        """Return the destinations that the settings do not name, for the health report."""
        error = self._fault.error
        return {"ok": not self.unknown and error is None, "unknown": self.unknown, "error": error}

    def _explain(self, destination: str) -> None:
        sending = Sending(destination, self._context.instance, self._is_alone)
        due = self._context.clock.now() - (0 if self._is_alone else DUE_SECONDS * 1_000_000)
        for _ in range(AT_ONCE):
            changed = self._context.catalog.claim_delivery(sending, 0.0, self._explained, due)
            if changed is None:
                return
            self._context.notifier.notify()

    def _explained(self, delivery: DeliveryRecord) -> tuple[DeliveryRecord, Sequence[NewEvent]]:
        """Return a claimed delivery with its reason, and the event of that if it is new."""
        is_unwanted = delivery.cancel_requested
        state = DeliveryState.CANCELLED if is_unwanted else DeliveryState.QUEUED
        reason = CANCELLED if is_unwanted else _reason(delivery.destination)
        now = self._context.clock.now()
        again = now + AGAIN_SECONDS * 1_000_000
        explained = replace(delivery, state=state, reason=reason, next_attempt_at=again)
        if (delivery.state, delivery.reason) == (state, reason):
            return explained, []
        explained = replace(explained, updated_at=now)
        return explained, [delivery_event(explained, attempts=explained.attempts, reason=reason)]


def _reason(destination: str) -> str:
    return f"the settings have no destination {destination}: add it again (destinations.{destination}), or cancel this"
