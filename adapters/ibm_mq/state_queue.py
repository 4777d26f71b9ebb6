"""The state messages of a destination, for sending exactly once.

Each open delivery has one message on the state queue. It says how many of the delivery's messages are on the
destination's queue, and it is replaced in the same unit of work that puts more of them: both happen or neither. So
after a crash, or after a commit whose outcome is unknown, the state message says where to continue.

A unit of work begins with the MQGET of the state message. While the unit of work is open, nobody else finds the state
message. A gateway that replaces a killed one waits until the queue manager has backed out its unit of work.

The body is JSON text in UTF-8 (Format MQSTR, CodedCharSetId 1208), the CorrelId is a digest of the delivery's
identifier. A message that cannot be read as such belongs to another program, and stays.
"""

import json
from hashlib import blake2b
from typing import Final, NamedTuple

from adapters.ibm_mq.client import MqMessage
from adapters.ibm_mq.constants import MQPER_PERSISTENT
from adapters.ibm_mq.descriptor import NATIVE, NATIVE_ENCODING
from adapters.ibm_mq.keyed_queue import Keyed
from app.codecs.ibm_mq.constants import MQEI_UNLIMITED, MQFMT_STRING, MQMT_DATAGRAM
from app.codecs.ibm_mq.headers import MQMD2

VERSION: Final = 1
_UTF_8: Final = 1208
_CORREL_ID_BYTES: Final = 24


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
    descriptor = MQMD2(
        msg_type=MQMT_DATAGRAM,
        expiry=MQEI_UNLIMITED,
        encoding=NATIVE_ENCODING,
        coded_char_set_id=_UTF_8,
        format=MQFMT_STRING,
        persistence=MQPER_PERSISTENT,
        correl_id=correl_id(state.delivery),
    )
    return MqMessage(descriptor.encode(NATIVE), json.dumps({"version": VERSION, **state._asdict()}).encode())


def read(body: bytes) -> State | None:
    """Return the content of a state message's body; None for a body of another version or program."""
    try:
        said = json.loads(body)
        if not isinstance(said, dict) or said.get("version") != VERSION:
            return None
        state = State(*(said[name] for name in State._fields))
    except (ValueError, KeyError):
        return None
    is_sound = isinstance(state.delivery, str) and isinstance(state.destination, str)
    counts = (state.messages_sent, state.attempt)
    return state if is_sound and all(type(count) is int and count >= 0 for count in counts) else None


class StateQueue:
    """The state messages of one destination.

    All methods raise MqiError. Their changes are in the connection's unit of work.
    """

    def __init__(self, queue: Keyed, destination: str) -> None:
        self._queue, self._destination = queue, destination

    def look(self, delivery: str) -> State | None:
        """Return the content of a delivery's state message; None when there is none."""
        found = [state for state in map(read, self._queue.browse(correl_id(delivery))) if self._is_of(state, delivery)]
        return max(filter(None, found), key=lambda state: state.messages_sent, default=None)

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

    def _is_of(self, state: State | None, delivery: str) -> bool:
        return state is not None and state.delivery == delivery
