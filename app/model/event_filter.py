"""Selection of events by type, source, destination and subject, for streams and webhooks alike."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.model.records import EventRecord

PATTERN: Final = r"[a-z]+\.([a-z]+|\*)"
"""Of a type of events such as `attachment.finished`, or of all types of one kind, as in `attachment.*`."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events to select. Each set that is not empty must contain what the event says.

    `sources` and `destinations` are names of the settings. Events about deliveries have a destination, all others have
    a source.
    """

    types: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    destinations: frozenset[str] = frozenset()
    subjects: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        types: Iterable[str] = (),
        sources: Iterable[str] = (),
        destinations: Iterable[str] = (),
        subjects: Iterable[str] = (),
    ) -> "EventFilter":
        """Return a filter of lists. Raises ValueError for a type that is neither a type nor a pattern."""
        types = frozenset(types)
        if wrong := sorted(each for each in types if not re.fullmatch(PATTERN, each)):
            raise ValueError(f"unknown type {wrong[0]!r}; write a type such as attachment.finished, or attachment.*")
        return cls(types, frozenset(sources), frozenset(destinations), frozenset(subjects))

    def selects(self, event: EventRecord) -> bool:
        """Return whether an event is selected."""
        return (
            (not self.types or event.type in self.types or f"{event.type.partition('.')[0]}.*" in self.types)
            and (not self.subjects or event.subject in self.subjects)
            and (not self.sources or event.data.get("source") in self.sources)
            and (not self.destinations or event.data.get("destination") in self.destinations)
        )


ALL: Final = EventFilter()
