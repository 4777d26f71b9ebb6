"""IBM MQ as a transport. Importing this module needs a client library; the rest of the package does not."""

from pydantic import BaseModel

from adapters.ibm_mq.client import Library, find_library
from adapters.ibm_mq.receiver import MqReceiver
from adapters.ibm_mq.sender import MqSender
from adapters.ibm_mq.settings import DestinationSettings, SourceSettings
from app.ports import Receiver, Sender


class MqPlugin:
    """`app.ports.TransportPlugin`, by the client library that is installed."""

    source_settings: type[BaseModel] = SourceSettings
    destination_settings: type[BaseModel] = DestinationSettings

    def __init__(self, library: Library) -> None:
        self._library = library

    def receiver(self, name: str, framing: str, settings: BaseModel) -> Receiver:
        return MqReceiver(self._library, name, framing, SourceSettings.model_validate(settings))

    def sender(self, name: str, settings: BaseModel) -> Sender:
        return MqSender(self._library, name, DestinationSettings.model_validate(settings))


plugin = MqPlugin(find_library())
