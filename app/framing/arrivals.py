"""Numbering of messages that do not state what they belong to, on arrival, a source at a time."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from app.framing.message_events import failure
from app.framing.protocol import NO_OPTIONS, ArrivalOptions, Arrivals
from app.framing.registry import find_framing
from app.model.message import DELIVERY, GAP, REFUSED_FRAMING, REPLAYED, UNREADABLE, PhysicalMessage


class ArrivalsBySource:
    """What numbers the messages of each source, where their framing has them numbered. A source hands its messages over
    in one thread at a time. `options` returns how its messages are numbered."""

    def __init__(self, options: Callable[[str], ArrivalOptions] = lambda _source: NO_OPTIONS) -> None:
        self._options = options
        self._found: dict[tuple[str, str], Arrivals | None] = {}
        self._of_source: dict[str, list[Arrivals]] = {}

    def numbered(self, messages: Sequence[PhysicalMessage]) -> Sequence[PhysicalMessage]:
        """Return the messages as they are to be journalled.

        One that its transport could not read may have been any message: it interrupts what its source is receiving.
        """
        if not any(
            source in self._of_source if framing == UNREADABLE else self._of(source, framing) is not None
            for source, framing in {(message.source, message.framing) for message in messages}
        ):
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

    def prepare(self, source: str, framing: str) -> None:
        """Ask for the options of a source now, and not with its first message."""
        self._of(source, framing)

    def resume(self, messages: Iterable[PhysicalMessage]) -> None:
        """Take note of messages in the journal, in their order, so that numbering continues after them. One without a
        source may have been any."""
        for message in messages:
            if REPLAYED in message.properties:
                continue
            if GAP in message.properties or not message.source:
                self.close(message.source)
            if message.framing != UNREADABLE:
                self._of(message.source, message.framing)
            for arrivals in self._of_source.get(message.source, ()):
                arrivals.resume(message)

    def close(self, source: str) -> None:
        """End everything that a source, or any source if it has no name, has begun."""
        for name, several in self._of_source.items():
            for arrivals in several if source in ("", name) else ():
                arrivals.interrupt(PhysicalMessage(name, UNREADABLE))

    def take_learned(self, source: str) -> Mapping[str, str]:
        """Return what has been learnt of a source since the last call."""
        several = self._of_source.get(source, ())
        return {subject: rules for arrivals in several for subject, rules in arrivals.take_learned().items()}

    def _of(self, source: str, name: str) -> Arrivals | None:
        key = (source, name)
        if key not in self._found:
            framing = find_framing(name)
            is_numbered = framing is not None and framing.traits.numbered_on_arrival
            found = self._found[key] = framing.arrivals(self._options(source)) if framing and is_numbered else None
            if found is not None:
                self._of_source.setdefault(source, []).append(found)
        return self._found[key]


def _numbered(message: PhysicalMessage, numbering: Arrivals) -> Sequence[PhysicalMessage]:
    try:
        found = numbering.number(message)
    except Exception as error:  # noqa: BLE001 - it is kept with the message
        numbering.interrupt(message)
        why = failure(error)
        found = [message.unreadable(why.code, why.why, why.row, why.at)]
    if any(each.framing == UNREADABLE for each in found):
        found = [_with_framing(each, message.framing) for each in found]
    if len(found) == 1:
        return found
    # A message that was delivered before does not say how.
    delivery = message.properties.get(DELIVERY)
    return [
        each
        if each.properties.get(DELIVERY) == delivery
        else each._replace(properties={name: value for name, value in each.properties.items() if name != DELIVERY})
        for each in found
    ]


def _with_framing(message: PhysicalMessage, framing: str) -> PhysicalMessage:
    """Return a message with the framing by which it could not be numbered, if so: its source may get another one."""
    if message.framing != UNREADABLE:
        return message
    return message._replace(properties={**message.properties, REFUSED_FRAMING: framing})
