"""The brokers of sources and destinations, for health checks and metrics: what receivers and senders say of them."""

from collections.abc import Callable, Mapping
from functools import partial
from math import nan
from typing import Any

from app.ports import Receiver
from app.service.context import ServiceContext
from app.service.sending.outbox import Outbox

Status = Callable[[], Mapping[str, Any]]
"""A function that returns the state of a connection, as `app.ports.Receiver.status` does."""


class Peers:
    """All sources and destinations of a gateway."""

    def __init__(
        self, context: ServiceContext, receivers: Mapping[str, Receiver], outboxes: Mapping[str, Outbox]
    ) -> None:
        self._context, self._outboxes = context, outboxes
        self._sources: dict[str, Status] = {name: receiver.status for name, receiver in receivers.items()}
        self._destinations: dict[str, Status] = {name: outbox.sender.status for name, outbox in outboxes.items()}

    def connected(self) -> dict[str, bool]:
        """Return which sources and destinations are connected, by their kind and name."""
        found = {f"source {name}": status for name, status in self._sources.items()}
        found |= {f"destination {name}": status for name, status in self._destinations.items()}
        return {name: bool(status()["connected"]) for name, status in found.items()}

    def check_sources(self) -> dict[str, dict[str, Any]]:
        """Return the health of each source by the name of its check."""
        checks = {}
        for name, ask in self._sources.items():
            status = ask()
            ok = bool(status["connected"]) and not status.get("warning")
            checks[f"source {name}"] = checked(status, f"sources.{name}", ok=ok)
        return checks

    def check_destinations(self) -> dict[str, dict[str, Any]]:
        """Return the health of each destination by the name of its check."""
        checks = {}
        for name, outbox in self._outboxes.items():
            status = outbox.status()
            check = checked(status, f"destinations.{name}", ok=status.get("error") is None)
            checks[f"destination {name}"] = {**check, "repeats": outbox.sender.repeats()}
        return checks

    def observe(self) -> None:
        """Have metrics show the state of all connections, and of the catalog's."""
        metrics, settings = self._context.metrics, self._context.settings
        self._observe_log_in("catalog", self._context.catalog.log_in)
        for name, status in self._sources.items():
            if (source := settings.sources.get(name)) is not None:
                metrics.name_source(name, source.transport, source.address)
            metrics.source_connected.labels(name).set_function(partial(_is_connected, status))
            first = status()
            for key, gauge in (
                ("dropped", metrics.source_dropped),
                ("queue_depth", metrics.source_queue_depth),
                ("queue_filled", metrics.source_queue_filled),
                ("oldest_message_seconds", metrics.source_oldest_message),
            ):
                if key in first:
                    gauge.labels(name).set_function(partial(_number_of, status, key))
            for level in first.get("advisories", ()):
                metrics.source_advisories.labels(name, level).set_function(partial(_advised, status, level))
            self._observe_log_in(f"sources.{name}", status)
        for name, status in self._destinations.items():
            if (destination := settings.destinations.get(name)) is not None:
                metrics.name_destination(name, destination.transport, destination.address)
            metrics.destination_connected.labels(name).set_function(partial(_is_connected, status))
            self._observe_log_in(f"destinations.{name}", status)

    def _observe_log_in(self, table: str, status: Status) -> None:
        """Show whether the credentials of a table of the settings are refused, if it has any."""
        if (credential := status().get("credential")) is not None:
            refused = self._context.metrics.credential_refused.labels(f"{table}.{credential}")
            refused.set_function(lambda: float(status()["refused_since"] is not None))


def checked(status: Mapping[str, Any], table: str, *, ok: bool) -> dict[str, Any]:
    """Return a check, with the whole name of the setting of the status' `credential`, if it has one."""
    check = {"ok": ok and status.get("refused_since") is None, **status}
    return check | {"credential": f"{table}.{status['credential']}"} if status.get("credential") else check


def _is_connected(status: Status) -> float:
    return float(bool(status()["connected"]))


def _number_of(status: Status, key: str) -> float:
    value = status()[key]
    return nan if value is None else float(value)


def _advised(status: Status, level: str) -> float:
    return float(status()["advisories"].get(level, 0))
