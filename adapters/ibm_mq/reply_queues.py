"""Replies, as a receiver puts them to a reply-to queue, and requests for missing parts, as a sender gets them.

A reply follows the rules of IBM MQ for replies: its CorrelId is the MsgId of the message, and its MsgId a new one,
unless the message's Report asks for the CorrelId (MQRO_PASS_CORREL_ID) or the MsgId (MQRO_PASS_MSG_ID) to be passed on.
"""

import re
from collections import deque
from collections.abc import Callable, Container, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from adapters.ibm_mq.client import Connection, MqMessage
from adapters.ibm_mq.constants import (
    MQGMO_NO_SYNCPOINT,
    MQOO_FAIL_IF_QUIESCING,
    MQOO_INPUT_SHARED,
    MQPER_NOT_PERSISTENT,
)
from adapters.ibm_mq.descriptor import NATIVE, NATIVE_ENCODING, UTF_8
from app.codecs.ibm_mq.constants import (
    MQEI_UNLIMITED,
    MQFMT_STRING,
    MQMT_REPLY,
    MQPER_PERSISTENCE_AS_Q_DEF,
    MQRO_PASS_CORREL_ID,
    MQRO_PASS_MSG_ID,
)
from app.codecs.ibm_mq.headers import MQMD2
from app.codecs.ibm_mq.structure_writing import identifier
from app.codecs.missing_parts.request_documents import LONGEST, MEDIA_TYPE
from app.ports import Reply, ReplyEnd

RECEIPT_FORMAT: Final = "AGRECEPT"
"""The Format of a message whose data are a receipt, in COSE."""
_QUEUE, _QUEUE_MANAGER, _REPORT = "mqmd.reply_to_q", "mqmd.reply_to_q_mgr", "mqmd.report"
_MOST_REPLIES = 1000
"""The replies that wait for a connection."""
_AT: Final = "@"
"""Between the names of a queue and of its queue manager, in which it cannot occur."""


class QueuedReply(NamedTuple):
    """A message to a queue of a queue manager; an empty one is where the connection is. `on_end` is called when it is
    known how the put has ended."""

    queue: str
    queue_manager: str
    message: MqMessage
    on_end: Callable[[ReplyEnd], None]


class ReplyQueue:
    """What waits to be put by any connection of a source. The oldest are dropped when too many wait."""

    def __init__(self) -> None:
        self._waiting: deque[QueuedReply] = deque()

    def add(self, reply: QueuedReply) -> None:
        """Add a reply, from any thread."""
        self._waiting.append(reply)
        while len(self._waiting) > _MOST_REPLIES and (oldest := self.take()) is not None:
            oldest.on_end(ReplyEnd.LOST)

    def take(self) -> QueuedReply | None:
        """Return the next reply; None if there is none, since another connection may have taken it."""
        try:
            return self._waiting.popleft()
        except IndexError:
            return None


def reply_address(properties: Mapping[str, str], allowed: tuple[str, ...], own: Container[str]) -> str | None:
    """Return the reply-to queue of a message, and its queue manager; None if there is none, if it is not allowed, or if
    it is one of the source's `own` queues, where a reply would come back as a message."""
    queue, queue_manager = properties.get(_QUEUE, ""), properties.get(_QUEUE_MANAGER, "")
    if not queue or queue in own or not any(fnmatchcase(queue, each) for each in allowed):
        return None
    return f"{queue}{_AT}{queue_manager}" if queue_manager else queue


def reply_to_put(reply: Reply) -> QueuedReply:
    """Return a reply as it is put. A request is not persistent, and made again if it is lost; of anything else the
    reply-to queue decides, since a temporary one takes no persistent messages."""
    queue, _, queue_manager = reply.address.partition(_AT)
    replied = reply.message
    # A property of this name may come from the message's sender, too.
    stated = replied.properties.get(_REPORT, "")
    report = int(stated) if re.fullmatch("-?[0-9]{1,10}", stated) else 0
    is_text = reply.media_type == MEDIA_TYPE
    descriptor = MQMD2(
        msg_type=MQMT_REPLY,
        expiry=MQEI_UNLIMITED,
        encoding=NATIVE_ENCODING,
        coded_char_set_id=UTF_8,
        format=MQFMT_STRING if is_text else RECEIPT_FORMAT,
        persistence=MQPER_NOT_PERSISTENT if is_text else MQPER_PERSISTENCE_AS_Q_DEF,
        msg_id=identifier(replied.message_id if report & MQRO_PASS_MSG_ID else b""),
        correl_id=identifier(replied.correl_id if report & MQRO_PASS_CORREL_ID else replied.message_id),
    )
    return QueuedReply(queue, queue_manager, MqMessage(descriptor.encode(NATIVE), reply.body), reply.on_end)


class RequestQueue:
    """A queue for requests, opened by the constructor. All methods raise MqiError."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self._name = connection, name
        options = MQOO_INPUT_SHARED | MQOO_FAIL_IF_QUIESCING
        self._queue: Any = connection.open(connection.library.OD(ObjectName=name.encode()), options, name)

    def take(self) -> bytes | None:
        """Get the next request, in no unit of work, and return its data; None when there is none. One that is too long
        is empty."""
        return self._connection.get_short(self._queue, self._name, LONGEST, MQGMO_NO_SYNCPOINT)
