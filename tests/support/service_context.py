"""Sources of a service's context that receive while time passes."""

import json
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from app.model.message import PhysicalMessage
from app.ports import Intake, Reply
from app.service.retention import receiving_time
from app.service.retention.receiving_time import ReceivingTime
from app.testing.gateway_stages import ManualClock


class Connected:
    """A receiver with a status only."""

    def __init__(self) -> None:
        self.connected, self.since = True, 1

    def resume(self, newest: Iterator[PhysicalMessage]) -> bool:
        """Prove nothing."""
        del newest
        return False

    def session(self, name: str | None = None) -> None:
        """Return None: no broker keeps anything."""
        del name

    def run(self, intake: Intake, stop: Event) -> None:
        """Receive nothing."""

    def status(self) -> dict[str, Any]:
        return {"connected": self.connected, "since": self.since, "error": None}


class Asking(Connected):
    """A receiver that keeps what it should ask at an address."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        self.sent: list[dict[str, Any]] = []

    def reply_address(self, message: PhysicalMessage) -> str | None:
        return message.properties.get("response-topic")

    def reply(self, reply: Reply) -> None:
        """Take a request."""
        assert (reply.address, reply.message.properties["response-topic"]) == (self._address, reply.address)
        self.sent.append(json.loads(reply.body))


def receive_for(times: ReceivingTime, clock: ManualClock, days: float) -> None:
    """Let time pass in which sources can receive; the gateway looks at its clock every hour."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receiving_time, "LONGEST_STEP", 3600.0)
        for _ in range(int(days * 24)):
            clock.advance(3600.0)
            times.step()
