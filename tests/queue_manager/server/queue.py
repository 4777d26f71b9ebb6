"""Queues: what is on them, in which order, and who has them open or waits at them."""

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import time
from typing import Literal, Protocol

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.structures import MessageDescriptor


@dataclass(slots=True)
class Attributes:
    """A queue's attributes, named as the commands name them where they have a word for it."""

    maxdepth: int = 5000
    maxmsgl: int = 4_194_304
    bothresh: int = 0
    boqname: str = ""
    get_enabled: bool = True
    put_enabled: bool = True
    defpsist: bool = False
    defprty: int = 0
    share: bool = True
    """Whether more than one handle may have it open for input."""
    defsopt: Literal["SHARED", "EXCL"] = "SHARED"
    hardenbo: bool = True
    usage: Literal["NORMAL", "XMITQ"] = "NORMAL"
    propctl: Literal["COMPAT", "NONE", "ALL", "FORCE", "V6COMPAT"] = "COMPAT"
    """What becomes of message properties where an MQGET does not say it."""
    descr: str = ""
    target: str | None = None
    """An alias queue's target."""
    model: bool = False
    deftype: Literal["PREDEFINED", "TEMPDYN", "PERMDYN"] = "PREDEFINED"
    """How the queue came to be, or what opening a model queue makes: a temporary one unless it says PERMDYN."""
    rname: str | None = None
    rqmname: str | None = None
    xmitq: str = ""
    """A remote queue's name over there, its queue manager and the transmission queue on the way."""
    created: float = field(default_factory=time)

    @property
    def type(self) -> int:
        if self.target is not None:
            return mq.MQQT_ALIAS
        if self.rname is not None or self.rqmname is not None:
            return mq.MQQT_REMOTE
        return mq.MQQT_MODEL if self.model else mq.MQQT_LOCAL


@dataclass(slots=True, eq=False)
class Message:
    """A message as it is kept. Its descriptor has version-2 fields, whatever version it was put with."""

    descriptor: MessageDescriptor
    data: bytes
    queue: "Queue"
    number: int
    """Its place in the order of arrival at the queue manager."""
    expires: float | None = None
    """Seconds since 1970; after that it is no more."""
    logged: bool = False
    locked_by: object | None = None
    """The handle that browsed it with a lock."""

    key: int = field(init=False)
    """Its place on the queue: by priority, then by arrival."""

    def __post_init__(self) -> None:
        self.key = (mq.MQPRI_MAXIMUM - min(self.descriptor.priority, mq.MQPRI_MAXIMUM)) << 56 | self.number

    @property
    def token(self) -> bytes:
        return self.number.to_bytes(16, "little")


class Waiter(Protocol):
    """An MQGET that waits."""

    specific: bool
    """Whether it names the message it wants by MsgId or CorrelId: such ones are served before the others."""

    def retry(self) -> None: ...

    def fail(self, reason: int) -> None: ...


class Queue:
    """A queue and its committed messages.

    Messages of units of work that have not ended are not on it, only counted.
    """

    def __init__(self, name: str, attributes: Attributes) -> None:
        self.name, self.attributes = name, attributes
        self.deleted = False
        self.uncommitted = self.uncommitted_puts = 0
        """Messages of units of work that have not ended: all, and those put."""
        self.inputs = self.outputs = self.others = 0
        self.exclusive = False
        self.waiters: list[Waiter] = []
        self.on_expired: Callable[[Message], None] = lambda message: None
        """Is told of a message that is met after its time."""
        self.members: defaultdict[bytes, dict[int, Message]] = defaultdict(dict)
        """The messages of groups and segmented messages, by GroupId."""
        self._keys: list[int] = []
        self._messages: dict[int, Message] = {}

    @property
    def temporary(self) -> bool:
        return self.attributes.deftype == "TEMPDYN" and not self.attributes.model

    @property
    def dynamic(self) -> bool:
        return self.attributes.deftype != "PREDEFINED" and not self.attributes.model

    @property
    def depth(self) -> int:
        """CurrentQDepth: messages put in units of work that have not ended count, messages got in such do not."""
        return len(self._messages) + self.uncommitted_puts

    @property
    def held(self) -> int:
        """All messages that are on the queue, or come back to it when units of work are backed out."""
        return len(self._messages) + self.uncommitted

    @property
    def handles(self) -> int:
        return self.inputs + self.outputs + self.others

    def add(self, message: Message) -> None:
        """Puts a message in its place, which for one that was backed out is where it was."""
        key = message.key
        insort(self._keys, key)
        self._messages[key] = message
        if message.descriptor.group_id != mq.MQ_NO_ID:
            self.members[message.descriptor.group_id][key] = message

    def remove(self, message: Message) -> None:
        key = message.key
        place = bisect_right(self._keys, key) - 1
        del self._keys[place]
        del self._messages[key]
        group_id = message.descriptor.group_id
        if group_id != mq.MQ_NO_ID:
            group = self.members[group_id]
            del group[key]
            if not group:
                del self.members[group_id]

    def __contains__(self, message: Message) -> bool:
        return self._messages.get(message.key) is message

    def after(self, key: int | None = None) -> Iterator[Message]:
        """The messages after a place on the queue, from the first on by default. Expired ones go as they are met."""
        place = 0 if key is None else bisect_right(self._keys, key)
        while place < len(self._keys):
            message = self._messages[self._keys[place]]
            if message.expires is not None and message.expires <= time():
                self.remove(message)
                self.on_expired(message)
                continue
            yield message
            place += 1

    def clear(self) -> list[Message]:
        """Takes off all messages and returns them."""
        messages = list(self._messages.values())
        self._keys.clear()
        self._messages.clear()
        self.members.clear()
        return messages

    def serve(self) -> None:
        """Lets the waiting calls look again."""
        for waiter in sorted(self.waiters, key=lambda waiter: not waiter.specific):
            if waiter in self.waiters:
                waiter.retry()
