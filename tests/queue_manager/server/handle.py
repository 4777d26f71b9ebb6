"""Object handles: what a connection has open."""

from dataclasses import dataclass, field

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.queue import Message, Queue
from tests.queue_manager.server.structures import MessageDescriptor


@dataclass(frozen=True, slots=True)
class Destination:
    """Where an opened name leads: a queue here, and for a queue elsewhere its name there."""

    queue: Queue
    named: Queue
    """The queue whose definition was named, an alias queue for one. Where a queue of another queue manager was named,
    the transmission queue."""
    remote_queue: str | None = None
    remote_manager: str = ""

    @property
    def remote(self) -> bool:
        return self.remote_queue is not None


@dataclass(slots=True)
class LogicalOrder:
    """How far a handle is within the group and the segmented message that it puts, gets or browses."""

    group_id: bytes = mq.MQ_NO_ID
    sequence: int = 0
    """The number of the last message."""
    offset: int = 0
    """Where the next segment begins."""
    in_group: bool = False
    """Whether more of the group is to come."""
    in_message: bool = False
    """Whether more segments are to come."""
    last_in_group: bool = False
    """Whether those are segments of the group's last message."""
    logical: bool = False
    """Whether the last call was in logical order."""
    in_unit: bool = False
    persistence: int = 0

    @property
    def active(self) -> bool:
        return self.in_group or self.in_message

    @property
    def next_sequence(self) -> int:
        if self.in_message:
            return self.sequence
        return self.sequence + 1 if self.in_group else 1

    @property
    def next_offset(self) -> int:
        return self.offset if self.in_message else 0

    @property
    def incomplete(self) -> int:
        """The reason that says what is not complete, if anything."""
        if self.in_message:
            return mq.MQRC_INCOMPLETE_MSG
        return mq.MQRC_INCOMPLETE_GROUP if self.in_group else mq.MQRC_NONE

    @property
    def incomplete_in_logical_order(self) -> int:
        return self.incomplete if self.logical else mq.MQRC_NONE

    def inconsistency(self, flags: int, in_unit: bool, persistence: int) -> int:
        """The reason why a message with these flags cannot be put next, if there is one."""
        if self.in_message and (
            not flags & mq.MQMF_SEGMENTED or bool(flags & mq.MQMF_LAST_MSG_IN_GROUP) != self.last_in_group
        ):
            return mq.MQRC_INCOMPLETE_MSG
        if self.in_group and not flags & mq.MQMF_GROUPED:
            return mq.MQRC_INCOMPLETE_GROUP
        if self.active and in_unit != self.in_unit:
            return mq.MQRC_INCONSISTENT_UOW
        if self.active and persistence != self.persistence:
            return mq.MQRC_INCONSISTENT_PERSISTENCE
        return mq.MQRC_NONE

    def remember(self, descriptor: MessageDescriptor, length: int, *, logical: bool, in_unit: bool) -> None:
        """Moves on behind a message; `length` is that of its segment."""
        flags = descriptor.msg_flags
        self.group_id, self.sequence = descriptor.group_id, descriptor.msg_seq_number
        self.offset = descriptor.offset + length
        self.in_message = bool(flags & mq.MQMF_SEGMENTED) and not flags & mq.MQMF_LAST_SEGMENT
        self.last_in_group = bool(flags & mq.MQMF_LAST_MSG_IN_GROUP)
        self.in_group = bool(flags & mq.MQMF_GROUPED) and (self.in_message or not self.last_in_group)
        self.logical, self.in_unit, self.persistence = logical, in_unit, descriptor.persistence


@dataclass(slots=True, eq=False)
class Handle:
    """An opened object. The queue manager itself has no destination."""

    destination: Destination | None
    options: int
    creator: bool = False
    """Whether opening it made a temporary dynamic queue."""
    cursor: int | None = None
    """The key of the message last browsed."""
    locked: Message | None = None
    context: MessageDescriptor | None = None
    """The context of the last message got with MQOO_SAVE_ALL_CONTEXT."""
    puts: LogicalOrder = field(default_factory=LogicalOrder)
    gets: LogicalOrder = field(default_factory=LogicalOrder)
    browses: LogicalOrder = field(default_factory=LogicalOrder)
    start: int | None = None
    """The key of the message that began the group last browsed in logical order: what follows is found from there."""

    def unlock(self) -> None:
        if self.locked is not None:
            self.locked.locked_by = None
            self.locked = None

    def count(self, by: int) -> None:
        """Tells the queue that it was opened (1) or closed (-1) in this way."""
        if self.destination is None:
            return
        queue = self.destination.queue
        if self.options & mq.MQOO_INPUT:
            queue.inputs += by
        if self.options & mq.MQOO_OUTPUT:
            queue.outputs += by
        if not self.options & (mq.MQOO_INPUT | mq.MQOO_OUTPUT):
            queue.others += by
