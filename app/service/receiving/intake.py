"""The intake of all receivers: messages are numbered and limited, and wait in the backlog for the journal."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Event
from types import MappingProxyType

from app.framing.arrivals import ArrivalsBySource
from app.framing.protocol import ArrivalOptions
from app.model.errors import InvalidInputError, JournalFull
from app.model.message import (
    CORRELATION_DATA,
    LONGEST_CORRELATION_DATA,
    PhysicalMessage,
    footprint,
    limited_properties,
    properties_length,
)
from app.service.context import ServiceContext
from app.service.receiving.backlog import Backlog, BacklogEntry

MESSAGE_BYTES = 2048
"""The memory of a physical message apart from its body and its properties, in bytes. The backlog counts it, so that
many small messages cannot fill memory."""
REPLAY_SECONDS = 10.0

_NOTHING_LEARNED: Mapping[str, str] = MappingProxyType({})


class SharedIntake:
    """`app.ports.Intake` of all receivers, which puts messages into the backlog."""

    def __init__(self, context: ServiceContext, backlog: Backlog) -> None:
        self.backlog, self._most_properties = backlog, context.settings.limits.properties_bytes
        self.has_others = context.settings.journal.shared
        self.arrivals = ArrivalsBySource(partial(_arrival_options, context))
        context.metrics.backlog_bytes.set_function(lambda: backlog.bytes)
        context.metrics.backlog_messages.set_function(lambda: backlog.messages)
        context.metrics.taking.set_function(lambda: backlog.holding is None)

    def submit(self, messages: Sequence[PhysicalMessage], on_durable: Callable[[], None]) -> None:
        """Take messages, as `app.ports.Intake.submit` says.

        Messages that do not say what they belong to are numbered here, in the order in which their source hands them
        over.
        """
        learned = _NOTHING_LEARNED
        if (numbered := self.arrivals.numbered(messages)) is not messages:
            messages, learned = numbered, self.arrivals.take_learned(messages[0].source)
        self._put(messages, on_durable, learned)

    def refuse(self, message: PhysicalMessage, error: InvalidInputError, on_durable: Callable[[], None]) -> None:
        """Queue a message that cannot be read; see `app.ports.Intake.refuse`."""
        self.submit([message.unreadable(error.code, error.why, error.row, error.at)], on_durable)

    def journal_again(self, messages: Sequence[PhysicalMessage], mark: Callable[[], object]) -> None:
        """Have messages of the journal assembled again, with the numbers that they got when they came.

        `mark` is called once they are in the journal again. Raises JournalFull.
        """
        self.journal_unchanged([message.replayed() for message in messages])
        mark()

    def journal_unchanged(self, messages: Sequence[PhysicalMessage]) -> None:
        """Write messages of the journal to it again as they are, and wait until they are there. Raises JournalFull."""
        if (holding := self.backlog.holding) is not None:
            raise JournalFull(holding)
        journalled = Event()
        self._put(messages, journalled.set)
        if not journalled.wait(REPLAY_SECONDS):
            raise JournalFull(self.backlog.holding or "the journal cannot be written at present; try again later")

    def _put(
        self,
        messages: Sequence[PhysicalMessage],
        on_durable: Callable[[], None],
        learned: Mapping[str, str] = _NOTHING_LEARNED,
    ) -> None:
        if any(message.properties for message in messages):
            messages = [self._limited(message) if message.properties else message for message in messages]
        size = sum(map(footprint, messages)) + MESSAGE_BYTES * len(messages)
        self.backlog.put(BacklogEntry(messages, size, on_durable, messages[0].source, learned))

    def _limited(self, message: PhysicalMessage) -> PhysicalMessage:
        """Return the message, or the part of it that goes to quarantine when its properties are too large. Correlation
        data, in two digits a byte, do not count: MQTT limits them."""
        length, limit = properties_length(message.properties), self._most_properties
        if length <= limit:
            return message
        length -= min(len(message.properties.get(CORRELATION_DATA, "")), 2 * LONGEST_CORRELATION_DATA)
        if length <= limit:
            return message
        why = f"its properties take {length} bytes, and limits.properties_bytes allows {limit}; the first ones are kept"
        kept = limited_properties(message.properties, limit)
        return message._replace(properties=kept).unreadable("properties-too-large", why)


class NamingIntake:
    """The intake of a source that is the same as another one: messages get that name."""

    def __init__(self, intake: SharedIntake, name: str) -> None:
        self._intake, self._name = intake, name
        self.has_others = intake.has_others

    def submit(self, messages: Sequence[PhysicalMessage], on_durable: Callable[[], None]) -> None:
        """Submit messages; see `app.ports.Intake.submit`."""
        self._intake.submit([message._replace(source=self._name) for message in messages], on_durable)

    def refuse(self, message: PhysicalMessage, error: InvalidInputError, on_durable: Callable[[], None]) -> None:
        """Refuse a message; see `app.ports.Intake.refuse`."""
        self._intake.refuse(message._replace(source=self._name), error, on_durable)


def _arrival_options(context: ServiceContext, name: str) -> ArrivalOptions:
    """Return how the messages of a source are numbered: by what was learnt of it, and by its settings."""
    source, known = context.settings.sources.get(name), context.catalog.counting(name)
    if source is None:
        return ArrivalOptions(known)
    return ArrivalOptions(known, source.counts, source.on_doubt or "hold")
