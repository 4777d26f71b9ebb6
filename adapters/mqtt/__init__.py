"""MQTT 5 and 3.1.1 by paho-mqtt, with QoS 0 to 2. Messages are acknowledged when they are durable."""

from pydantic import BaseModel

from adapters.mqtt.receiver import MqttReceiver
from adapters.mqtt.sender import MqttSender
from adapters.mqtt.settings import DestinationSettings, SourceSettings
from app.model.framing_facts import FramingTraits
from app.ports import Receiver, Sender


class MqttPlugin:
    """`app.ports.TransportPlugin`."""

    source_settings: type[BaseModel] = SourceSettings
    destination_settings: type[BaseModel] = DestinationSettings

    def receiver(self, name: str, framing: FramingTraits, settings: BaseModel) -> Receiver:
        return MqttReceiver(name, framing, SourceSettings.model_validate(settings))

    def sender(self, name: str, settings: BaseModel) -> Sender:
        return MqttSender(name, DestinationSettings.model_validate(settings))


plugin = MqttPlugin()
