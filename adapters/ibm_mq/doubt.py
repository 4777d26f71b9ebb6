"""Messages that the journal has and the queue manager may deliver once more.

After a commit whose outcome is not known, and after a connection that broke before one, nobody can say which messages
will come again. They are remembered here, and known when they come.
"""

from collections.abc import Iterable
from itertools import islice

from app.model.message import PhysicalMessage

_MOST = 20_000

_Identity = tuple[bytes, bytes, int]


class InDoubt:
    """The newest of them. Used by all connections of a source, each in its own thread."""

    def __init__(self) -> None:
        self._remembered: dict[_Identity, None] = {}

    def remember(self, messages: Iterable[PhysicalMessage]) -> None:
        self._remembered.update((_identity(message), None) for message in messages)
        for oldest in list(islice(self._remembered, max(0, len(self._remembered) - _MOST))):
            self._remembered.pop(oldest, None)

    def recall(self, message: PhysicalMessage) -> bool:
        """Whether this is one of them; it is forgotten then."""
        if not self._remembered:
            return False
        return self._remembered.pop(_identity(message), False) is None


def _identity(message: PhysicalMessage) -> _Identity:
    """Its identifiers and its body's hash: a program may use one MsgId for messages that differ."""
    return message.message_id, message.correl_id, hash(bytes(message.body))
