"""A broker inside the process, for tests and demonstrations: named queues that deliver unacknowledged messages again.

Queues live as long as the process. Everything in it that names the same broker shares them.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from threading import Condition
from threading import Event as StopSignal
from time import time_ns
from typing import Any

from pydantic import BaseModel, ByteSize, ConfigDict, Field

from app.model.framing_facts import FramingTraits
from app.model.message import PhysicalMessage
from app.ports import DeliveryProgress, Intake, Receiver, Sender, SendFailed

_BATCH = 128
_IDLE = 0.1


class QueueSettings(BaseModel):
    """A queue of an in-process broker."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    queue: str = Field(min_length=1)
    broker: str = "default"


class MemoryDestinationSettings(QueueSettings):
    """A queue to send to, and the largest body that it accepts."""

    max_body: ByteSize = ByteSize(256 << 20)


class Queue:
    """Messages in order. Messages that are taken can be given back. The lock of `_changed` guards `_ready`."""

    def __init__(self) -> None:
        self._ready: deque[PhysicalMessage] = deque()
        self._changed = Condition()

    def put(self, messages: Sequence[PhysicalMessage]) -> None:
        with self._changed:
            self._ready.extend(messages)
            self._changed.notify_all()

    def take(self, most: int, timeout: float) -> list[PhysicalMessage]:
        """Take up to `most` messages; wait up to `timeout` seconds for the first."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready, timeout)
            taken = list(islice(self._ready, most))
            for _ in taken:
                self._ready.popleft()
            return taken

    def give_back(self, messages: Sequence[PhysicalMessage]) -> None:
        """Put messages in front of all others, in their order."""
        with self._changed:
            self._ready.extendleft(reversed(messages))
            self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._ready)


_queues: dict[tuple[str, str], Queue] = {}


def queue(name: str, broker: str = "default") -> Queue:
    """Return the queue of this name; create it at the first call."""
    return _queues.setdefault((broker, name), Queue())


class MemoryReceiver:
    """`app.ports.Receiver` for a queue of this process."""

    def __init__(self, name: str, framing: str, settings: QueueSettings) -> None:
        self._name, self._framing = name, framing
        self._queue = queue(settings.queue, settings.broker)
        self._since: int | None = None

    def resume(self, newest: Iterator[PhysicalMessage]) -> bool:
        """Return False: messages that were not acknowledged are delivered again, and nothing distinguishes them."""
        del newest
        return False

    def session(self, name: str | None = None) -> None:
        """Return None: the queue keeps the messages, for whoever takes them."""
        del name

    def run(self, intake: Intake, stop: StopSignal) -> None:
        unacknowledged: dict[int, list[PhysicalMessage]] = {}
        self._since = time_ns() // 1000
        number = 0
        while not stop.is_set():
            if taken := self._queue.take(_BATCH, _IDLE):
                number += 1
                unacknowledged[number] = taken
                now = time_ns() // 1000
                mine = [
                    message._replace(source=self._name, framing=self._framing, received_at=now) for message in taken
                ]
                intake.submit(mine, partial(self._acknowledge, unacknowledged, number))
        self._since = None
        given_back = [message for batch in list(unacknowledged.values()) for message in batch]
        unacknowledged.clear()
        self._queue.give_back(given_back)

    @staticmethod
    def _acknowledge(unacknowledged: dict[int, list[PhysicalMessage]], number: int) -> None:
        unacknowledged.pop(number, None)

    def status(self) -> dict[str, Any]:
        return {"connected": self._since is not None, "since": self._since, "error": None}


class MemorySender:
    """`app.ports.Sender` for a queue of this process."""

    def __init__(self, settings: MemoryDestinationSettings) -> None:
        self._queue = queue(settings.queue, settings.broker)
        self._max_body = settings.max_body
        self._since = time_ns() // 1000

    def max_body(self, wanted: int | None = None) -> int:
        del wanted
        return self._max_body

    def max_batch(self) -> int:
        return _BATCH

    def resume(self, delivery: str, known: int | None) -> int:
        del delivery
        return known or 0

    def forget(self, delivery: str) -> None:
        pass

    def tidy(self, may_continue: Callable[[str], bool]) -> None:
        pass

    def repeats(self) -> str | None:
        return None

    def send(self, messages: Sequence[PhysicalMessage], progress: DeliveryProgress | None = None) -> None:
        del progress
        for message in messages:
            if len(message.body) > self._max_body:
                why = f"the body has {len(message.body):,} bytes; the destination takes at most {self._max_body:,}"
                raise SendFailed(why, permanent=True)
        self._queue.put([message._replace(body=bytes(message.body)) for message in messages])

    def close(self) -> None:
        pass

    def status(self) -> dict[str, Any]:
        return {"connected": True, "since": self._since, "error": None}


class MemoryPlugin:
    """`app.ports.TransportPlugin`."""

    source_settings: type[BaseModel] = QueueSettings
    destination_settings: type[BaseModel] = MemoryDestinationSettings

    def receiver(self, name: str, framing: FramingTraits, settings: BaseModel) -> Receiver:
        return MemoryReceiver(name, framing.name, QueueSettings.model_validate(settings))

    def sender(self, name: str, settings: BaseModel) -> Sender:
        del name
        return MemorySender(MemoryDestinationSettings.model_validate(settings))


plugin = MemoryPlugin()
