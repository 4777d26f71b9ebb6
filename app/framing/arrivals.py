"""Messages that do not say what they belong to, numbered as they come in, a source at a time."""

from collections.abc import Sequence

from app.framing.protocol import Arrivals
from app.framing.registry import FRAMINGS
from app.model.message import PhysicalMessage


class ArrivalsBySource:
    """What numbers the messages of each source, where their framing has them numbered. A source hands its messages over
    in one thread at a time."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Arrivals | None] = {}

    def numbered(self, messages: Sequence[PhysicalMessage]) -> Sequence[PhysicalMessage]:
        """Return the messages as they are to be journalled."""
        if all(self._of(*kind) is None for kind in {(message.source, message.framing) for message in messages}):
            return messages
        found: list[PhysicalMessage] = []
        for message in messages:
            arrivals = self._of(message.source, message.framing)
            found += [message] if arrivals is None else arrivals.number(message)
        return found

    def _of(self, source: str, name: str) -> Arrivals | None:
        key = (source, name)
        if key not in self._found:
            framing = FRAMINGS.get(name)
            self._found[key] = framing.arrivals() if framing is not None else None
        return self._found[key]
