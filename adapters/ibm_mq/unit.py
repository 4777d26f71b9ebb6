"""One unit of work of a source: what was got in it, and how much of that is on disk."""

import time
from threading import Condition

from app.model.message import PhysicalMessage
from app.ports import Intake

_SUBMIT_MESSAGES = 64
_SUBMIT_BYTES = 2 << 20


class Unit:
    """Messages go to the intake in pieces while more are got. The journal's thread does nothing but count here."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._changed = Condition()
        self._held: list[PhysicalMessage] = []
        self._held_bytes = self._undurable = 0
        self._began = time.monotonic()
        self.handed_over: list[PhysicalMessage] = []
        """What the journal has or will have, each message as its descriptor described it."""
        self.count = self.bytes = 0

    @property
    def age(self) -> float:
        return time.monotonic() - self._began

    def take(self, received: PhysicalMessage, unwrapped: PhysicalMessage) -> None:
        """A message, as it came and without its headers."""
        self._held.append(unwrapped)
        self._held_bytes += len(unwrapped.body)
        self._hand_over(received)
        if len(self._held) >= _SUBMIT_MESSAGES or self._held_bytes >= _SUBMIT_BYTES:
            self.submit()

    def refuse(self, received: PhysicalMessage, code: str, why: str) -> None:
        """A message that cannot be read."""
        self._hand_over(received)
        self._expect()
        self._intake.refuse(received, code, why, self._durable)

    def skip(self, size: int) -> None:
        """Counts a message that the journal need not have."""
        self.count += 1
        self.bytes += size

    def submit(self) -> None:
        """Hands over what is held back; blocks while the intake does."""
        if self._held:
            held, self._held, self._held_bytes = self._held, [], 0
            self._expect()
            self._intake.submit(held, self._durable)

    def wait(self, timeout: float) -> bool:
        """Whether all that was submitted is durable, at the latest after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._undurable, timeout)

    def _hand_over(self, received: PhysicalMessage) -> None:
        self.handed_over.append(received)
        self.skip(len(received.body))

    def _expect(self) -> None:
        with self._changed:
            self._undurable += 1

    def _durable(self) -> None:
        with self._changed:
            self._undurable -= 1
            self._changed.notify_all()
