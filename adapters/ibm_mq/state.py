"""The state messages of a destination, by which it sends exactly once.

Each open delivery has one message on the state queue. It says how many of the delivery's messages are on the
destination's queue, and it is replaced in the very unit of work that puts more of them: either both happen or neither.
So after a crash, or a commit whose outcome is not known, the state message says where to go on.

A unit of work begins with the MQGET of the state message. As long as the unit of work is open, nobody else finds it: a
gateway that takes over from one that was killed waits until the queue manager has backed out what that one left.

The body is JSON text in UTF-8 (Format MQSTR, CodedCharSetId 1208), the CorrelId is a digest of the delivery's
identifier. What is not readable as such is another program's message, and stays.
"""

import json
from hashlib import blake2b
from typing import Final, NamedTuple

from adapters.ibm_mq.client import MqMessage
from adapters.ibm_mq.descriptor import NATIVE, NATIVE_ENCODING
from adapters.ibm_mq.keyed import Keyed
from adapters.ibm_mq.words import MQPER_PERSISTENT
from app.codecs.ibm_mq.headers import MQMD2
from app.codecs.ibm_mq.words import MQEI_UNLIMITED, MQFMT_STRING, MQMT_DATAGRAM

VERSION: Final = 1
_UTF_8: Final = 1208
_CORREL_ID_BYTES: Final = 24


class State(NamedTuple):
    """What a state message says: of which delivery, to which destination, how many messages are sent, and the attempt
    that wrote it."""

    delivery: str
    destination: str
    messages_sent: int
    attempt: int


def correl_id(delivery: str) -> bytes:
    """The CorrelId of a delivery's state message."""
    return blake2b(delivery.encode(), digest_size=_CORREL_ID_BYTES).digest()


def written(state: State) -> MqMessage:
    """The state message: its descriptor and its body."""
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
    """What a state message's body says; None when it is none of this version."""
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
    """The state messages of one destination. All methods raise MqiError; what they change is in the connection's unit
    of work."""

    def __init__(self, queue: Keyed, destination: str) -> None:
        self._queue, self._destination = queue, destination

    def look(self, delivery: str) -> State | None:
        """What the state message of a delivery says; None when there is none to be seen."""
        found = [state for state in map(read, self._queue.browse(correl_id(delivery))) if self._is_of(state, delivery)]
        return max(filter(None, found), key=lambda state: state.messages_sent, default=None)

    def take(self, delivery: str) -> State | None:
        """The state message of a delivery, taken off the queue; None when there is none to be had."""
        newest: State | None = None
        while (body := self._queue.get(correl_id(delivery))) is not None:
            state = read(body)
            if state is not None and (newest is None or state.messages_sent > newest.messages_sent):
                newest = state
        return newest

    def put(self, delivery: str, messages_sent: int, attempt: int) -> None:
        self._queue.put(written(State(delivery, self._destination, messages_sent, attempt)))

    def deliveries(self) -> list[str]:
        """The deliveries to this destination that have a state message."""
        states = map(read, self._queue.browse())
        return sorted({state.delivery for state in states if state and state.destination == self._destination})

    def _is_of(self, state: State | None, delivery: str) -> bool:
        return state is not None and state.delivery == delivery
