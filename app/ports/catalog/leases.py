"""Leases: which process does what only one may do at a time."""

from typing import Final, NamedTuple, Protocol

ACTIVE: Final = "active"
"""The lease of the gateway that receives alone, where another one stands by."""


class HeldLease(NamedTuple):
    """A lease that a process has taken. `epoch` grows by one with each taking. `note` is what the holder before has
    left; None if nobody has left anything. `log` is the newest log of events (`EventCatalog.newest_log`) when it was
    taken; None if that does not matter."""

    name: str
    holder: str
    epoch: int
    note: int | None = None
    log: str | None = None


class LeaseCatalog(Protocol):
    """Leases by name, each with the epoch of its last holder, which is kept for ever.

    They end by the clock of the database. A holder counts from before it asked, by its own monotonic clock, and stops
    earlier. What it writes all the same is refused (`Catalog.under`).

    A lease also ends when another log of events begins: the database may lack what its holder has read from it before.
    That of `OpenLeases` does not.
    """

    def lease_holder(self, name: str) -> str | None:
        """Return the process that has a lease; None if it has ended, or nobody has taken it yet."""

    def take_lease(self, name: str, holder: str, seconds: float, *, at_once: bool = False) -> HeldLease | None:
        """Take a lease for some seconds. Return None if another holder's has not ended; `at_once` takes it from that
        one."""

    def renew_lease(self, lease: HeldLease, seconds: float, note: int | None = None) -> bool:
        """Have a lease end in some seconds from now, and leave a note, if there is one. Return False if somebody has
        taken it since, or another log of events has begun."""

    def release_lease(self, lease: HeldLease, note: int | None = None) -> None:
        """End a lease now, unless somebody has taken it since, and leave a note, if there is one, unless another log of
        events has begun."""


class OpenLeases(LeaseCatalog, Protocol):
    """Leases without the rest of the catalog."""

    def close(self) -> None:
        """Close the database."""
