"""Whether the catalog answers, for health and metrics, which do not wait for a database."""

from collections.abc import Mapping
from time import monotonic
from typing import Any, Final

from app.observe import Recurring, logger
from app.ports import Catalog, Clock

ASK_SECONDS: Final = 2.0
LONGEST_ANSWER: Final = 5.0
"""Seconds after which a query without an answer counts as a failure: a network may drop all packets."""

log = logger(__name__)


class CatalogWatch:
    """Queries the catalog from time to time, and keeps its last answers."""

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog, self._clock = catalog, clock
        self._fault = Recurring(log, "catalog_reading")
        self._asked_at: float | None = None
        self._oldest: int | None = None
        self._dead_letters: Mapping[str, int] = {}

    def ask(self) -> None:
        """Query the catalog. Blocks as long as the catalog does."""
        self._asked_at = monotonic()
        try:
            oldest = self._catalog.stale_attachments(self._clock.now(), 1)
            self._dead_letters = self._catalog.dead_letter_counts()
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
        else:
            self._oldest = oldest[0].last_received_at if oldest else None
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
