"""What every part of the service is given: settings, adapters of the ports, metrics."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from app.assembly.collecting import Key
from app.model.message import PhysicalMessage
from app.observe import Metrics
from app.ports import Catalog, Clock, ContentStore, Journal, JournalReader
from app.service.threads import Notifier
from app.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """What the content of an attachment is made from and goes to. It may stay in the journal, where it can be read as
    it lies there, if `in_place`."""

    settings: Settings
    journal: JournalReader
    store: ContentStore
    in_place: bool = True

    def described(self, message: PhysicalMessage) -> PhysicalMessage:
        """The message with what its source is configured to mean where the message does not say it itself."""
        source = self.settings.sources.get(message.source)
        if source is None or not (source.encoding or source.ccsid):
            return message
        return message._replace(
            encoding=message.encoding or source.encoding or 0, ccsid=message.ccsid or source.ccsid or 0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceContext(Stores):
    """The settings, the adapters of the storing ports, and the notifier of everybody who waits for the event log."""

    journal: Journal
    catalog: Catalog
    clock: Clock
    metrics: Metrics
    notifier: Notifier = field(default_factory=Notifier)


Change = Callable[[], Iterable[Key]]
"""Something that changes attachments that assembly may hold in memory; returns which it must not hold any more."""
Between = Callable[[Change], object]
"""Makes a change between two messages, when all that was assembled before is in the catalog."""


def at_once(change: Change) -> None:
    """Make a change where nothing assembles in this process."""
    for _ in change():
        pass
