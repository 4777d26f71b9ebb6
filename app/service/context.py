"""The context that every part of the service gets: settings, adapters of the ports, and metrics."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from app.assembly.collecting import CONTRADICTED, Key
from app.codecs.ibm_mq.encodings import in_charset
from app.metrics import Metrics
from app.model.evidence import OnDoubt
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord
from app.ports import (
    Catalog,
    Clock,
    ContentStore,
    Journal,
    JournalArchive,
    JournalReader,
    ReplayReader,
    WritableJournal,
)
from app.service.events.event_spans import Traces
from app.service.instance import new_instance
from app.service.threads import Notifier
from app.settings import Settings

REPEATED_ATTACHMENTS: Final = 1000
REPEATED_NUMBERS: Final = 10_000
"""The most sequence numbers of an attachment that are kept."""


class RepeatedParts:
    """The parts that came again with the same bytes, for people who look at an attachment while it is received: the
    sequence numbers, of the attachments that got one last. The catalog keeps only their number.

    The lock guards `_known`.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, set[int]] = OrderedDict()
        self._lock = Lock()

    def add(self, attachment_id: str, sequence: int) -> None:
        """Record that a part came again."""
        with self._lock:
            numbers = self._known.setdefault(attachment_id, set())
            self._known.move_to_end(attachment_id)
            if len(numbers) < REPEATED_NUMBERS:
                numbers.add(sequence)
            if len(self._known) > REPEATED_ATTACHMENTS:
                self._known.popitem(last=False)

    def of(self, attachment_id: str) -> frozenset[int]:
        """Return the sequence numbers of an attachment's repeated parts."""
        with self._lock:
            return frozenset(self._known.get(attachment_id, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The sources and the target of content. If `in_place`, content may stay in the journal where it can be read as it
    is."""

    settings: Settings
    journal: JournalReader
    store: ContentStore
    in_place: bool = True

    def described(self, message: PhysicalMessage) -> PhysicalMessage:
        """Return the message with the configured values of its source in the fields that it lacks."""
        source = self.settings.sources.get(message.source)
        if source is None or not (source.encoding or source.ccsid):
            return message
        return message._replace(
            encoding=message.encoding or source.encoding or 0, ccsid=message.ccsid or source.ccsid or 0
        )

    def on_doubt(self, source: str) -> OnDoubt:
        """Return what happens to an attachment of which bytes could be missing."""
        return (source in self.settings.sources and self.settings.sources[source].on_doubt) or "hold"

    def may_hold(self, record: AttachmentRecord) -> bool:
        """Return whether a complete attachment may be held although its content is read without a doubt."""
        return self.is_strict(record.source) or CONTRADICTED in record.evidence

    def is_strict(self, source: str) -> bool:
        """Tell whether a source's attachments are held for any warning, also if only texts are in doubt."""
        return source in self.settings.sources and self.settings.sources[source].on_doubt == "hold"

    def line_end(self, first: PhysicalMessage) -> bytes:
        """Return the line end of a text file that begins with this message, in its character set."""
        return in_charset(self.settings.line_end(first.source), first.ccsid, first.encoding)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceContext(Stores):
    """The settings, the adapters of the storing ports, the notifier for everybody who waits for events, the parts that
    came again, traces, and the name of this process.

    The journal can only be read: it is an archive, unless this process receives."""

    journal: ReplayReader
    catalog: Catalog
    clock: Clock
    metrics: Metrics
    notifier: Notifier = field(default_factory=Notifier)
    repeated: RepeatedParts = field(default_factory=RepeatedParts)
    traces: Traces = field(default_factory=lambda: Traces(Settings()))
    instance: str = field(default_factory=new_instance)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterContext(ServiceContext):
    """The context of what receives: the journal is its own, and it is the one that writes it."""

    journal: WritableJournal


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverContext(WriterContext):
    """The context of what receives alone: its journal is in a folder, and all others read that one."""

    journal: Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveContext(ServiceContext):
    """The context of a process that does not receive: it reads what the one that does has archived."""

    journal: JournalArchive


Change = Callable[[], Iterable[Key]]
"""A function that begins attachments anew that assembly may hold in memory. It returns the keys of exactly these."""
Between = Callable[[Change], object]
"""A function that makes a change between two messages, after everything assembled before is in the catalog."""


def at_once(change: Change) -> None:
    """Make a change directly. For use where nothing is assembled in this process."""
    for _ in change():
        pass
