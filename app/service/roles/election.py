"""Elections: of several processes, the one that holds a lease in the catalog does what only one may do.

A lease ends by the clock of the database, so the clocks of machines are not compared. The holder counts from before it
asked, by its monotonic clock, and gives up when two thirds of the time are over without a renewal. So at no time two
processes believe that they hold it, as long as their clocks run at about the same speed and neither is paused. One that
was paused writes nothing when it goes on: see `Catalog.under`, and docs/adr/0017-a-gateway-that-stands-by.md.
"""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Lock
from time import monotonic
from typing import Any, Final, Generic, Protocol, TypeVar

from app.model.errors import GatewayError
from app.observe import Recurring, logger
from app.ports import ACTIVE, HeldLease, LeaseCatalog, OpenLeases
from app.service.threads import Worker

STOP_SECONDS = 20.0

log = logger(__name__)


class Term(Protocol):
    """What a process does while it holds a lease."""

    @property
    def noted(self) -> int | None:
        """What it leaves to the next holder."""

    def start(self) -> None:
        """Begin."""

    def give_up(self, why: str) -> None:
        """Write nothing more, at once. Another thread may call it, and waits for nothing."""

    def end(self, longest: float | None = None) -> None:
        """Wait for the end of all work (for each thread at most `longest` seconds): the lease is released then."""


T = TypeVar("T", bound=Term)


class Election(Generic[T]):
    """The part of one process, `holder`, in the election for a lease of some seconds. `begin` makes the term that each
    taken lease allows.

    `at_once` takes the lease from whoever had it: no other process uses the catalog. The lock guards `_lease`, `_term`,
    `_is_lost`, `_noted` and `_renewed`.
    """

    def __init__(
        self,
        leases: LeaseCatalog,
        name: str,
        holder: str,
        seconds: float,
        begin: Callable[[HeldLease], T],
        *,
        at_once: bool = False,
    ) -> None:
        self._leases, self._name, self._own = leases, name, holder
        self._begin, self._at_once = begin, at_once
        self.seconds, self.renew_deadline, self.retry = seconds, seconds * 2 / 3, seconds / 6
        self.holder: str | None = None
        """The process that holds the lease, as far as this one knows."""
        self._stop = Event()
        self._lock = Lock()
        self._lease: HeldLease | None = None
        self._term: T | None = None
        self._is_lost = False
        self._renewed = 0.0
        self._noted: int | None = None
        self._fault = Recurring(log, "lease", lease=name)
        self.workers = [Worker(name, self._run), Worker(f"{name} watch", self._watch)]

    @property
    def term(self) -> T | None:
        """What this process does as the holder; None while it is not."""
        with self._lock:
            return self._term

    def start(self) -> None:
        """Take the lease at once, if nobody has it, and start to campaign or to renew it."""
        self.campaign()
        for worker in self.workers:
            worker.start()

    def stop(self) -> None:
        """Neither take nor renew the lease any more."""
        self._stop.set()

    def release(self) -> None:
        """Wait for the end of the work, and give the lease up. `stop` comes before."""
        for worker in self.workers:
            worker.join(STOP_SECONDS)
        self.end(STOP_SECONDS)

    def check(self) -> dict[str, Any]:
        """Return who holds the lease, for health. A process that waits for it is well."""
        with self._lock:
            lease, error = self._lease, self._fault.error
        held = {"is_held": lease is not None, "epoch": None if lease is None else lease.epoch, "holder": self.holder}
        return {"ok": error is None, **held, "error": error}

    def campaign(self) -> None:
        """Take the lease, if nobody has it, and begin a term."""
        try:
            self.holder = None if self._at_once else self._leases.lease_holder(self._name)
            asked, lease = self._taken() if self.holder is None else (0.0, None)
            term = None if lease is None else self._begin(lease)
        except GatewayError as error:
            self._fault.failed(error)
            return
        self._fault.worked()
        if lease is None or term is None:
            return
        self.holder = lease.holder
        log.info("lease_taken", lease=lease.name, epoch=lease.epoch, holder=lease.holder)
        with self._lock:
            self._lease, self._term, self._renewed, self._is_lost = lease, term, asked, False
        term.start()

    def is_over(self) -> bool:
        """Tell whether the term has to end: the lease is lost, or was not renewed in time."""
        with self._lock:
            is_late = not self._at_once and monotonic() - self._renewed > self.renew_deadline
            return self._term is not None and (self._is_lost or is_late)

    def end(self, longest: float | None = None) -> None:
        """End the term, if there is one, then give the lease up."""
        with self._lock:
            lease, term = self._lease, self._term
        if lease is None or term is None:
            return
        term.end(longest)
        with self._lock:
            self._lease = self._term = None
        try:
            self._leases.release_lease(lease, term.noted)
        except GatewayError as error:
            log.warning("lease_not_released", lease=lease.name, reason=str(error))
        log.info("lease_ended", lease=lease.name, epoch=lease.epoch)

    def _run(self) -> None:
        while not self._stop.wait(self.retry):
            if self.term is None:
                self.campaign()
                continue
            if not self._is_lost_now():
                self._renew()
            if self._is_lost_now():
                self.end()

    def _taken(self) -> tuple[float, HeldLease | None]:
        """Return the time from which the lease counts, and the lease; None if somebody else has just taken it."""
        asked = monotonic()
        lease = self._leases.take_lease(self._name, self._own, self.seconds, at_once=self._at_once)
        if lease is not None and monotonic() - asked > self.retry:
            # It had to wait for transactions of others, and much of its time is over.
            asked = monotonic()
            lease = lease if self._leases.renew_lease(lease, self.seconds) else None
        return asked, lease

    def _renew(self) -> None:
        with self._lock:
            lease, term, before = self._lease, self._term, self._noted
        assert lease is not None
        assert term is not None
        asked, noted = monotonic(), term.noted
        if self._at_once and noted == before:
            return  # nobody else may take the lease: an idle gateway writes nothing
        try:
            is_held = self._leases.renew_lease(lease, self.seconds, noted)
        except GatewayError as error:
            self._fault.failed(error)
            return
        self._fault.worked()
        if not is_held:
            why = "" if lease.log is None else ", or the database was started or put back"
            self._lose(term, f"another process has taken it{why}")
            return
        with self._lock:
            self._renewed, self._noted = asked, noted

    def _watch(self) -> None:
        """Give up when the lease could not be renewed in time. A query that hangs does not delay this."""
        while not self._stop.wait(self.retry / 2):
            self._is_lost_now()

    def _is_lost_now(self) -> bool:
        """Tell whether the term has to end, which it learns here, if the lease was not renewed in time."""
        term = self.term
        if is_over := self.is_over():
            self._lose(term, f"it could not be renewed in time: {self._fault.error or 'the database gives no answer'}")
        return is_over

    def _lose(self, term: T | None, why: str) -> None:
        """Have a term give up, once, unless it has ended meanwhile."""
        with self._lock:
            if term is None or term is not self._term or self._is_lost:
                return
            self._is_lost = True
        log.warning("lease_lost", lease=self._name, reason=why)
        term.give_up(f"the lease {self._name} is lost: {why}")


class StandingBy:
    """Waits until this process is to be active, and renews its lease then: of gateways with one journal, the one that
    holds the lease `active` receives. `leave` ends the process at once, from another thread, when it may no longer be
    active."""

    noted: Final = None

    def __init__(self, leases: OpenLeases, holder: str, seconds: float, leave: Callable[[str], None]) -> None:
        self._leases, self._leave = leases, leave
        # Signal handlers may put into a SimpleQueue, while an Event's lock may be held by the thread they interrupt.
        self._woken: SimpleQueue[HeldLease | None] = SimpleQueue()
        self._taken: HeldLease | None = None
        self.election = Election(leases, ACTIVE, holder, seconds, self._begin)

    def wait(self) -> HeldLease | None:
        """Return the lease when this process has it; None if it was woken before."""
        self.election.start()
        return self._woken.get()

    def wake(self) -> None:
        """End the wait. A signal's handler may call this."""
        self._woken.put(None)

    @property
    def is_woken(self) -> bool:
        """Whether it was woken after the lease came."""
        return not self._woken.empty()

    def release(self) -> None:
        """Give the lease up, once this gateway writes nothing more."""
        self.election.stop()
        self.election.release()
        self._leases.close()

    def _begin(self, lease: HeldLease) -> "StandingBy":
        self._taken = lease
        return self

    def start(self) -> None:
        self._woken.put(self._taken)

    def give_up(self, why: str) -> None:
        self._leave(why)

    def end(self, longest: float | None = None) -> None:
        """Return at once: who releases the lease has ended all work."""
