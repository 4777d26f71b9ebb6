"""One connection of a source, from its start to its end.

Messages are got under syncpoint and passed to the intake while more are got, so that the journal writes and the queue
manager delivers at the same time. A unit of work ends with an empty queue or at its limit. Then the session waits for
the journal and commits the durable messages.

A message that was backed out twice ends its unit. So a message that crashes the process does not raise the backout
count of others up to their threshold. A backout count of one may come from any restart.

An MQGET that fails ends its unit too. If the connection is still open, the messages got before are committed, also when
the queue manager quiesces: a backout would raise the backout count of each. If it is not open, the next unit ends
before the place of the failure (`UnitLimit`), so that a permanent failure in one place does not stop other messages.
"""

from collections.abc import Callable, Mapping
from logging import INFO, WARNING
from threading import Event as StopSignal

import structlog

from adapters.connections import LogIn
from adapters.ibm_mq.client import Connection, Library, MqiError, MqMessage
from adapters.ibm_mq.constants import (
    MQCA_BACKOUT_REQ_Q_NAME,
    MQCA_DEAD_LETTER_Q_NAME,
    MQCA_Q_MGR_NAME,
    MQIA_BACKOUT_THRESHOLD,
    MQIA_CURRENT_Q_DEPTH,
    MQIA_MAX_Q_DEPTH,
    MQIA_MAX_UNCOMMITTED_MSGS,
    MQIA_OPEN_INPUT_COUNT,
    MQIA_PLATFORM,
    MQPL_ZOS,
)
from adapters.ibm_mq.descriptor import dead_letter, descriptor_to_get, received
from adapters.ibm_mq.input_queue import InputQueue
from adapters.ibm_mq.reason_codes import MQRC_SYNCPOINT_LIMIT_REACHED
from adapters.ibm_mq.reply_queues import ReplyQueue
from adapters.ibm_mq.settings import SourceSettings
from adapters.ibm_mq.unit_of_work import InDoubt, UnitOfWork
from app.codecs.ibm_mq.unwrap import unwrap
from app.model.errors import InvalidInputError
from app.model.framing_facts import FramingTraits
from app.ports import Intake, ReplyEnd
from app.wire import WireError

_log = structlog.get_logger(__name__)


_POLL_SECONDS = 0.02
_LAST_WAIT_SECONDS = 0.5
_LONGEST_UNIT = 60.0
_BACKED_OUT_TWICE = 2


class Backout:
    """Poison messages: they are put to the backout queue, or else to the dead-letter queue.

    The queue manager counts how often a message was backed out; the application has to check the count (IBM MQ,
    "Handling poison messages"). Threshold and backout queue are from the settings or else from the queue.

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
        """Put a message to the first queue that accepts it and return that queue's name; None when none does.

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


class UnitLimit:
    """The number of messages in a unit of work: reduced after a failure, then doubled step by step. It outlives
    sessions."""

    def __init__(self, most: int) -> None:
        self.limit = self.most = most

    def failed(self, messages: int) -> None:
        """Limit the next unit to this number of messages."""
        self.limit = max(1, messages)

    def succeeded(self) -> None:
        self.limit = min(self.most, self.limit * 2)


class SourceSession:
    """A session, opened by the constructor. All methods raise MqiError when a call fails. `on_commit` is called after
    each commit."""

    def __init__(
        self,
        library: Library,
        name: str,
        framing: FramingTraits,
        settings: SourceSettings,
        in_doubt: InDoubt,
        unit_limit: UnitLimit,
        intake: Intake,
        stop: StopSignal,
        log_in: LogIn,
        on_commit: Callable[[], None],
    ) -> None:
        self._name, self._framing, self._settings = name, framing, settings
        self._in_doubt, self._unit_limit, self._intake, self._stop = in_doubt, unit_limit, intake, stop
        self._log = _log.bind(source=name, broker=settings.broker, queue=settings.queue)
        self._on_commit = on_commit
        self._connection = Connection(library, settings, log_in)
        self.unacknowledged = 0
        self.on_waiting: Callable[[], None] = lambda: None
        """A function that is called twice a second while no message is got because the journal is behind."""
        try:
            self._queue = self._open()
            self._backout = Backout(self._connection, self._queue, settings)
            allowed: int = self._connection.readable_attribute(MQIA_MAX_UNCOMMITTED_MSGS) or settings.batch_messages
            self._most = min(
                settings.batch_messages, max(1, allowed - 1)
            )  # reserve one for a message that goes to the backout queue
        except MqiError:
            self._connection.close()
            raise

    def _open(self) -> InputQueue:
        """Open the queue. Segments are reassembled if the framing reads whole messages. z/OS segments no message, and
        its queues refuse to reassemble any."""
        settings = self._settings
        complete = settings.mqmd_version == 2 and not self._framing.reads_segments
        if complete:
            complete = self._connection.readable_attribute(MQIA_PLATFORM) != MQPL_ZOS
        descriptor = descriptor_to_get(settings.mqmd_version)
        return InputQueue(
            self._connection,
            settings.queue,
            descriptor,
            settings.wait,
            exclusive=settings.is_exclusive,
            complete=complete,
        )

    @property
    def too_long(self) -> Mapping[bytes, int]:
        """Return `InputQueue.too_long`."""
        return self._queue.too_long

    def open_inputs(self) -> int | None:
        """Return how many handles have the queue open to get from, this one included; None without authority to
        inquire."""
        count: int | None = self._connection.readable_attribute(MQIA_OPEN_INPUT_COUNT, self._queue.resolved)
        return count

    def depth(self) -> int | None:
        """Return the number of messages on the queue, even those that cannot be got; None without authority to
        inquire."""
        count: int | None = self._connection.readable_attribute(MQIA_CURRENT_Q_DEPTH, self._queue.resolved)
        return count

    def max_depth(self) -> int | None:
        """Return the queue's MAXDEPTH; None without authority to inquire."""
        depth: int | None = self._connection.readable_attribute(MQIA_MAX_Q_DEPTH, self._queue.resolved)
        return depth

    def first_put_time(self) -> int:
        """Return `Connection.first_put_time` of the queue. Raises MqiError without authority to browse."""
        return self._connection.first_put_time(self._settings.queue)

    def put_replies(self, replies: ReplyQueue) -> None:
        """Put replies to the queues of senders. One that a queue does not take is left out."""
        while (reply := replies.take()) is not None:
            try:
                self._connection.put_alone(reply.queue, reply.queue_manager, reply.message)
            except MqiError as error:
                if error.is_broken:
                    reply.on_end(ReplyEnd.LOST)
                    raise
                reply.on_end(ReplyEnd.BUSY if error.may_pass else ReplyEnd.REFUSED)
                level = INFO if error.may_pass else WARNING
                self._log.log(level, "reply_not_sent", to=reply.queue, reason=str(error))
            else:
                reply.on_end(ReplyEnd.SENT)

    def wait(self) -> MqMessage | None:
        """Return a message, if one comes within the waiting time of the settings."""
        return self._queue.get(wait=True)

    def run_unit(self, message: MqMessage) -> None:
        """Process one unit of work, from its first message to its end.

        Raises MqiError also if all messages that were got are committed and the next could not be got.
        """
        unit = UnitOfWork(self._intake)
        failure: MqiError | None = None
        try:
            failure = self._fill(unit, message)
            if self._is_durable(unit):
                try:
                    self._connection.commit()
                except MqiError:
                    self._unit_limit.failed(unit.count // 2)
                    raise
                self._unit_limit.succeeded()
                self._on_commit()
            else:
                self._back_out_unit(unit)
        except MqiError:
            unit.submit()
            if unit.wait(_LAST_WAIT_SECONDS):
                self._in_doubt.remember(unit.journalled)
            raise
        finally:
            self.unacknowledged = 0
        if failure is not None:
            raise failure

    def back_out(self) -> None:
        self._connection.back_out()

    def close(self) -> None:
        self._connection.close()

    def _fill(self, unit: UnitOfWork, first: MqMessage) -> MqiError | None:
        """Get messages and pass them on until the queue is empty and all are durable, or until the unit is at its
        limit.

        Return the error of a failed MQGET after which the messages got before can be committed. Raise an error that
        loses the unit.
        """
        message: MqMessage | None = first
        failure: MqiError | None = None
        while failure is None:
            if message is None:
                unit.submit()
                if unit.wait(_POLL_SECONDS):
                    break
            elif (
                self._take(unit, message)
                or unit.count >= min(self._most, self._unit_limit.limit)
                or unit.bytes >= self._settings.batch_bytes
            ):
                break
            # Every message got from here on is in the unit of work, and must be added before the loop may end.
            if self._stop.is_set() or unit.age > _LONGEST_UNIT:
                break
            self.unacknowledged = unit.count
            try:
                message = self._queue.get()
            except MqiError as error:
                if error.reason == MQRC_SYNCPOINT_LIMIT_REACHED:
                    self._most = max(1, unit.count - 1)  # reserve one for a message that goes to the backout queue
                    break
                if error.is_broken or error.took_message:
                    self._unit_limit.failed(unit.count)
                    raise
                failure = error
        unit.submit()
        return failure

    def _take(self, unit: UnitOfWork, message: MqMessage) -> bool:
        """Add a message to the unit. Return True when the unit must end with it."""
        if self._in_doubt.recall(message):
            unit.note(message)
            return False
        found, backed_out = received(message, self._name, self._framing.name)
        threshold = self._backout.threshold
        if threshold and backed_out >= threshold:
            if (taken_by := self._backout.set_aside(message)) is not None:
                self._log.warning("message_set_aside", backout_count=backed_out, queue=taken_by)
            else:
                why = f"backed out {backed_out} times (the threshold is {threshold}), and no backout queue accepts it"
                unit.note(message)
                unit.refuse(found, InvalidInputError("backed-out", "", -1, why))
            return True
        unit.note(message)
        try:
            unit.take(unwrap(found))
        except WireError as error:
            unit.refuse(found, InvalidInputError("bad-mq-header", error.row, error.at, error.why))
        return backed_out >= _BACKED_OUT_TWICE

    def _is_durable(self, unit: UnitOfWork) -> bool:
        """Wait for the journal, for a limited time, and only briefly when the gateway stops. Return whether all is
        durable."""
        while not unit.wait(_POLL_SECONDS):
            if self._stop.is_set():
                return unit.wait(_LAST_WAIT_SECONDS)
            if unit.age > _LONGEST_UNIT:
                return False
        return True

    def _back_out_unit(self, unit: UnitOfWork) -> None:
        """Back out, and get no more messages until the journal has the messages that will be delivered again."""
        self._connection.back_out()
        if not self._stop.is_set():
            self._log.warning("unit_backed_out", messages=unit.count, reason="the journal takes too long")
        while not self._stop.is_set():
            if unit.wait(_LAST_WAIT_SECONDS):
                self._in_doubt.remember(unit.journalled)
                return
            self.on_waiting()
