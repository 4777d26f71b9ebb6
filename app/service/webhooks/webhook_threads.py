"""All webhooks: a thread for each host, which sends the events of the webhooks there."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from threading import Event
from typing import Any, Final
from urllib.parse import urlsplit

from app.model.records import EventRecord
from app.model.webhook_state import WebhookState
from app.observe import Recurring, logger
from app.service.context import ServiceContext
from app.service.events.event_reader import CurrentLogs
from app.service.threads import Worker
from app.service.webhooks.webhook import WebhookEndpoint
from app.service.webhooks.webhook_request import Poster, WebhookAnswer

IDLE_SECONDS: Final = 1.0
"""How often the event log is read when nothing in this process has logged an event: another process may have."""

log = logger(__name__)


class Webhooks:
    """The webhooks of a gateway, and the threads that send to them. `dead_letters` counts the dead letters of a
    webhook."""

    def __init__(self, context: ServiceContext, stop: Event, dead_letters: Callable[[str], float]) -> None:
        self._context, self._stop = context, stop
        self._settings = context.settings.webhooks
        self.endpoints: dict[str, WebhookEndpoint] = {}
        self._posters = {name: Poster(settings) for name, settings in self._settings.items()}
        self._logs = CurrentLogs(context.catalog)
        by_host: dict[tuple[str, int], list[str]] = defaultdict(list)
        for name, settings in self._settings.items():
            parts = urlsplit(settings.url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            by_host[str(parts.hostname), port].append(name)
        self.workers: Mapping[str, Worker] = {
            f"webhooks {host}:{port}": Worker(f"webhooks {host}:{port}", partial(self._run, names))
            for (host, port), names in by_host.items()
        }

        for name, poster in self._posters.items():
            self.endpoints[name] = WebhookEndpoint(name, context, partial(self._post, poster), stop)
            context.metrics.webhook_dead_letters.labels(name).set_function(partial(dead_letters, name))

    def _post(self, poster: Poster, event: EventRecord, now: int) -> WebhookAnswer:
        return poster.post(self._logs.read(), event, now)

    def _run(self, names: list[str]) -> None:
        endpoints = [self.endpoints[name] for name in names]
        faults = {name: Recurring(log, "webhook_sending", webhook=name) for name in names}
        try:
            while not self._stop.is_set():
                seen = self._context.notifier.notifications
                stepped = [_stepped(endpoint, faults[endpoint.name]) for endpoint in endpoints]
                if not any(stepped):
                    waits = [wait for endpoint in endpoints if (wait := endpoint.due_in())]
                    self._context.notifier.wait(seen, min([*waits, IDLE_SECONDS]))
        finally:
            for name in names:
                self._posters[name].close()

    def checks(self) -> dict[str, dict[str, Any]]:
        """Return the health of each webhook by the name of its check."""
        found = {}
        for name, endpoint in self.endpoints.items():
            record = endpoint.record
            is_well = record.state is WebhookState.ACTIVE and record.failing_since is None
            found[f"webhook {name}"] = {
                "ok": is_well,
                "state": record.state.value,
                "position": record.position,
                "error": record.reason,
            }
        return found


def _stepped(endpoint: WebhookEndpoint, fault: Recurring) -> bool:
    try:
        has_more = endpoint.step()
    except Exception as error:  # noqa: BLE001 - `Recurring` logs it
        fault.failed(error)
        return False
    fault.worked()
    return has_more
