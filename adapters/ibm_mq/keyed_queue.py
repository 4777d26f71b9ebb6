"""A queue of few and short messages that are selected by CorrelId."""

from collections.abc import Iterator
from typing import Any

from adapters.ibm_mq.client import Connection, MqiError, Output
from adapters.ibm_mq.constants import (
    MQCC_WARNING,
    MQGMO_ACCEPT_TRUNCATED_MSG,
    MQGMO_BROWSE_FIRST,
    MQGMO_BROWSE_NEXT,
    MQGMO_FAIL_IF_QUIESCING,
    MQGMO_NO_SYNCPOINT,
    MQGMO_SYNCPOINT,
    MQGMO_VERSION_2,
    MQMO_MATCH_CORREL_ID,
    MQMO_NONE,
    MQOO_BROWSE,
    MQOO_FAIL_IF_QUIESCING,
    MQOO_INPUT_SHARED,
    MQOO_OUTPUT,
)
from adapters.ibm_mq.reason_codes import MQRC_NO_MSG_AVAILABLE

_SHORT_LENGTH = 4096


def open_keyed(connection: Connection, queue: str) -> "Keyed":
    """Open a queue whose messages are selected by CorrelId. Raises MqiError."""
    options = MQOO_INPUT_SHARED | MQOO_BROWSE | MQOO_OUTPUT | MQOO_FAIL_IF_QUIESCING
    opened = connection.open(connection.library.OD(ObjectName=queue.encode()), options, queue)
    return Keyed(connection, opened, queue)


class Keyed:
    """An open queue whose messages are selected by CorrelId."""

    def __init__(self, connection: Connection, queue: Any, name: str) -> None:
        self._library, self._queue, self._name = connection.library, queue, name
        self.put = Output(connection, connection.library, queue, name).put

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
        described = self._library.MD(Version=2, **({} if correl_id is None else {"CorrelId": correl_id}))
        asked = self._library.GMO(
            Version=MQGMO_VERSION_2,
            Options=options | MQGMO_ACCEPT_TRUNCATED_MSG | MQGMO_FAIL_IF_QUIESCING,
            MatchOptions=MQMO_NONE if correl_id is None else MQMO_MATCH_CORREL_ID,
        )
        try:
            body: bytes = self._queue.get(_SHORT_LENGTH, described, asked)
        except self._library.MQMIError as error:
            if error.reason == MQRC_NO_MSG_AVAILABLE:
                return None
            if error.comp != MQCC_WARNING:
                raise MqiError("MQGET", self._name, error.reason) from error
            return b""  # longer than any message of the gateway
        return body
