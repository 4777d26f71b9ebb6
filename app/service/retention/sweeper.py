"""The regular work of retention: unfinished attachments expire, and what is old or too much is removed."""

from app.observe import Recurring, logger
from app.service.context import Between, ServiceContext, at_once
from app.service.retention.expiry import Expirer
from app.service.retention.receiving_time import CountedTime, SavedReceivingTime
from app.service.retention.removal import Remover, RetentionClock

log = logger(__name__)


class Sweeper:
    """Does everything that is due with each call of `sweep`. `between` makes changes that assembly must know of."""

    def __init__(self, context: ServiceContext, times: CountedTime | None = None, between: Between = at_once) -> None:
        self._faults: dict[str, Recurring] = {}
        expiring = Expirer(context, times or SavedReceivingTime(context.catalog), between)
        self.expire, self.release_parts = expiring.expire, expiring.release_parts
        self.retain = Remover(context, RetentionClock(context.clock), between).retain

    def sweep(self) -> None:
        """Run each step by itself. One that fails, for example on a full disk, must not stop the others from freeing
        space."""
        for step in (self.expire, self.release_parts, self.retain):
            try:
                step()
            except Exception as error:  # noqa: BLE001 - `Recurring` logs it
                self._faults.setdefault(step.__name__, Recurring(log, "sweep", step=step.__name__)).failed(error)
            else:
                if step.__name__ in self._faults:
                    self._faults[step.__name__].worked()
