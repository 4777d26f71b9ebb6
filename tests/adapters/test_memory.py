"""The in-process broker keeps the transports' contract."""

from uuid import uuid4

import pytest

from adapters import memory
from app.framing.registry import traits
from app.ports import Receiver, Sender
from app.testing.transport_contract import LIMIT, KeepingTransportContract, Line


class MemoryLine(Line):
    def __init__(self) -> None:
        self._queue = uuid4().hex

    def receiver(self) -> Receiver:
        settings = memory.plugin.source_settings.model_validate({"queue": self._queue})
        return memory.plugin.receiver("here", traits(self.framing), settings)

    def sender(self) -> Sender:
        settings = memory.plugin.destination_settings.model_validate({"queue": self._queue, "max_body": LIMIT})
        return memory.plugin.sender("there", settings)


class TestMemory(KeepingTransportContract):
    @pytest.fixture
    def line(self) -> Line:
        return MemoryLine()
