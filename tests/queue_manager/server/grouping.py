"""Groups and segments: what a put says of a message's place in them.

Sources: IBM MQ, "MQMD" (GroupId, MsgSeqNumber, Offset, MsgFlags, OriginalLength) and "Physical order on a queue".
"""

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.handle import Handle
from tests.queue_manager.server.manager import QueueManager
from tests.queue_manager.server.structures import MessageDescriptor


def place(
    manager: QueueManager, handle: Handle | None, descriptor: MessageDescriptor, length: int, options: int
) -> int:
    return mq.MQRC_NONE
