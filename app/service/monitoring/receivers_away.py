"""The receivers of a shared journal that have not been seen for a minute, by the keeper.

What a receiver has acknowledged and not published is on its disk alone. So attachments stay unfinished until it comes
back, and none expires meanwhile: expiry waits for the receiving time of all receivers. One that does not come back is
to be forgotten.
"""

from typing import Any, Final

from app.model.times import to_time
from app.observe import Recurring, logger
from app.ports.catalog.shared_journal import ReceivingJournal
from app.service.context import ServiceContext

LOOK_SECONDS: Final = 5.0

log = logger(__name__)


class ReceiversAway:
    """Looks for receivers that are away. `away` is what it found last."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._fault = Recurring(log, "receivers_check")
        self.away: list[ReceivingJournal] = []

    def look(self) -> None:
        """Look which receivers are away, and log those that were not before."""
        try:
            found = [each for each in self._context.catalog.receiving_journals() if each.is_away]
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
            return
        self._fault.worked()
        before = {each.id for each in self.away}
        for each in found:
            if each.id not in before:
                log.warning(
                    "receiver_missed", receiver=each.receiver, journal=each.id, seen_at=str(to_time(each.seen_at))
                )
        self.away = found
        self._context.metrics.receivers_away.set(len(found))

    def check(self) -> dict[str, Any]:
        """Return who is away, for the health report."""
        away = [
            {"receiver": each.receiver, "journal": each.id, "seen_at": to_time(each.seen_at).isoformat()}
            for each in self.away
        ]
        return {"ok": not away and self._fault.error is None, "away": away, "error": self._fault.error}

    def end(self) -> None:
        """Show nobody in the metric any more: another process is the keeper."""
        self._context.metrics.receivers_away.set(0)
