"""Poison messages: they go to the backout queue, or else to the dead-letter queue.

The queue manager counts how often a message was backed out; the application has to check the count (IBM MQ, "Handling
poison messages"). The receiver keeps a message that neither queue takes.
"""

import structlog

from adapters.ibm_mq.client import Connection, MqiError, MqMessage
from adapters.ibm_mq.constants import (
    MQCA_BACKOUT_REQ_Q_NAME,
    MQCA_DEAD_LETTER_Q_NAME,
    MQCA_Q_MGR_NAME,
    MQIA_BACKOUT_THRESHOLD,
)
from adapters.ibm_mq.descriptor import dead_letter
from adapters.ibm_mq.input_queue import InputQueue
from adapters.ibm_mq.settings import SourceSettings

_log = structlog.get_logger(__name__)


class Poison:
    """The backout threshold and the backout queue, from the settings or else from the queue.

    An alias queue has no such attributes; its base queue has.
    """

    def __init__(self, connection: Connection, queue: InputQueue, settings: SourceSettings) -> None:
        self._connection, self._queue, self._name = connection, queue, settings.queue
        threshold, backout_queue = settings.backout_threshold, settings.backout_queue
        if threshold is None:
            threshold = connection.readable_attribute(MQIA_BACKOUT_THRESHOLD, queue.resolved)
        if backout_queue is None and threshold:
            backout_queue = connection.readable_attribute(MQCA_BACKOUT_REQ_Q_NAME, queue.resolved)
        self.threshold: int = threshold or 0
        self._backout_queue: str = backout_queue or ""

    def set_aside(self, message: MqMessage) -> str | None:
        """Put a message to the first queue that takes it and return that queue's name; None when none does.

        It is part of the unit of work in which the message was got. Raises MqiError for a broken connection.
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
            _log.warning("backout_put_failed", queue=queue, reason=str(error))
            return False
        return True
