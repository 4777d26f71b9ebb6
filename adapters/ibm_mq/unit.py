"""One unit of work of a source: what was got in it, and how much of that is on disk."""

import time
from threading import Condition

from adapters.ibm_mq.client import MqMessage
from app.model.message import PhysicalMessage, footprint
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
        self.journalled: list[MqMessage] = []
        """What the journal has or will have when the unit is durable, as it was got."""
        self.bytes = 0

    @property
    def age(self) -> float:
        return time.monotonic() - self._began

    @property
    def count(self) -> int:
        return len(self.journalled)

    def note(self, message: MqMessage) -> None:
        """Counts a message that the journal has, or is about to be handed."""
        self.journalled.append(message)
        self.bytes += len(message.body)

    def take(self, message: PhysicalMessage) -> None:
        """Hands over a message, in a piece with others."""
        self._held.append(message)
        self._held_bytes += footprint(message)
        if len(self._held) >= _SUBMIT_MESSAGES or self._held_bytes >= _SUBMIT_BYTES:
            self.submit()

    def refuse(self, message: PhysicalMessage, code: str, why: str) -> None:
        """Hands over a message that is to be kept unread."""
        self._expect()
        self._intake.refuse(message, code, why, self._durable)

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

    def _expect(self) -> None:
        with self._changed:
            self._undurable += 1

    def _durable(self) -> None:
        with self._changed:
            self._undurable -= 1
            self._changed.notify_all()
