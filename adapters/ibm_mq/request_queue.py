"""Requests for missing parts on queues: as a receiver puts them to a reply-to queue, and as a sender gets them."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from adapters.ibm_mq.client import Connection, MqiError, MqMessage
from adapters.ibm_mq.constants import (
    MQCC_WARNING,
    MQGMO_ACCEPT_TRUNCATED_MSG,
    MQGMO_FAIL_IF_QUIESCING,
    MQGMO_NO_SYNCPOINT,
    MQGMO_VERSION_2,
    MQMO_NONE,
    MQOO_FAIL_IF_QUIESCING,
    MQOO_INPUT_SHARED,
    MQPER_NOT_PERSISTENT,
)
from adapters.ibm_mq.descriptor import text_to_put
from adapters.ibm_mq.reason_codes import MQRC_NO_MSG_AVAILABLE
from app.codecs.ibm_mq.constants import MQMT_REPLY
from app.codecs.ibm_mq.structure_writing import identifier
from app.codecs.missing_parts.request_documents import LONGEST
from app.model.message import PhysicalMessage

_QUEUE, _QUEUE_MANAGER = "mqmd.reply_to_q", "mqmd.reply_to_q_mgr"
_AT: Final = "@"
"""Between the names of a queue and of its queue manager, in which it cannot occur."""


class QueuedRequest(NamedTuple):
    """A message to a queue of a queue manager; an empty one is where the connection is."""

    queue: str
    queue_manager: str
    message: MqMessage


def reply_address(properties: Mapping[str, str], allowed: tuple[str, ...]) -> str | None:
    """Return the reply-to queue of a message, and its queue manager; None if there is none, or it is not allowed."""
    queue, queue_manager = properties.get(_QUEUE, ""), properties.get(_QUEUE_MANAGER, "")
    if not queue or not any(fnmatchcase(queue, each) for each in allowed):
        return None
    return f"{queue}{_AT}{queue_manager}" if queue_manager else queue


def request_to(address: str, body: bytes, replied: PhysicalMessage) -> QueuedRequest:
    """Return a request as a reply to a message: its CorrelId is the MsgId of that."""
    queue, _, queue_manager = address.partition(_AT)
    message = text_to_put(body, MQMT_REPLY, MQPER_NOT_PERSISTENT, identifier(replied.message_id))
    return QueuedRequest(queue, queue_manager, message)


class RequestQueue:
    """A queue for requests, opened by the constructor. All methods raise MqiError."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._library, self._name = connection.library, name
        options = MQOO_INPUT_SHARED | MQOO_FAIL_IF_QUIESCING
        self._queue: Any = connection.open(connection.library.OD(ObjectName=name.encode()), options, name)

    def take(self) -> bytes | None:
        """Get the next request, in no unit of work, and return its data; None when there is none. One that is too long
        is empty."""
        options = self._library.GMO(
            Version=MQGMO_VERSION_2,
            Options=MQGMO_NO_SYNCPOINT | MQGMO_ACCEPT_TRUNCATED_MSG | MQGMO_FAIL_IF_QUIESCING,
            MatchOptions=MQMO_NONE,
        )
        try:
            body: bytes = self._queue.get(LONGEST, self._library.MD(Version=2), options)
        except self._library.MQMIError as error:
            if error.reason == MQRC_NO_MSG_AVAILABLE:
                return None
            if error.comp != MQCC_WARNING:
                raise MqiError("MQGET", self._name, error.reason) from error
            return b""
        return body
