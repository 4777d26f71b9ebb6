"""Messages that the journal has and the queue manager may deliver once more.

After a commit whose outcome is not known, and after a connection that broke before one, nobody can say which messages
will come again. They are remembered here, and known when they come.
"""

from collections.abc import Iterable
from itertools import islice

from adapters.ibm_mq.client import MqMessage
from app.codecs.ibm_mq.headers import MQMD1
from app.codecs.ibm_mq.places import place

_MOST = 20_000

_EXPIRY, _BACKOUT_COUNT = place(MQMD1, "expiry"), place(MQMD1, "backout_count")

_Identity = tuple[bytes, bytes, bytes, int]


class InDoubt:
    """The newest of them. Used by all connections of a source, each in its own thread."""

    def __init__(self) -> None:
        self._remembered: dict[_Identity, None] = {}

    def remember(self, messages: Iterable[MqMessage]) -> None:
        self._remembered.update((_identity(message), None) for message in messages)
        for oldest in list(islice(self._remembered, max(0, len(self._remembered) - _MOST))):
            self._remembered.pop(oldest, None)

    def recall(self, message: MqMessage) -> bool:
        """Whether this is one of them; it is forgotten then."""
        if not self._remembered:
            return False
        return self._remembered.pop(_identity(message), False) is None


def _identity(message: MqMessage) -> _Identity:
    """All of the descriptor but what changes from one delivery to the next, and the data's hash: a program may give
    many messages one MsgId."""
    descriptor = message.descriptor
    return (
        descriptor[: _EXPIRY.start],
        descriptor[_EXPIRY.stop : _BACKOUT_COUNT.start],
        descriptor[_BACKOUT_COUNT.stop :],
        hash(message.body),
    )
