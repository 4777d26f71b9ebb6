"""IBM MQ as a transport. Importing this module needs a client library; the rest of the package does not."""

from pydantic import BaseModel

from adapters.ibm_mq.client import Library, find_library
from adapters.ibm_mq.connect_options import unknown_to
from adapters.ibm_mq.receiver import MqReceiver
from adapters.ibm_mq.sender import MqSender
from adapters.ibm_mq.settings import ConnectionSettings, DestinationSettings, SourceSettings
from app.model.framing_facts import FramingTraits
from app.plugins import PluginError
from app.ports import Receiver, Sender


class MqPlugin:
    """`app.ports.TransportPlugin`, by the installed client library."""

    source_settings: type[BaseModel] = SourceSettings
    destination_settings: type[BaseModel] = DestinationSettings

    def __init__(self, library: Library) -> None:
        self._library = library

    def receiver(self, name: str, framing: FramingTraits, settings: BaseModel) -> Receiver:
        chosen = SourceSettings.model_validate(settings)
        for place in chosen.places():
            self._check(name, place)
        return MqReceiver(self._library, name, framing, chosen)

    def sender(self, name: str, settings: BaseModel) -> Sender:
        chosen = DestinationSettings.model_validate(settings)
        self._check(name, chosen)
        return MqSender(self._library, name, chosen)

    def _check(self, name: str, settings: ConnectionSettings) -> None:
        """Raise PluginError for settings that the library cannot pass on."""
        if missing := unknown_to(self._library, settings):
            named = " (or name all connections by MQAPPLNAME)" if "application_name" in missing else ""
            raise PluginError(
                f"{name}: pymqi does not support {' and '.join(missing)}; install ibmmq in its place{named}"
            )


plugin = MqPlugin(find_library())
