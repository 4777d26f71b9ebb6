"""What clients see of webhooks, and change, in any process: the keeper sends (`webhook_threads`)."""

from collections.abc import Collection

from app.model.webhook_state import WebhookRecord, WebhookState
from app.ports import Catalog, Clock
from app.service.context import ServiceContext


class WebhookDesk:
    """The webhooks of the settings, by their records in the catalog."""

    def __init__(self, context: ServiceContext) -> None:
        self._catalog, self._clock, self._notifier = context.catalog, context.clock, context.notifier
        self.settings = context.settings.webhooks

    def record(self, name: str) -> WebhookRecord:
        """Return how far a webhook has got."""
        return begun(self._catalog, self._clock, name)

    def behind(self, record: WebhookRecord) -> int:
        """Return the number of events in the log after the last one that is done, selected or not."""
        return max(0, self._catalog.last_event() - record.position)

    def enable(self, name: str) -> None:
        """Send events (again), without waiting for the next attempt."""
        self._change(name, state=WebhookState.ACTIVE)

    def rewind(self, name: str, after: int) -> None:
        """Send the events after a number again, or skip those up to it. Those that were removed are left out."""
        self._change(name, position=min(after, self._catalog.last_event()))

    def requeue(self, name: str, events: Collection[int] | None) -> int:
        """Send dead letters (None: all) again; return how many."""
        queued = self._catalog.queue_dead_letters(name, events, self._clock.now())
        self._notifier.notify()
        return queued

    def _change(self, name: str, *, state: WebhookState | None = None, position: int | None = None) -> None:
        begun(self._catalog, self._clock, name)
        self._catalog.change_webhook(name, self._clock.now(), state=state, position=position)
        self._notifier.notify()


def begun(catalog: Catalog, clock: Clock, name: str) -> WebhookRecord:
    """Return the record of a webhook. A new one gets the events from now on."""
    record = catalog.webhooks().get(name)
    if record is None:
        record = WebhookRecord(name, catalog.last_event(), updated_at=clock.now())
        catalog.save_webhook(record)
    return record
