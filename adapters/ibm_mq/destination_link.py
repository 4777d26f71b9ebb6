"""A destination's connection with its queues, and the limits of the queue manager and the channel."""

import structlog

from adapters.connections import LogIn
from adapters.ibm_mq.client import Connection, Library, MqiError, MqMessage
from adapters.ibm_mq.constants import (
    MQIA_CODED_CHAR_SET_ID,
    MQIA_MAX_MSG_LENGTH,
    MQIA_MAX_UNCOMMITTED_MSGS,
    MQPER_NOT_PERSISTENT,
)
from adapters.ibm_mq.descriptor import EXTENSION_SIZE, NATIVE
from adapters.ibm_mq.reason_codes import TOO_LONG
from adapters.ibm_mq.reply_queues import RequestQueue
from adapters.ibm_mq.settings import DestinationSettings
from adapters.ibm_mq.state_queue import KeyedQueue, StateQueue
from app.codecs.ibm_mq.constants import MQMT_DATAGRAM
from app.codecs.ibm_mq.encodings import LATIN_1_CCSID
from app.codecs.ibm_mq.headers import MQMD1

_DEFAULT_MAX_MSG_LENGTH = 4 << 20
_DEFAULT_MAX_UNCOMMITTED = 10_000
_EMPTY_RFH2 = 64
"""Bytes of an MQRFH2 with a folder `usr`, without its properties."""
_STATE_MESSAGE_CALLS = 2
"""Messages that the state message adds to a unit of work: the old one that is got and the new one that is put."""

_log = structlog.get_logger(__name__)


class DestinationLink:
    """A connection, opened by the constructor. All methods raise MqiError when a call fails.

    `ccsid` is the queue manager's own character set. `states` are the state messages, and `requests` what
    receivers ask for, if the settings name queues for them.
    """

    def __init__(self, library: Library, name: str, settings: DestinationSettings, log_in: LogIn) -> None:
        self._settings = settings
        self.connection = Connection(library, settings, log_in)
        try:
            self.queue = self.connection.open_output(settings.queue, settings.remote_queue_manager or "")
            self.states: StateQueue | None = None
            if settings.state_queue is not None:
                self.states = StateQueue(KeyedQueue(self.connection, settings.state_queue), name)
            self.requests: RequestQueue | None = None
            if settings.answer_missing is not None:
                self.requests = RequestQueue(self.connection, settings.answer_missing)
            lengths = [self.connection.readable_attribute(MQIA_MAX_MSG_LENGTH)]
            if settings.remote_queue_manager is None:
                lengths.append(self.connection.readable_attribute(MQIA_MAX_MSG_LENGTH, settings.queue))
            self._max_length: int = min(
                (length for length in lengths if length is not None), default=_DEFAULT_MAX_MSG_LENGTH
            )
            self._tried_length = 0
            self._max_uncommitted: int = (
                self.connection.readable_attribute(MQIA_MAX_UNCOMMITTED_MSGS) or _DEFAULT_MAX_UNCOMMITTED
            )
            ccsid: int | None = self.connection.readable_attribute(MQIA_CODED_CHAR_SET_ID)
            if ccsid is None and settings.mqmd_version == 1:
                _log.warning(
                    "ccsid_not_read",
                    destination=name,
                    effect="the queue manager may treat an MQMDE as data",
                )
            self.ccsid = ccsid or LATIN_1_CCSID
        except MqiError:
            self.connection.close()
            raise

    def max_body(self, wanted: int | None = None) -> int:
        """Return the largest body that a message may have. Try whether the channel accepts one of `wanted` bytes."""
        added = EXTENSION_SIZE if self._settings.mqmd_version == 1 else 0
        added += _EMPTY_RFH2 if self._settings.properties == "mqrfh2" else 0
        if wanted is not None:
            self._find_max_length(min(wanted + added, self._max_length))
        return self._max_length - added

    def max_batch(self) -> int:
        """Return the largest number of messages that one unit of work may put."""
        allowed = self._max_uncommitted - (_STATE_MESSAGE_CALLS if self.states is not None else 0)
        return max(1, min(self._settings.batch_messages, allowed))

    def learn_max_uncommitted(self, calls: int) -> None:
        """Record that the queue manager accepted this number of messages in a unit of work and refused the next."""
        self._max_uncommitted = min(self._max_uncommitted, calls)

    def _find_max_length(self, length: int) -> None:
        """Find out whether a message of this length can be put, and otherwise the longest that can.

        The MAXMSGL that client and channel have agreed on cannot be inquired. So a message is put in a unit of work
        that is backed out.
        """
        if length <= self._tried_length:
            return
        descriptor = MQMD1(msg_type=MQMT_DATAGRAM, persistence=MQPER_NOT_PERSISTENT)
        goes, fails = 0, length + 1
        at = length
        while goes + 1 < fails:
            try:
                self.queue.put(MqMessage(descriptor.encode(NATIVE), bytes(at)))
            except MqiError as error:
                if error.reason not in TOO_LONG:
                    raise
                fails = at
            else:
                self.connection.back_out()
                goes = at
            at = (goes + fails) // 2
        self._tried_length = goes
        if goes < length:
            self._max_length = goes
