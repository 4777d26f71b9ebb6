"""IBM MQ keeps what every transport keeps, by each client library and with each version of the MQMD."""

from dataclasses import dataclass
from typing import Literal

import pytest

from adapters.ibm_mq.receiver import MqReceiver
from adapters.ibm_mq.sender import MqSender
from app.testing.transport_contract import KeepingTransportContract, Line
from tests.adapters.ibm_mq.conftest import Place


@dataclass(frozen=True)
class MqLine(Line):
    place: Place
    version: Literal[1, 2]
    framing = "mq_group"  # it takes segments as they come

    def receiver(self) -> MqReceiver:
        return self.place.receiver(self.framing, mqmd_version=self.version)

    def sender(self) -> MqSender:
        return self.place.sender(mqmd_version=self.version)

    def open_session(self) -> None:
        """A queue keeps its messages for whoever comes."""


class TestIbmMq(KeepingTransportContract):
    @pytest.fixture(params=[1, 2])
    def line(self, place: Place, request: pytest.FixtureRequest) -> MqLine:
        version: Literal[1, 2] = request.param
        return MqLine(place, version)
