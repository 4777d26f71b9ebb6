"""Messages that the journal has and that the queue manager may deliver again.

After a commit whose outcome is unknown, or a connection that broke before the commit, it is unknown which messages will
come again. They are remembered here and recognized when they come.
"""

from collections.abc import Iterable
from itertools import islice

from adapters.ibm_mq.client import MqMessage
from app.codecs.ibm_mq.field_positions import place
from app.codecs.ibm_mq.headers import MQMD1

_MOST = 20_000

_EXPIRY, _BACKOUT_COUNT = place(MQMD1, "expiry"), place(MQMD1, "backout_count")

_Identity = tuple[bytes, bytes, bytes, int]


class InDoubt:
    """The newest of these messages. All connections of a source use it, each in its own thread."""

    def __init__(self) -> None:
        self._remembered: dict[_Identity, None] = {}

    def remember(self, messages: Iterable[MqMessage]) -> None:
        self._remembered.update((_identity(message), None) for message in messages)
        for oldest in list(islice(self._remembered, max(0, len(self._remembered) - _MOST))):
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
