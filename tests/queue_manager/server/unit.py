"""Units of work: what a connection has put and got and not yet decided on."""

from collections.abc import Iterable

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.log import BackedOut, Got, MessageLog, logged
from tests.queue_manager.server.queue import Message, Queue


class UnitOfWork:
    """One connection's unit of work; the next one begins when it ends.

    Sources: IBM MQ, "MQCMIT", "MQBACK", and "MaxUncommittedMsgs".
    """

    def __init__(self, log: MessageLog, max_uncommitted: int) -> None:
        self._log, self._max_uncommitted = log, max_uncommitted
        self._puts: list[Message] = []
        self._gets: list[Message] = []
        self._backed_out = False

    def __bool__(self) -> bool:
        return bool(self._puts or self._gets)

    def make_room(self, messages: int = 1) -> None:
        """Raises Refused when the unit of work cannot take so many more messages."""
        if self._backed_out:
            raise Refused(mq.MQRC_BACKED_OUT)
        if len(self._puts) + len(self._gets) + messages > self._max_uncommitted:
            raise Refused(mq.MQRC_SYNCPOINT_LIMIT_REACHED)

    def put(self, message: Message) -> None:
        message.queue.uncommitted += 1
        message.queue.uncommitted_puts += 1
        self._puts.append(message)

    def get(self, message: Message) -> None:
        message.queue.remove(message)
        message.queue.uncommitted += 1
        self._gets.append(message)

    def got(self) -> tuple[Message, ...]:
        """The messages that come back when the unit of work is backed out."""
        return tuple(self._gets)

    def commit(self) -> None:
        """Makes puts visible and gets final. Raises Refused when the unit was backed out by the queue manager."""
        if self._backed_out:
            self._backed_out = False
            raise Refused(mq.MQRC_BACKED_OUT)
        puts, gets = self._end()
        store(self._log, puts, gets)
        for message in puts:
            message.queue.add(message)
        serve(message.queue for message in puts)

    def back_out(self) -> None:
        """Forgets puts; the messages got are back in their places, with one more in their BackoutCount."""
        self._backed_out = False
        _, gets = self._end()
        for message in gets:
            message.descriptor.backout_count += 1
        self._log.write(BackedOut(m.number, m.descriptor.backout_count) for m in gets if m.logged)
        for message in gets:
            message.queue.add(message)
        serve(message.queue for message in gets)

    def give_up(self) -> None:
        """The queue manager backs the unit out by itself; the application has still to say that it knows."""
        self.back_out()
        self._backed_out = True

    def _end(self) -> tuple[list[Message], list[Message]]:
        puts, gets = self._puts, self._gets
        self._puts, self._gets = [], []
        for message in (*puts, *gets):
            message.queue.uncommitted -= 1
        for message in puts:
            message.queue.uncommitted_puts -= 1
        return puts, gets


def store(log: MessageLog, puts: Iterable[Message], gets: Iterable[Message]) -> None:
    """Writes messages that came and went, as far as they survive, as one record."""
    log.write([*(Got(got.number) for got in gets if got.logged), *(logged(put) for put in puts if put.logged)])


def serve(queues: Iterable[Queue]) -> None:
    """Wakes those who wait at these queues."""
    for queue in set(queues):
        if queue.waiters:
            queue.serve()
