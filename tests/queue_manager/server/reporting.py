"""Report messages, and which report options are taken.

Sources: IBM MQ, "MQMD", Report and Feedback; "Structure of the report field"; reasons 2027, 2061 and 2104. That a
report whose reply queue is not there is dropped, is believed.
"""

from typing import TYPE_CHECKING

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.context import now
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.queue import Message
from tests.queue_manager.server.structures import MessageDescriptor, padded, trimmed
from tests.queue_manager.server.unit import UnitOfWork, store

if TYPE_CHECKING:
    from tests.queue_manager.server.manager import QueueManager

_FEEDBACK = {
    mq.MQRO_COA: mq.MQFB_COA,
    mq.MQRO_COD: mq.MQFB_COD,
    mq.MQRO_EXPIRATION: mq.MQFB_EXPIRATION,
}
_SOME_DATA = 100


def check_report_options(descriptor: MessageDescriptor, *, remote: bool) -> int:
    """Raises Refused for options that are refused when they are unknown; returns the reason of a warning."""
    report = descriptor.report & 0xFFFFFFFF
    if report & _asking() and not descriptor.reply_to_q.strip(b" \0"):
        raise Refused(mq.MQRC_MISSING_REPLY_TO_Q)
    unknown = report & ~mq.MQRO_KNOWN
    if unknown & mq.MQRO_REJECT_UNSUP_MASK or (unknown & mq.MQRO_ACCEPT_UNSUP_IF_XMIT_MASK and not remote):
        raise Refused(mq.MQRC_REPORT_OPTIONS_ERROR)
    return mq.MQRC_UNKNOWN_REPORT_OPTION if unknown else mq.MQRC_NONE


def _asking() -> int:
    return mq.MQRO_COA | mq.MQRO_COD | mq.MQRO_EXPIRATION | mq.MQRO_EXCEPTION


def report(
    manager: "QueueManager", message: Message, option: int, unit: UnitOfWork | None = None, *, feedback: int = 0
) -> None:
    """Makes the report that the message asks for by this option, in a unit of work if there is one.

    The feedback of an exception is its reason.
    """
    original = message.descriptor
    if not original.report & option:
        return
    queue = manager.queues.get(trimmed(original.reply_to_q))
    if queue is None or trimmed(original.reply_to_q_mgr) not in ("", manager.settings.name):
        return
    descriptor = original.copy()
    descriptor.msg_type, descriptor.feedback, descriptor.report = mq.MQMT_REPORT, feedback or _FEEDBACK[option], 0
    descriptor.expiry = mq.MQEI_UNLIMITED
    descriptor.msg_id = original.msg_id if original.report & mq.MQRO_PASS_MSG_ID else manager.new_id()
    if not original.report & mq.MQRO_PASS_CORREL_ID:
        descriptor.correl_id = original.msg_id
    descriptor.reply_to_q = descriptor.reply_to_q_mgr = b" " * 48
    descriptor.backout_count = 0
    descriptor.put_appl_type, descriptor.put_appl_name = mq.MQAT_QMGR, padded(manager.settings.name, 28)
    descriptor.put_date, descriptor.put_time = now()
    data = _data(message, option)
    made = Message(descriptor, data, queue, manager.number(), None, descriptor.persistence == mq.MQPER_PERSISTENT)
    if unit is not None:
        unit.make_room()
        unit.put(made)
        return
    store(manager.log, (made,), ())
    queue.add(made)
    queue.serve()


def _data(message: Message, option: int) -> bytes:
    """None, the first 100 bytes or all of the data: an option, twice it and four times it stand for these."""
    wanted = message.descriptor.report
    if wanted & option * 4:
        return message.data
    return message.data[:_SOME_DATA] if wanted & option * 2 else b""
