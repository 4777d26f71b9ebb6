"""What health, metrics and the summary know of the catalog, without a query for each request.

Counting takes longer the more there is. So counts are kept for a second, or for `KEPT_FACTOR` times as long as counting
took.
"""

from collections.abc import Mapping
from threading import Lock
from time import monotonic, perf_counter
from typing import Any, Final, NamedTuple

from app.observe import Recurring, logger
from app.ports import AttachmentFilter, Catalog, Clock, Tallies, UploadTotals

ASK_SECONDS: Final = 2.0
LONGEST_ANSWER: Final = 5.0
"""Seconds after which a query without an answer counts as a failure: a network may drop all packets."""
AGES: Final = (60, 600, 3_600, 86_400)
"""The bounds, in seconds, by which unfinished attachments are counted: the time since their last message."""
KEPT_SECONDS: Final = 1.0
KEPT_FACTOR: Final = 20

log = logger(__name__)


class CatalogWatch:
    """Queries the catalog from time to time, and keeps its last answers."""

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog, self._clock = catalog, clock
        self._fault = Recurring(log, "catalog_reading")
        self._asked_at: float | None = None
        self._oldest: int | None = None
        self._dead_letters: Mapping[str, int] = {}
        self.uploads = UploadTotals(0, 0)
        """The resumable uploads, when they were last counted."""

    def ask(self) -> None:
        """Query the catalog. Blocks as long as the catalog does."""
        self._asked_at = monotonic()
        try:
            oldest = self._catalog.oldest_unfinished()
            self._dead_letters = self._catalog.dead_letter_counts()
            self.uploads = self._catalog.upload_totals()
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
        else:
            self._oldest = oldest
            self._fault.worked()
        self._asked_at = None

    def check(self) -> dict[str, Any]:
        """Return the state of the catalog for the health report."""
        error, asked_at = self._fault.error, self._asked_at
        waited = 0.0 if asked_at is None else monotonic() - asked_at
        if error is None and waited > LONGEST_ANSWER:
            error = f"the catalog has not answered for {round(waited)} s"
        return {"ok": error is None, "error": error}

    def oldest_unfinished(self) -> float:
        """Return the seconds since the last message of what has waited longest to be finished."""
        return 0.0 if self._oldest is None else (self._clock.now() - self._oldest) / 1e6

    def dead_letters(self, webhook: str) -> float:
        """Return how many events were given up for a webhook and are kept."""
        return float(self._dead_letters.get(webhook, 0))


class CountsSnapshot(NamedTuple):
    """The tallies, and when each source last got a message (µs), as far as the catalog knows."""

    tallies: Tallies
    heard_at: Mapping[str, int]


class CatalogCounts:
    """Counts what the catalog has, and keeps the result for a while. `_lock` guards `_known` and `_until`."""

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog, self._clock = catalog, clock
        self._lock = Lock()
        self._known: CountsSnapshot | None = None
        self._until = 0.0

    def standing(self) -> CountsSnapshot:
        """Return how much there is; it may be some seconds old. Raises CatalogError."""
        with self._lock:
            started = perf_counter()
            if self._known is None or started >= self._until:
                now = self._clock.now()
                tallies = self._catalog.tallies([now - seconds * 1_000_000 for seconds in AGES])
                newest = {
                    source: self._catalog.attachments(AttachmentFilter(source=source), None, 1).items
                    for source in tallies.attachments
                }
                heard_at = {source: items[0].last_received_at for source, items in newest.items() if items}
                self._known = CountsSnapshot(tallies, heard_at)
                self._until = perf_counter() + max(KEPT_SECONDS, KEPT_FACTOR * (perf_counter() - started))
            return self._known
