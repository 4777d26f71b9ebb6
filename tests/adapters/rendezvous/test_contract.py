"""TIB/Rendezvous keeps the transports' contract, as far as a transport can that acknowledges nothing.

With RENDEZVOUS_DAEMON=host:port the tests run against a real daemon."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from adapters import rendezvous
from app.framing.registry import traits
from app.ports import Receiver, Sender
from app.testing.transport_contract import LIMIT, Line, TransportContract
from tests.support.rendezvous_daemon import RendezvousDaemon, real_daemon


class RendezvousLine(Line):
    def __init__(self, host: str, port: int) -> None:
        self._daemon = {"daemon": f"tcp:{host}:{port}"}
        self.subject = f"TEST.{uuid4().hex}"
        self.senders: list[Sender] = []

    def receiver(self, **more: object) -> Receiver:
        settings = {**self._daemon, "subject": self.subject, **more}
        return rendezvous.plugin.receiver(
            "here", traits(self.framing), rendezvous.plugin.source_settings.model_validate(settings)
        )

    def sender(self, **more: object) -> Sender:
        settings = {**self._daemon, "subject": self.subject, "max_message": LIMIT, **more}
        sender = rendezvous.plugin.sender("there", rendezvous.plugin.destination_settings.model_validate(settings))
        self.senders.append(sender)
        return sender


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    if (real := real_daemon()) is not None:
        yield real
        return
    with RendezvousDaemon() as daemon:
        yield "127.0.0.1", daemon.port


class TestRendezvous(TransportContract):
    @pytest.fixture
    def line(self, address: tuple[str, int]) -> Iterator[Line]:
        line = RendezvousLine(*address)
        yield line
        for sender in line.senders:
            sender.close()
