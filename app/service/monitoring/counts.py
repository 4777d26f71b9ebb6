"""How many attachments, deliveries and quarantine entries there are, by source or destination, for people who look on.

Counting takes longer the more there is. So a result is kept for a second, or for `REST` times as long as it took.
"""

from collections.abc import Mapping
from threading import Lock
from time import perf_counter
from typing import Final, NamedTuple

from app.ports import AttachmentFilter, Catalog, Clock, Tallies

AGES: Final = (60, 600, 3_600, 86_400)
"""The bounds, in seconds, by which unfinished attachments are counted: the time since their last message."""
KEPT_SECONDS: Final = 1.0
REST: Final = 20


class Standing(NamedTuple):
    """The tallies, and when each source last got a message (µs), as far as the catalog knows."""

    tallies: Tallies
    heard_at: Mapping[str, int]


class CatalogCounts:
    """Counts what the catalog has, at most once in a while. The lock guards `_known` and `_until`."""

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog, self._clock = catalog, clock
        self._lock = Lock()
        self._known: Standing | None = None
        self._until = 0.0

    def standing(self) -> Standing:
        """Return how much there is; it may be some seconds old. Raises CatalogError."""
        with self._lock:
            started = perf_counter()
            if self._known is None or started >= self._until:
                self._known = self._counted()
                self._until = perf_counter() + max(KEPT_SECONDS, REST * (perf_counter() - started))
            return self._known

    def _counted(self) -> Standing:
        now = self._clock.now()
        tallies = self._catalog.tallies([now - seconds * 1_000_000 for seconds in AGES])
        newest = {
            source: self._catalog.attachments(AttachmentFilter(source=source), None, 1).items
            for source in tallies.attachments
        }
        return Standing(tallies, {source: items[0].last_received_at for source, items in newest.items() if items})
