"""The clock: the only source of time for the service, so that tests can set it."""

from typing import Protocol


class Clock(Protocol):
    """Wall-clock time for records, and elapsed time for waiting."""

    def now(self) -> int:
        """Return microseconds since 1970-01-01 UTC. This clock may be set forward and back."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start. This clock is never set."""
