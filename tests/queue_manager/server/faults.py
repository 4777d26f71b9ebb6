"""Faults that a test asks for, by call."""

from dataclasses import dataclass
from typing import Literal

from tests.queue_manager.server.wire import Verb


@dataclass(slots=True)
class Fault:
    """What happens to the next `times` calls of a kind, after `skip` of them."""

    verb: Verb
    reason: int | None
    """The call fails with this reason and does nothing; a commit that fails as backed out is backed out."""
    delay: float
    """Seconds before the call is looked at."""
    lose: Literal["before", "after"] | None
    """The connection breaks before the call has its effect, or after it and before the reply."""
    skip: int
    times: int


class Faults:
    def __init__(self) -> None:
        self._planned: list[Fault] = []

    def plan(self, fault: Fault) -> None:
        self._planned.append(fault)

    def next(self, verb: Verb) -> Fault | None:
        """The fault of a call that is being made."""
        for fault in self._planned:
            if fault.verb == verb:
                if fault.skip:
                    fault.skip -= 1
                    return None
                fault.times -= 1
                if not fault.times:
                    self._planned.remove(fault)
                return fault
        return None

    def __bool__(self) -> bool:
        return bool(self._planned)
