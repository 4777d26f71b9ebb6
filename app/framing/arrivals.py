"""Messages that do not say what they belong to, numbered as they come in, a source at a time."""

from collections.abc import Sequence

from app.framing.events import failure
from app.framing.protocol import Arrivals
from app.framing.registry import FRAMINGS
from app.model.message import UNREADABLE, PhysicalMessage


class ArrivalsBySource:
    """What numbers the messages of each source, where their framing has them numbered. A source hands its messages over
    in one thread at a time."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Arrivals | None] = {}
        self._of_source: dict[str, list[Arrivals]] = {}

    def numbered(self, messages: Sequence[PhysicalMessage]) -> Sequence[PhysicalMessage]:
        """Return the messages as they are to be journalled.

        One that its transport could not read may have been any message: it interrupts what its source is receiving.
        """
        if not any(self._matters(*kind) for kind in {(message.source, message.framing) for message in messages}):
            return messages
        found: list[PhysicalMessage] = []
        for message in messages:
            if message.framing == UNREADABLE:
                for arrivals in self._of_source.get(message.source, ()):
                    arrivals.interrupt(message)
                found.append(message)
            else:
                numbering = self._of(message.source, message.framing)
                found += [message] if numbering is None else _numbered(message, numbering)
        return found

    def _matters(self, source: str, name: str) -> bool:
        """Tell whether messages of a framing are numbered, or interrupt those that are."""
        return source in self._of_source if name == UNREADABLE else self._of(source, name) is not None

    def _of(self, source: str, name: str) -> Arrivals | None:
        key = (source, name)
        if key not in self._found:
            framing = FRAMINGS.get(name)
            found = self._found[key] = framing.arrivals({}) if framing is not None else None
            if found is not None:
                self._of_source.setdefault(source, []).append(found)
        return self._found[key]


def _numbered(message: PhysicalMessage, numbering: Arrivals) -> Sequence[PhysicalMessage]:
    try:
        return numbering.number(message)
    except Exception as error:  # noqa: BLE001 - it is kept with the message
        numbering.interrupt(message)
        why = failure(error)
        return [message.unreadable(why.code, why.why)]
