"""Object handles: what a connection has open."""

from dataclasses import dataclass, field

from tests.queue_manager.server.constants import MQ_NO_ID, MQOO_INPUT, MQOO_OUTPUT
from tests.queue_manager.server.queue import Message, Queue
from tests.queue_manager.server.structures import MessageDescriptor


@dataclass(frozen=True, slots=True)
class Destination:
    """Where an opened name leads: a queue here, and for a queue elsewhere its name there."""

    queue: Queue
    remote_queue: str | None = None
    remote_manager: str = ""

    @property
    def remote(self) -> bool:
        return self.remote_queue is not None


@dataclass(slots=True)
class LogicalOrder:
    """How far a handle is within the group and the segmented message that it puts or gets in logical order."""

    group_id: bytes = MQ_NO_ID
    sequence: int = 0
    """The number of the last message of the group, 0 outside of groups."""
    offset: int = 0
    """Where the next segment begins, 0 outside of segmented messages."""
    in_group: bool = False
    in_message: bool = False
    in_unit: bool = False
    """Whether it began in a unit of work."""
    persistence: int = 0

    @property
    def active(self) -> bool:
        return self.in_group or self.in_message


@dataclass(slots=True, eq=False)
class Handle:
    """An opened object. The queue manager itself has no destination."""

    destination: Destination | None
    options: int
    opened: Queue | None = None
    """The queue whose definition was named: for an alias queue the alias."""
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

    def unlock(self) -> None:
        if self.locked is not None:
            self.locked.locked_by = None
            self.locked = None

    def count(self, by: int) -> None:
        """Tells the queue that it was opened (1) or closed (-1) in this way."""
        if self.destination is None:
            return
        queue = self.destination.queue
        if self.options & MQOO_INPUT:
            queue.inputs += by
        if self.options & MQOO_OUTPUT:
            queue.outputs += by
        if not self.options & (MQOO_INPUT | MQOO_OUTPUT):
            queue.others += by
