"""A message channel agent: takes what is on a transmission queue to the queues that it is for.

The channel leads back to this queue manager, which stands for the other one: the names of queues are looked up here.
Sources: IBM MQ, "MQMD", Report (MQRO_EXCEPTION, MQRO_DISCARD_MSG), "Undelivered messages", "What happens when a message
cannot be delivered?" and "MQDLH". Messages are not tried again (MsgRetryCount). A message that cannot be put on the
dead-letter queue either stops the channel: it stays on the transmission queue with those behind it.
"""

from typing import TYPE_CHECKING

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.context import now
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.extension import fold
from tests.queue_manager.server.headers import description_of
from tests.queue_manager.server.queue import Message, Queue
from tests.queue_manager.server.reporting import report
from tests.queue_manager.server.structures import (
    MQMD_LENGTH_1,
    DeadLetterHeader,
    MessageDescriptor,
    TransmissionHeader,
    padded,
    trimmed,
    unpack_descriptor,
)
from tests.queue_manager.server.unit import store

if TYPE_CHECKING:
    from tests.queue_manager.server.manager import QueueManager


def run_channel(manager: "QueueManager", transmission_queue: Queue) -> int:
    """Delivers what is on a transmission queue; returns how many messages left it."""
    moved = 0
    for message in list(transmission_queue.after()):
        if not _deliver(manager, message):
            break
        moved += 1
    return moved


def _deliver(manager: "QueueManager", message: Message) -> bool:
    """Takes a message to its queue, or else to the dead-letter queue; whether it left the transmission queue."""
    header = TransmissionHeader.unpack(message.data)
    rest = message.data[TransmissionHeader.SIZE :]
    descriptor, data = unpack_descriptor(rest[:MQMD_LENGTH_1]), rest[MQMD_LENGTH_1:]
    descriptor.version = 1
    if descriptor.format == mq.MQFMT_MD_EXTENSION:
        data = fold(descriptor, data, manager.settings.ccsid)
    descriptor.version = 2
    made = _arrived(manager, message, manager.queues.get(trimmed(header.remote_q_name)), descriptor, data)
    try:
        _check(made)
    except Refused as refused:
        return _undelivered(manager, message, made, header, refused.reason)
    _move(manager, message, made)
    report(manager, made, mq.MQRO_COA)
    return True


def _arrived(
    manager: "QueueManager", message: Message, queue: Queue | None, descriptor: MessageDescriptor, data: bytes
) -> Message:
    """The message as it is put on a queue; one whose queue there is not keeps the transmission queue."""
    logged = descriptor.persistence == mq.MQPER_PERSISTENT
    return Message(descriptor, data, queue or message.queue, manager.number(), message.expires, logged)


def _check(made: Message) -> None:
    """Raises Refused where the message cannot be put on its queue."""
    queue = made.queue
    if queue.attributes.usage == "XMITQ" or queue.attributes.type != mq.MQQT_LOCAL:
        raise Refused(mq.MQRC_UNKNOWN_OBJECT_NAME)
    if not queue.attributes.put_enabled:
        raise Refused(mq.MQRC_PUT_INHIBITED)
    if len(made.data) > queue.attributes.maxmsgl:
        raise Refused(mq.MQRC_MSG_TOO_BIG_FOR_Q)
    if queue.depth >= queue.attributes.maxdepth:
        raise Refused(mq.MQRC_Q_FULL)


def _undelivered(
    manager: "QueueManager", message: Message, made: Message, header: TransmissionHeader, reason: int
) -> bool:
    """Reports the exception where that is asked for, and discards the message or puts it on the dead-letter queue."""
    if made.descriptor.report & mq.MQRO_DISCARD_MSG:
        report(manager, made, mq.MQRO_EXCEPTION, feedback=reason)
        _move(manager, message, None)
        return True
    dead_letters = manager.queues.get(manager.settings.dead_letter_queue)
    if dead_letters is None:
        return False
    dead = _dead_letter(manager, made, dead_letters, header, reason)
    try:
        _check(dead)
    except Refused:
        return False
    report(manager, made, mq.MQRO_EXCEPTION, feedback=reason)
    _move(manager, message, dead)
    return True


def _dead_letter(manager: "QueueManager", made: Message, to: Queue, header: TransmissionHeader, reason: int) -> Message:
    descriptor = made.descriptor.copy()
    descriptor.format = mq.MQFMT_DEAD_LETTER_HEADER
    descriptor.encoding, descriptor.coded_char_set_id = mq.MQENC_NATIVE, manager.settings.ccsid
    program = padded("amqrmppa", 28)
    names = (header.remote_q_name, padded(trimmed(header.remote_q_mgr_name) or manager.settings.name, 48))
    encoding, ccsid, name = description_of(made.descriptor)
    dead = DeadLetterHeader(b"DLH ", 1, reason, *names, encoding, ccsid, name, mq.MQAT_UNIX, program, *now())
    return Message(descriptor, dead.packed() + made.data, to, manager.number(), made.expires, made.logged)


def _move(manager: "QueueManager", message: Message, to: Message | None) -> None:
    """Takes the message off its queue and puts the other one, if there is one, on its own, as one unit of work."""
    message.queue.remove(message)
    came = () if to is None else (to,)
    store(manager.log, came, (message,))
    for each in came:
        each.queue.add(each)
        each.queue.serve()
