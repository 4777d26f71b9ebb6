"""Faults that a test asks for, by call."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tests.queue_manager.server.wire import Verb


@dataclass(slots=True)
class Fault:
    """What happens to the next `times` calls of a kind, after `skip` of them."""

    verb: Verb | None
    """None: any call."""
    reason: int | None
    """The call fails with this reason and does nothing; a commit that fails as backed out is backed out."""
    delay: float
    """Seconds before the call is looked at."""
    lose: Literal["before", "after"] | None
    """The connection breaks before the call has its effect, or after it and before the reply."""
    skip: int
    times: int
    hold: Literal["before", "after"] | None = None
    """The call, or its reply, waits until the test lets it go on."""
    queue: str | None = None
    """Only calls of connections that have this queue open count."""


class Held(NamedTuple):
    """A call that waits: the queue of its fault, the number of the program's process, and what lets it go on."""

    queue: str | None
    process: int
    verb: Verb
    go_on: Callable[[], None]


class Faults:
    def __init__(self) -> None:
        self._planned: list[Fault] = []
        self.held: list[Held] = []

    def plan(self, fault: Fault) -> None:
        self._planned.append(fault)

    def forget(self) -> None:
        """Let no more of the planned faults occur."""
        self._planned.clear()

    def next(self, verb: Verb, queues: Collection[str]) -> Fault | None:
        """The fault of a call that is being made, by a connection that has these queues open."""
        for fault in self._planned:
            if fault.verb in (None, verb) and (fault.queue is None or fault.queue in queues):
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
