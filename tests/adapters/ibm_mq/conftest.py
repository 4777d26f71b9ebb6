"""Queues of a queue manager, by each client library."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from types import ModuleType
from typing import Any

import pytest

from adapters.ibm_mq.receiver import MqReceiver
from adapters.ibm_mq.sender import MqSender
from adapters.ibm_mq.settings import DestinationSettings, SourceSettings
from app.framing.registry import traits
from app.model.message import PhysicalMessage
from tests.support import mq
from tests.support.mqi import Library, load
from tests.support.queue_manager import QueueManager

_numbers = count(1)


@dataclass(frozen=True)
class Place:
    """A queue of its own, for a test, and the library with which everybody gets at it."""

    library: ModuleType
    manager: QueueManager
    queue: str

    def receiver(self, framing: str = "sas_queue", **more: Any) -> MqReceiver:
        settings = SourceSettings.model_validate(self.settings(wait=0.1, **more))
        return MqReceiver(self.library, "here", traits(framing), settings)

    def sender(self, **more: Any) -> MqSender:
        return MqSender(self.library, "there", DestinationSettings.model_validate(self.settings(**more)))

    def put(self, *messages: PhysicalMessage, **more: Any) -> None:
        mq.put(self.library, self.manager, self.queue, messages, **more)

    def taken(self, queue: str | None = None) -> list[tuple[Any, bytes]]:
        return mq.taken(self.library, self.manager, queue or self.queue)

    def back_out(self, times: int) -> None:
        mq.back_out(self.library, self.manager, self.queue, times)

    def depth(self) -> int:
        return self.manager.depth(self.queue)

    def settings(self, **more: Any) -> dict[str, Any]:
        return {
            "queue_manager": self.manager.name,
            "channel": self.manager.channel,
            "connection": self.manager.connection_name,
            "queue": self.queue,
            **more,
        }


@pytest.fixture(scope="session", params=["pymqi", "ibmmq"])
def library(request: pytest.FixtureRequest) -> ModuleType:
    name: Library = request.param
    return load(name)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Receivers connect again after a tenth of the usual pauses."""
    monkeypatch.setattr("adapters.connections.FIRST_PAUSE", 0.01)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueManager]:
    """A queue manager for all of a module's tests, which leave it as they found it."""
    with QueueManager(tmp_path_factory.mktemp("queue-manager")) as running:
        yield running


@pytest.fixture
def place(library: ModuleType, lasting: QueueManager) -> Place:
    name = f"QUEUE.{next(_numbers)}"
    lasting.define(name)
    return Place(library, lasting, name)


@pytest.fixture
def troubled(library: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place with a queue manager of its own, to be treated badly."""
    with QueueManager(tmp_path_factory.mktemp("queue-manager")) as running:
        running.define("TROUBLED")
        yield Place(library, running, "TROUBLED")
