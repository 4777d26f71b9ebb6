"""Standing by: of gateways with one journal, the one that holds the lease `active` receives."""

from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from app.ports import ACTIVE, HeldLease, OpenLeases
from app.service.roles.election import Election


class StandingBy:
    """Waits until this process is to be active, and renews its lease then. `leave` ends the process at once, from
    another thread, when it may no longer be active."""

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
