"""The keeper: of the processes with the role `keep`, the one that holds the lease `keeper` does its work.

A lease ends by the clock of the database. The holder counts from before it asked, by its monotonic clock, and stops
earlier. It may be paused all the same, and go on when another process is the keeper: then the catalog refuses each of
its writes, as the lease has another epoch (`Catalog.under`).
"""

from collections.abc import Callable
from dataclasses import replace
from threading import Event, Lock
from time import monotonic
from typing import Any, Final

from app.model.errors import GatewayError
from app.observe import Recurring, logger
from app.ports import HeldLease
from app.service.context import ServiceContext
from app.service.roles.keeping import KeepingTerm
from app.service.threads import Worker

KEEPER: Final = "keeper"
LEASE_SECONDS: Final = 6.0
"""How long a keeper may be silent before another process takes its place."""
RENEW_SECONDS: Final = 1.0
STOP_AFTER_SECONDS: Final = 4.0
"""A holder that could not renew the lease for so long stops its work."""
WATCH_SECONDS: Final = 0.5
STOP_SECONDS: Final = 20.0

log = logger(__name__)

Begin = Callable[[ServiceContext, HeldLease], KeepingTerm]
"""A function that makes the work of a term, with the catalog of the term, and its lease."""


class Keeper:
    """Campaigns for the lease, and does the keeper's work while it is held. `at_once` takes the lease from whoever had
    it: no other process uses the catalog.

    The lock guards `_lease`, `_term`, `_noted` and `_renewed`.
    """

    def __init__(self, context: ServiceContext, begin: Begin, *, at_once: bool) -> None:
        self._context, self._begin, self._at_once = context, begin, at_once
        self._stop = Event()
        self._lock = Lock()
        self._lease: HeldLease | None = None
        self._term: KeepingTerm | None = None
        self._renewed = 0.0
        self._noted: int | None = None
        self._fault = Recurring(log, "keeper_lease")
        self.workers = [Worker("keeper", self._run), Worker("keeper watch", self._watch)]
        context.metrics.keeper.set_function(lambda: float(self.term is not None))

    @property
    def term(self) -> KeepingTerm | None:
        """The work of this process as the keeper; None while it is not."""
        with self._lock:
            return self._term

    def start(self) -> None:
        """Become the keeper at once, if nobody is, and start to campaign or to renew the lease."""
        self._campaign()
        for worker in self.workers:
            worker.start()

    def stop(self) -> None:
        """End the work, so that the lease can be released."""
        self._stop.set()
        if (term := self.term) is not None:
            term.stop.set()

    def release(self) -> None:
        """Wait for the end of the work, and give the lease up."""
        for worker in self.workers:
            worker.join(STOP_SECONDS)
        self._end("the gateway stops", STOP_SECONDS)

    def check(self) -> dict[str, Any]:
        """Return who is the keeper, for the health report. A process that waits for the lease is well."""
        with self._lock:
            lease, error = self._lease, self._fault.error
        epoch = None if lease is None else lease.epoch
        return {"ok": error is None, "is_held": lease is not None, "epoch": epoch, "error": error}

    def record_before_retiring(self) -> None:
        """Record what the journal will lose, if this process is the keeper. Raises GatewayError if it is not, and the
        journal has no archive, from which it could be read."""
        if (term := self.term) is not None:
            term.recorder.record_before_retiring()
        elif self._context.settings.journal.archive_url is None:
            raise GatewayError("this process is not the keeper, which records the catalog: segments stay meanwhile")

    def _run(self) -> None:
        while not self._stop.wait(RENEW_SECONDS):
            if self.term is None:
                self._campaign()
            elif self._is_over():
                self._end("the lease could not be renewed in time")
            else:
                self._renew()

    def _campaign(self) -> None:
        asked = monotonic()
        try:
            lease = self._context.catalog.take_lease(
                KEEPER, self._context.instance, LEASE_SECONDS, at_once=self._at_once
            )
            if lease is not None and monotonic() - asked > RENEW_SECONDS:
                # It had to wait for transactions of others, and much of its time is over.
                asked = monotonic()
                lease = lease if self._context.catalog.renew_lease(lease, LEASE_SECONDS) else None
            if lease is None:
                self._fault.worked()
                return
            kept = replace(self._context, catalog=self._context.catalog.under(lease))
            term = self._begin(kept, lease)
        except GatewayError as error:
            self._fault.failed(error)
            return
        self._fault.worked()
        log.info("keeper_begun", epoch=lease.epoch, holder=lease.holder)
        with self._lock:
            self._lease, self._term, self._renewed = lease, term, asked
        term.start()

    def _renew(self) -> None:
        with self._lock:
            lease, term, before = self._lease, self._term, self._noted
        assert lease is not None
        assert term is not None
        asked, noted = monotonic(), term.noted
        if self._at_once and noted == before:
            return  # nobody else may take the lease: an idle gateway writes nothing
        try:
            is_held = self._context.catalog.renew_lease(lease, LEASE_SECONDS, noted)
        except GatewayError as error:
            self._fault.failed(error)
            return
        if not is_held:
            self._end("another process has taken the lease")
            return
        self._fault.worked()
        with self._lock:
            self._renewed, self._noted = asked, noted

    def _is_over(self) -> bool:
        with self._lock:
            if self._term is None or self._at_once:
                return False
            return self._term.stop.is_set() or monotonic() - self._renewed > STOP_AFTER_SECONDS

    def _watch(self) -> None:
        """Stop the work when the lease could not be renewed in time. A query that hangs does not delay this."""
        while not self._stop.wait(WATCH_SECONDS):
            if self._is_over() and (term := self.term) is not None and not term.stop.is_set():
                log.warning("keeper_stopped", reason="the lease could not be renewed in time")
                term.stop.set()

    def _end(self, why: str, longest: float | None = None) -> None:
        """End the work, and wait for that (for each thread at most `longest` seconds), then give the lease up."""
        with self._lock:
            lease, term = self._lease, self._term
        if lease is None or term is None:
            return
        term.end(longest)
        with self._lock:
            self._lease = self._term = None
        try:
            self._context.catalog.release_lease(lease, term.noted)
        except GatewayError as error:
            log.warning("keeper_lease_not_released", reason=str(error))
        log.info("keeper_ended", epoch=lease.epoch, reason=why)
