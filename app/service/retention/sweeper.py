"""What time does: unfinished attachments expire, what nobody needs is removed."""

from collections.abc import Callable

from app.model.message import Position
from app.observe import Recurring, logger
from app.ports import Segment
from app.service.context import Between, ServiceContext, at_once
from app.service.quarantine import copy_quarantined
from app.service.retention.expiry import Expiring
from app.service.retention.receiving_time import ReceivingTime
from app.service.retention.removal import Retaining, RetentionClock
from app.settings import microseconds

log = logger(__name__)


class Sweeper:
    """One call of `sweep` does what is due. `may_go` has the last word over a segment that nothing needs; `between` has
    changes made that assembly must know of; `before_retiring` is called before any goes: what it raises keeps them."""

    def __init__(
        self,
        context: ServiceContext,
        may_go: Callable[[Segment], bool] = lambda _segment: True,
        times: ReceivingTime | None = None,
        between: Between = at_once,
        before_retiring: Callable[[], None] = lambda: None,
    ) -> None:
        self._context, self._may_go, self._before_retiring = context, may_go, before_retiring
        self._faults: dict[str, Recurring] = {}
        self._clock = RetentionClock(context.clock)
        expiring = Expiring(context, times or ReceivingTime(context, {}), between)
        self.expire, self.let_go = expiring.expire, expiring.let_go
        self.retain = Retaining(context, self._clock, between).retain

    def sweep(self) -> None:
        """Every step by itself: one that fails, on a full disk say, must not keep the others from making room."""
        steps = (
            self.expire,
            self.let_go,
            self.retain,
            self.retire_segments,
        )
        for step in steps:
            try:
                step()
            except Exception as error:  # noqa: BLE001 - it is logged by whoever counts it
                self._faults.setdefault(step.__name__, Recurring(log, "sweep", step=step.__name__)).failed(error)
            else:
                if step.__name__ in self._faults:
                    self._faults[step.__name__].worked()

    def seal_old_segment(self) -> None:
        """Seals a segment that is old enough and that no append comes to end."""
        before = self._context.clock.now() - microseconds(self._context.settings.journal.segment_age)
        segments = self._context.journal.segments()
        if any(segment.sealed_at is None and segment.created_at < before for segment in segments):
            self._context.journal.seal()

    def retire_segments(self) -> None:
        """Removes sealed journal segments that nothing needs and that are older than `retention.journal`.

        Whoever writes the catalog may go on meanwhile: what was assembled is asked before what is needed.
        """
        progress = self._context.catalog.progress()
        before = self._clock.before(self._context.settings.retention.journal)
        if progress is None or before is None:
            return
        assembled = Position.unpack(progress).segment
        old = [
            segment.number
            for segment in self._context.journal.segments()
            if segment.number < assembled
            and segment.sealed_at is not None
            and segment.sealed_at < before
            and self._may_go(segment)
        ]
        if not old:
            return
        copy_quarantined(self._context, max(old) + 1)
        needed = self._context.catalog.needed_segments(old)
        going = [number for number in old if number not in needed]
        if going:
            self._before_retiring()
        for number in going:
            self._context.journal.retire(number)
            log.info("journal segment retired", segment=number)

    def drop_abandoned_uploads(self) -> None:
        """Forgets what was uploaded for deliveries that a killed process never took. Call it before uploads begin."""
        for name in list(self._context.store.names("outgoing/")):
            if self._context.catalog.delivery(name.split("/")[1]) is None:
                self._context.store.delete(name)
