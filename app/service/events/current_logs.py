"""The logs of events as far as they are needed: a process that receives begins one when it starts, and others learn of
it when they read its events."""

from threading import Lock

from app.model.event_logs import EventLogs
from app.ports import Catalog


class CurrentLogs:
    """The logs of a catalog. The lock guards `_known` and `_covered`, which is the last number that they identify."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = Lock()
        self._known = EventLogs((), ())
        self._covered = -1

    @property
    def known(self) -> EventLogs:
        """The logs that the last call of `covering` has returned, without a query."""
        return self._known

    def covering(self, number: int) -> EventLogs:
        """Return logs that identify all events up to this number."""
        with self._lock:
            if number > self._covered:
                # A log begins after the newest event: those that are there now stay in their logs.
                covered = self._catalog.last_event()
                self._known, self._covered = self._catalog.event_logs(), covered
            return self._known
