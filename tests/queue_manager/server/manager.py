"""The queue manager: its queues, its log and its state."""

import itertools
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.faults import Faults
from tests.queue_manager.server.log import (
    BackedOut,
    Defined,
    Deleted,
    Entry,
    Got,
    MessageLog,
    ObjectDefined,
    Put,
    logged,
)
from tests.queue_manager.server.objects import KINDS, Channel, Namelist, Object
from tests.queue_manager.server.queue import Attributes, Message, Queue
from tests.queue_manager.server.reporting import report
from tests.queue_manager.server.structures import padded, unpack_descriptor
from tests.queue_manager.server.unit import store

if TYPE_CHECKING:
    from tests.queue_manager.server.connection import Connection

COMMAND_QUEUE = "SYSTEM.ADMIN.COMMAND.QUEUE"
AUTHENTICATION = "SYSTEM.DEFAULT.AUTHINFO.IDPWOS"
"""The authentication information object, of users' passwords."""
STANDARD_QUEUES = {
    "DEV.QUEUE.1": Attributes(),
    "DEV.QUEUE.2": Attributes(),
    "SYSTEM.DEAD.LETTER.QUEUE": Attributes(),
    COMMAND_QUEUE: Attributes(descr="IBM MQ Administration Command Queue"),
    "SYSTEM.DEFAULT.MODEL.QUEUE": Attributes(model=True),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a queue manager is started with."""

    name: str = "QM1"
    ccsid: int = 1208
    channel: str = "DEV.APP.SVRCONN"
    cipher: str = ""
    """The channel's cipher specification; a client must ask for the same. Nothing is really encrypted."""
    dead_letter_queue: str = "SYSTEM.DEAD.LETTER.QUEUE"
    max_uncommitted: int = 10_000
    max_message_length: int = 4_194_304
    channel_max_message_length: int = 104_857_600
    """The longest message, and buffer for one, of a client; it may have agreed on less in its MQCD."""
    max_handles: int = 256
    """Object handles a connection."""
    one_handle_per_thread: bool = False
    """Whether a thread that has an unshared connection gets the same one again (reason 2002) or another one. IBM MQ's
    pages on reasons 2002 and 2103 say the first, "Scope of MQCONN" says the second of clients."""
    users: dict[str, str] = field(default_factory=dict)
    """Passwords by user; anyone may connect when there are none."""
    tokens: dict[str, str] = field(default_factory=dict)
    """Users by JSON web token."""
    certificate_name: str = ""
    """The distinguished name of its certificate; a client that asks for another (SSLPEER) is refused."""
    authorities: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """By user and object, what the user may do, in the words of setmqaut; the queue manager's own name is "". Users who
    are not named may do anything."""
    heartbeat: float = 0.0
    """Seconds until the queue manager notices that a client is gone: its unit of work stays open for so long."""
    sync: bool = False
    """Whether every record of the log is flushed to disk."""


class QueueManager:
    """Everything that connections share."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.queues: dict[str, Queue] = {}
        self.channels: dict[str, Channel] = {}
        self.namelists: dict[str, Namelist] = {}
        self.authorities = deepcopy(settings.authorities)
        """By user and object, what was set by commands, too; until the queue manager ends."""
        self.connections: set[Connection] = set()
        self.faults = Faults()
        self.quiescing = False
        self.log = MessageLog(folder / "log", sync=settings.sync)
        self._recover()
        self._uniques = itertools.count(time_ns())
        self._id_prefix = b"AMQ " + padded(settings.name, 12)

    # --- queues ---------------------------------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        """Raises Refused for an unknown name."""
        try:
            return self.queues[name]
        except KeyError:
            raise Refused(mq.MQRC_UNKNOWN_OBJECT_NAME) from None

    def define(self, name: str, attributes: Attributes) -> Queue:
        """Makes a queue, or gives one that is there new attributes."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name, attributes)
            queue.on_expired = self._expired
        queue.attributes = attributes
        if not queue.temporary:
            self.log.write([Defined(name, asdict(attributes))])
        return queue

    def alter(self, queue: Queue, **changes: Any) -> None:
        """Changes attributes of a queue, for those too who have it open or wait at it or at what it stands for."""
        self.define(queue.name, replace(queue.attributes, **changes))
        self._serve()

    def _serve(self) -> None:
        for queue in self.queues.values():
            queue.serve()

    def delete(self, queue: Queue) -> None:
        """Takes a queue away with all that is on it."""
        self.clear(queue)
        queue.deleted = True
        del self.queues[queue.name]
        if not queue.temporary:
            self.log.write([Deleted(queue.name)])

    def clear(self, queue: Queue) -> None:
        store(self.log, (), queue.clear())

    # --- channels and namelists -----------------------------------------------------------------------------------

    def define_object(self, name: str, made: Object) -> None:
        """Makes a channel or a namelist, or gives one that is there new attributes."""
        self._objects(made)[name] = made
        self.log.write([ObjectDefined(_kind(made), name, asdict(made))])

    def delete_object(self, name: str, made: Object) -> None:
        del self._objects(made)[name]
        self.log.write([ObjectDefined(_kind(made), name, None)])

    def _objects(self, like: Object) -> dict[str, Any]:
        return self.channels if isinstance(like, Channel) else self.namelists

    # --- messages -------------------------------------------------------------------------------------------------

    def unique(self) -> int:
        """A number that this queue manager never gave before, not even before it was restarted."""
        return next(self._uniques)

    def new_id(self) -> bytes:
        """A MsgId or GroupId: 24 bytes."""
        return self._id_prefix + self.unique().to_bytes(8, "big")

    def number(self) -> int:
        return next(self._numbers)

    def _expired(self, message: Message) -> None:
        store(self.log, (), (message,))
        report(self, message, mq.MQRO_EXPIRATION)

    def tidy(self) -> None:
        """Rewrites the log when little of it is still needed."""
        if self.log.worth_rewriting():
            self.log.rewrite(self._state())

    def _kept(self) -> Iterator[Message]:
        """All messages that the log is for: those on queues and those that units of work have got."""
        for queue in self.queues.values():
            yield from (message for message in queue.after() if message.logged)
        for connection in self.connections:
            yield from (message for message in connection.unit.got() if message.logged)

    def _state(self) -> list[Entry]:
        queues = [queue for queue in self.queues.values() if not queue.temporary]
        objects: list[tuple[str, Object]] = [*self.channels.items(), *self.namelists.items()]
        return [
            *(Defined(q.name, asdict(q.attributes)) for q in queues),
            *(ObjectDefined(_kind(made), name, asdict(made)) for name, made in objects),
            *map(logged, self._kept()),
        ]

    def _recover(self) -> None:
        """Does again what the log says."""
        self.queues = {name: Queue(name, attributes) for name, attributes in STANDARD_QUEUES.items()}
        longest, cipher = self.settings.channel_max_message_length, self.settings.cipher
        messages: dict[int, Message] = {}
        last = 0
        for entry in self.log.open():
            match entry:
                case Put(number, queue, descriptor, expires, data):
                    kept = unpack_descriptor(descriptor)
                    messages[number] = Message(kept, bytes(data), self.queues[queue], number, expires, logged=True)
                    last = max(last, number)
                case Got(number):
                    del messages[number]
                case BackedOut(number, count):
                    messages[number].descriptor.backout_count = count
                case Defined(name, attributes):
                    self.queues.setdefault(name, Queue(name, Attributes())).attributes = Attributes(**attributes)
                case Deleted(name):
                    del self.queues[name]
                case ObjectDefined(kind, name, attributes):
                    self._redefine(KINDS[kind](**(attributes or {})), name, there=attributes is not None)
        self.channels[self.settings.channel] = Channel(sslciph=cipher, maxmsgl=longest)
        for each in self.queues.values():
            each.on_expired = self._expired
        for message in messages.values():
            message.queue.add(message)
        self._numbers = itertools.count(last + 1)

    def _redefine(self, made: Object, name: str, *, there: bool) -> None:
        """Does again what the log says of a channel or a namelist."""
        if there:
            self._objects(made)[name] = made
        else:
            self._objects(made).pop(name, None)

    # --- state ----------------------------------------------------------------------------------------------------

    def quiesce(self, on: bool) -> None:
        """Begins, or calls off, an orderly end: calls that say FAIL_IF_QUIESCING fail from now on."""
        self.quiescing = on
        self._serve()

    def stop(self) -> None:
        """Ends in order, but without waiting for anybody: calls that wait are told, and all connections end."""
        for queue in self.queues.values():
            for waiter in list(queue.waiters):
                waiter.fail(mq.MQRC_Q_MGR_STOPPING)
        for connection in list(self.connections):
            connection.end()
        self.log.close()


def _kind(made: Object) -> str:
    return next(kind for kind, type_ in KINDS.items() if isinstance(made, type_))
