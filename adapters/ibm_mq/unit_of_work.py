"""One unit of work of a source: the messages got in it, whether they are on disk, and which may be delivered again."""

import time
from collections.abc import Iterable
from itertools import islice
from threading import Condition

from adapters.ibm_mq.client import MqMessage
from app.codecs.ibm_mq.field_positions import place
from app.codecs.ibm_mq.headers import MQMD1
from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage, footprint
from app.ports import Intake

_SUBMIT_MESSAGES = 64
_SUBMIT_BYTES = 2 << 20


_MAX_REMEMBERED = 20_000
_EXPIRY, _BACKOUT_COUNT = place(MQMD1, "expiry"), place(MQMD1, "backout_count")
_Identity = tuple[bytes, bytes, bytes, int]


class UnitOfWork:
    """Passes messages to the intake in batches while more are got.

    The lock of `_changed` guards `_undurable`, which the journal's thread counts down. One thread uses all else.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._changed = Condition()
        self._held: list[PhysicalMessage] = []
        self._held_bytes = self._undurable = 0
        self._began = time.monotonic()
        self.journalled: list[MqMessage] = []
        """The messages, as they were got, that are in the journal when the unit is durable."""
        self.bytes = 0

    @property
    def age(self) -> float:
        return time.monotonic() - self._began

    @property
    def count(self) -> int:
        return len(self.journalled)

    def note(self, message: MqMessage) -> None:
        """Count a message that the journal has, or is about to get."""
        self.journalled.append(message)
        self.bytes += len(message.body)

    def take(self, message: PhysicalMessage) -> None:
        """Pass a message to the intake, in a batch with others."""
        self._held.append(message)
        self._held_bytes += footprint(message)
        if len(self._held) >= _SUBMIT_MESSAGES or self._held_bytes >= _SUBMIT_BYTES:
            self.submit()

    def refuse(self, message: PhysicalMessage, error: InvalidInputError) -> None:
        """Pass on a message that is to be kept in quarantine, after those before it."""
        self.submit()
        self._expect()
        self._intake.refuse(message, error, self._durable)

    def submit(self) -> None:
        """Pass on the messages held back; block while the intake does."""
        if self._held:
            held, self._held, self._held_bytes = self._held, [], 0
            self._expect()
            self._intake.submit(held, self._durable)

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds and tell whether all submitted messages are durable."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._undurable, timeout)

    def _expect(self) -> None:
        with self._changed:
            self._undurable += 1

    def _durable(self) -> None:
        with self._changed:
            self._undurable -= 1
            self._changed.notify_all()


class InDoubt:
    """The newest messages that the journal has and that the queue manager may deliver again.

    After a commit whose outcome is unknown, or a connection that broke before the commit, it is unknown which messages
    will be delivered again. All connections of a source use it, each in its own thread.
    """

    def __init__(self) -> None:
        self._remembered: dict[_Identity, None] = {}

    def remember(self, messages: Iterable[MqMessage]) -> None:
        self._remembered.update((_identity(message), None) for message in messages)
        for oldest in list(islice(self._remembered, max(0, len(self._remembered) - _MAX_REMEMBERED))):
            self._remembered.pop(oldest, None)

    def recall(self, message: MqMessage) -> bool:
        """Tell whether the message is one of them, and forget it then."""
        if not self._remembered:
            return False
        return self._remembered.pop(_identity(message), False) is None


def _identity(message: MqMessage) -> _Identity:
    """Return the fields of the descriptor that stay the same between deliveries, and the data's hash. The MsgId alone
    is not enough: a program may give many messages the same one."""
    descriptor = message.descriptor
    return (
        descriptor[: _EXPIRY.start],
        descriptor[_EXPIRY.stop : _BACKOUT_COUNT.start],
        descriptor[_BACKOUT_COUNT.stop :],
        hash(message.body),
    )
