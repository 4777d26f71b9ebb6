"""The regular work of retention: unfinished attachments expire, and unneeded data is removed."""

from collections.abc import Callable

from app.model.errors import GatewayError
from app.model.message import Position
from app.observe import Recurring, logger
from app.ports import Segment
from app.service.context import Between, ServiceContext, at_once
from app.service.quarantine.quarantine_records import copy_quarantined
from app.service.retention.expiry import Expirer
from app.service.retention.receiving_time import ReceivingTime
from app.service.retention.removal import Remover, RetentionClock
from app.settings import microseconds

log = logger(__name__)


class Sweeper:
    """Does everything that is due with each call of `sweep`.

    `may_go` has the final decision on a segment that nothing needs. `between` makes changes that assembly must know of.
    `before_retiring` is called before segments are retired; when it raises, they stay.
    """

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
        expiring = Expirer(context, times or ReceivingTime(context, {}), between)
        self.expire, self.release_parts = expiring.expire, expiring.release_parts
        self.retain = Remover(context, self._clock, between).retain

    def sweep(self) -> None:
        """Run each step by itself. One that fails, for example on a full disk, must not stop the others from freeing
        space."""
        steps = (
            self.expire,
            self.release_parts,
            self.retain,
            self.retire_segments,
        )
        for step in steps:
            try:
                step()
            except Exception as error:  # noqa: BLE001 - `Recurring` logs it
                self._faults.setdefault(step.__name__, Recurring(log, "sweep", step=step.__name__)).failed(error)
            else:
                if step.__name__ in self._faults:
                    self._faults[step.__name__].worked()

    def seal_old_segment(self) -> None:
        """Seal a segment that is old enough and that no append has ended."""
        age = microseconds(self._context.settings.journal.segment_age)
        self._context.journal.seal(self._context.clock.now() - age)

    def retire_segments(self) -> None:
        """Retire sealed journal segments that nothing needs and that are older than `retention.journal`.

        The catalog may be written meanwhile. So the progress of assembly is read before the needed segments.

        One that cannot be retired does not stop the others; the first error is raised after them.
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
        failed: GatewayError | None = None
        for number in going:
            try:
                self._context.journal.retire(number)
            except GatewayError as error:
                failed = failed or error
            else:
                log.info("segment_retired", segment=number)
        if failed is not None:
            raise failed

    def drop_abandoned_uploads(self) -> None:
        """Remove uploads of deliveries that a killed process never queued. Call it before uploads begin.

        Raises CatalogTaken when another gateway has taken over, whose uploads may be among those that were found.
        """
        found = list(self._context.store.names("outgoing/"))
        if found:
            self._context.catalog.flush()
        for name in found:
            if self._context.catalog.delivery(name.split("/")[1]) is None:
                self._context.store.delete(name)
