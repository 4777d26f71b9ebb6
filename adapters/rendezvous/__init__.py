"""TIB/Rendezvous, by the daemon's own TCP protocol: no library of TIBCO's is needed."""

from pydantic import BaseModel

from adapters.rendezvous.receiver import RendezvousReceiver
from adapters.rendezvous.sender import RendezvousSender
from adapters.rendezvous.settings import DestinationSettings, SourceSettings
from app.model.framing_facts import FramingTraits
from app.ports import Receiver, Sender


class RendezvousPlugin:
    """`app.ports.TransportPlugin`."""

    source_settings: type[BaseModel] = SourceSettings
    destination_settings: type[BaseModel] = DestinationSettings

    def receiver(self, name: str, framing: FramingTraits, settings: BaseModel) -> Receiver:
        return RendezvousReceiver(name, framing, SourceSettings.model_validate(settings))

    def sender(self, name: str, settings: BaseModel) -> Sender:
        return RendezvousSender(name, DestinationSettings.model_validate(settings))


plugin = RendezvousPlugin()
