"""MQTT keeps the transports' contract against a real Mosquitto: both versions, both QoS."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from adapters import mqtt
from adapters.mqtt import emptying
from app.framing.registry import traits
from app.ports import Receiver, Sender
from app.testing.transport_contract import LIMIT, KeepingTransportContract, Line
from tests.support.mosquitto import Mosquitto

pytestmark = pytest.mark.broker


class MqttLine(Line):
    def __init__(self, broker: Mosquitto, version: str, qos: int) -> None:
        self.broker = broker
        self._common = {"url": f"mqtt://127.0.0.1:{broker.port}", "version": version, "qos": qos}
        self.name = uuid4().hex

    def receiver(self, **more: object) -> Receiver:
        settings = {**self._common, "topic": self.name, "client_id": self.name, **more}
        return mqtt.plugin.receiver("here", traits(self.framing), mqtt.plugin.source_settings.model_validate(settings))

    def sender(self, **more: object) -> Sender:
        settings = {**self._common, "topic": self.name, "max_packet_size": LIMIT, **more}
        return mqtt.plugin.sender("there", mqtt.plugin.destination_settings.model_validate(settings))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as running:
        yield running


class TestMqtt(KeepingTransportContract):
    @pytest.fixture(autouse=True)
    def soon_quiet(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(emptying, "QUIET_SECONDS", 0.2)

    @pytest.fixture(params=[("5", 1), ("5", 2), ("3.1.1", 1), ("3.1.1", 2)], ids=lambda way: f"{way[0]}-qos{way[1]}")
    def line(self, broker: Mosquitto, request: pytest.FixtureRequest) -> Line:
        return MqttLine(broker, *request.param)
