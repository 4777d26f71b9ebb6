"""Messages that were backed out again and again: to the backout queue, or else the dead-letter queue.

The queue manager counts, and leaves it to the application to look at the count (IBM MQ, "Handling poison messages").
What neither queue takes is the receiver's to keep.
"""

import structlog

from adapters.ibm_mq.client import Connection, MqiError, MqMessage
from adapters.ibm_mq.descriptor import dead_letter
from adapters.ibm_mq.input import Input
from adapters.ibm_mq.settings import SourceSettings
from adapters.ibm_mq.words import (
    MQCA_BACKOUT_REQ_Q_NAME,
    MQCA_DEAD_LETTER_Q_NAME,
    MQCA_Q_MGR_NAME,
    MQIA_BACKOUT_THRESHOLD,
)

_log = structlog.get_logger(__name__)


class Poison:
    """What the queue, or the configuration in its place, says of messages that were backed out. An alias queue has no
    attributes of this kind; its base queue has."""

    def __init__(self, connection: Connection, queue: Input, settings: SourceSettings) -> None:
        self._connection, self._queue, self._name = connection, queue, settings.queue
        threshold, backout_queue = settings.backout_threshold, settings.backout_queue
        if threshold is None:
            threshold = connection.readable_attribute(MQIA_BACKOUT_THRESHOLD, queue.resolved)
        if backout_queue is None and threshold:
            backout_queue = connection.readable_attribute(MQCA_BACKOUT_REQ_Q_NAME, queue.resolved)
        self.threshold: int = threshold or 0
        self._backout_queue: str = backout_queue or ""

    def set_aside(self, message: MqMessage) -> str | None:
        """Puts a message to the first queue that takes it and returns that queue's name; None when none does.

        It is part of the unit of work in which the message was got. Raises MqiError for a connection that is gone.
        """
        if self._backout_queue and self._put(self._backout_queue, message):
            return self._backout_queue
        dead_letter_queue: str = self._connection.readable_attribute(MQCA_DEAD_LETTER_Q_NAME) or ""
        if not dead_letter_queue:
            return None
        queue_manager: str = self._connection.readable_attribute(MQCA_Q_MGR_NAME) or ""
        headed = dead_letter(message, self._name, queue_manager)
        return dead_letter_queue if self._put(dead_letter_queue, headed) else None

    def _put(self, queue: str, message: MqMessage) -> bool:
        try:
            self._connection.put_aside(queue, message, self._queue.handle)
        except MqiError as error:
            if error.is_broken:
                raise
            _log.warning("a message that was backed out too often is not taken", queue=queue, error=str(error))
            return False
        return True
