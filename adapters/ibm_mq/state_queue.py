"""The state messages of a destination, for sending exactly once.

Each open delivery has one message on the state queue. It says how many of the delivery's messages are on the
destination's queue, and it is replaced in the same unit of work that puts more of them: both happen or neither. So
after a crash, or after a commit whose outcome is unknown, the state message says where to continue.

A unit of work begins with the MQGET of the state message. While the unit of work is open, no other connection finds the
state message. A gateway that replaces a killed one waits until the queue manager has backed out its unit of work.

The body is JSON text in UTF-8 (Format MQSTR, CodedCharSetId 1208), the CorrelId is a digest of the delivery's
identifier. A message that cannot be read as such belongs to another program, and stays.
"""

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from adapters.ibm_mq.client import Connection, MqMessage, OutputQueue
from adapters.ibm_mq.constants import (
    MQGMO_BROWSE_FIRST,
    MQGMO_BROWSE_NEXT,
    MQGMO_NO_SYNCPOINT,
    MQGMO_SYNCPOINT,
    MQOO_BROWSE,
    MQOO_FAIL_IF_QUIESCING,
    MQOO_INPUT_SHARED,
    MQOO_OUTPUT,
    MQPER_PERSISTENT,
)
from adapters.ibm_mq.descriptor import text_to_put
from app.codecs.ibm_mq.constants import MQMT_DATAGRAM

_MAX_STATE_BYTES = 4096
VERSION: Final = 1
_CORREL_ID_BYTES: Final = 24


class KeyedQueue:
    """A queue of few and short messages that are selected by CorrelId, opened by the constructor.

    All methods raise MqiError.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self._name = connection, name
        options = MQOO_INPUT_SHARED | MQOO_BROWSE | MQOO_OUTPUT | MQOO_FAIL_IF_QUIESCING
        self._queue: Any = connection.open(connection.library.OD(ObjectName=name.encode()), options, name)
        self.put = OutputQueue(connection, self._queue, name).put

    def get(self, correl_id: bytes) -> bytes | None:
        """Get the first message with this CorrelId under syncpoint and return its data; None when there is none."""
        return self._call(correl_id, MQGMO_SYNCPOINT)

    def browse(self, correl_id: bytes | None = None) -> Iterator[bytes]:
        """Yield the data of all messages with this CorrelId, or of all; they stay on the queue."""
        where = MQGMO_BROWSE_FIRST
        while (body := self._call(correl_id, where | MQGMO_NO_SYNCPOINT)) is not None:
            yield body
            where = MQGMO_BROWSE_NEXT

    def _call(self, correl_id: bytes | None, options: int) -> bytes | None:
        return self._connection.get_short(self._queue, self._name, _MAX_STATE_BYTES, options, correl_id)


class State(NamedTuple):
    """The content of a state message: the delivery, its destination, how many messages are sent, and the attempt that
    wrote it."""

    delivery: str
    destination: str
    messages_sent: int
    attempt: int


def correl_id(delivery: str) -> bytes:
    """Return the CorrelId of a delivery's state message."""
    return blake2b(delivery.encode(), digest_size=_CORREL_ID_BYTES).digest()


def written(state: State) -> MqMessage:
    """Return the state message: its descriptor and its body."""
    text = json.dumps({"version": VERSION, **state._asdict()}).encode()
    return text_to_put(text, MQMT_DATAGRAM, MQPER_PERSISTENT, correl_id(state.delivery))


def read(body: bytes) -> State | None:
    """Return the content of a state message's body; None for a body of another version or program."""
    try:
        content = json.loads(body)
        if not isinstance(content, dict) or content.get("version") != VERSION:
            return None
        state = State(*(content[name] for name in State._fields))
    except (ValueError, KeyError):
        return None
    is_sound = isinstance(state.delivery, str) and isinstance(state.destination, str)
    counts = (state.messages_sent, state.attempt)
    return state if is_sound and all(type(count) is int and count >= 0 for count in counts) else None


class StateQueue:
    """The state messages of one destination.

    All methods raise MqiError. Their changes are in the connection's unit of work.
    """

    def __init__(self, queue: KeyedQueue, destination: str) -> None:
        self._queue, self._destination = queue, destination

    def find(self, delivery: str) -> State | None:
        """Return the content of a delivery's state message; None when there is none."""
        states = filter(None, map(read, self._queue.browse(correl_id(delivery))))
        return max(
            (state for state in states if state.delivery == delivery),
            key=lambda state: state.messages_sent,
            default=None,
        )

    def take(self, delivery: str) -> State | None:
        """Get the state message of a delivery from the queue and return its content; None when there is none."""
        newest: State | None = None
        while (body := self._queue.get(correl_id(delivery))) is not None:
            state = read(body)
            if state is not None and (newest is None or state.messages_sent > newest.messages_sent):
                newest = state
        return newest

    def put(self, delivery: str, messages_sent: int, attempt: int) -> None:
        self._queue.put(written(State(delivery, self._destination, messages_sent, attempt)))

    def deliveries(self) -> list[str]:
        """Return the deliveries to this destination that have a state message."""
        states = map(read, self._queue.browse())
        return sorted({state.delivery for state in states if state and state.destination == self._destination})
