"""Groups and segments: the place of a message that is put.

In physical order the application says it, in MQMD or MQMDE; in logical order (MQPMO_LOGICAL_ORDER) the queue manager
counts. Whatever the order, the handle remembers how far it is, so that an application can go on in the other one.

Sources: IBM MQ, "MQMD" (GroupId, MsgSeqNumber, Offset, MsgFlags, OriginalLength), "Logical and physical ordering", and
the pages of reasons 2185, 2241, 2242, 2245 and 2249 to 2253.
"""

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.handle import Handle, LogicalOrder
from tests.queue_manager.server.manager import QueueManager
from tests.queue_manager.server.structures import MessageDescriptor, is_default, set_default_place

_LARGEST = 999_999_999
KNOWN_FLAGS = mq.MQMF_SEGMENTATION_ALLOWED | mq.MQMF_SEGMENTED | mq.MQMF_GROUPED


def place(
    manager: QueueManager, handle: Handle | None, descriptor: MessageDescriptor, length: int, options: int
) -> int:
    """Gives the descriptor its place in a group or a segmented message; returns the reason of a warning.

    `length` is that of the data. MQPUT1 has no handle. Raises Refused, and then nothing is remembered.
    """
    state = LogicalOrder() if handle is None else handle.puts
    logical = bool(options & mq.MQPMO_LOGICAL_ORDER)
    if is_default(descriptor) and not state.active:
        return mq.MQRC_NONE
    flags = descriptor.msg_flags
    if flags & mq.MQMF_REJECT_UNSUP_MASK & ~KNOWN_FLAGS:
        raise Refused(mq.MQRC_MSG_FLAGS_ERROR)
    inconsistency = state.inconsistency(flags, bool(options & mq.MQPMO_SYNCPOINT), descriptor.persistence)
    if logical:
        if inconsistency:
            raise Refused(inconsistency)
        _go_on(manager, state, descriptor)
    elif not state.logical:
        inconsistency = mq.MQRC_NONE
    if not flags & KNOWN_FLAGS:
        set_default_place(descriptor)
    _check(descriptor, length)
    _complete(manager, descriptor, length)
    in_unit = bool(options & mq.MQPMO_SYNCPOINT)
    said = descriptor.original_length
    state.remember(descriptor, length if said == mq.MQOL_UNDEFINED else said, logical=logical, in_unit=in_unit)
    return inconsistency


def _go_on(manager: QueueManager, state: LogicalOrder, descriptor: MessageDescriptor) -> None:
    """Numbers a message that follows what was put before."""
    descriptor.group_id = state.group_id if state.active else manager.new_id()
    descriptor.msg_seq_number = state.next_sequence
    descriptor.offset = state.next_offset


def _check(descriptor: MessageDescriptor, length: int) -> None:
    """Raises Refused for a place that cannot be."""
    flags = descriptor.msg_flags
    if flags & mq.MQMF_GROUPED and not 1 <= descriptor.msg_seq_number <= _LARGEST:
        raise Refused(mq.MQRC_MSG_SEQ_NUMBER_ERROR)
    if not flags & mq.MQMF_SEGMENTED:
        return
    if not 0 <= descriptor.offset <= _LARGEST - length:
        raise Refused(mq.MQRC_OFFSET_ERROR)
    last = flags & mq.MQMF_LAST_SEGMENT
    if not length and not last:
        raise Refused(mq.MQRC_SEGMENT_LENGTH_ZERO)
    if descriptor.msg_type == mq.MQMT_REPORT and descriptor.original_length < max(length, 0 if last else 1):
        raise Refused(mq.MQRC_ORIGINAL_LENGTH_ERROR)


def _complete(manager: QueueManager, descriptor: MessageDescriptor, length: int) -> None:
    """Fills in what the flags imply."""
    flags = descriptor.msg_flags
    if flags & KNOWN_FLAGS and descriptor.group_id == mq.MQ_NO_ID:
        descriptor.group_id = manager.new_id()
    if flags & mq.MQMF_LAST_MSG_IN_GROUP:
        descriptor.msg_flags |= mq.MQMF_MSG_IN_GROUP
    if not flags & mq.MQMF_GROUPED:
        descriptor.msg_seq_number = 1
    if not flags & mq.MQMF_SEGMENTED:
        descriptor.offset, descriptor.original_length = 0, mq.MQOL_UNDEFINED
        return
    if flags & mq.MQMF_LAST_SEGMENT:
        descriptor.msg_flags |= mq.MQMF_SEGMENT
    if descriptor.msg_type != mq.MQMT_REPORT:
        descriptor.original_length = length
