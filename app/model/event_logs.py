"""The logs of events: the identifiers of events, and the selection of events for streams and webhooks.

A catalog begins a log each time a gateway opens it or its database was started; the numbers of its events continue. A
catalog that was restored from an older copy, or has lost its newest events in a power failure, gives the numbers of the
lost events to others. A rebuilt one begins again with 1. So an identifier has the number and the log. If the log ended
before this number, the event no longer exists, and no other event is taken for it.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from app.model.records import EventRecord

BEGINNING: Final = "0"
"""The identifier before the first event of every log."""

_IDENTIFIER: Final = re.compile(r"([1-9][0-9]{0,17})-([0-9a-f]{1,32})")


class EventLogs(NamedTuple):
    """The logs of a catalog: the number that each begins after, which grows, and its name."""

    begin_after: tuple[int, ...]
    names: tuple[str, ...]

    def identify(self, number: int) -> str:
        """Return the identifier of the event with a number."""
        log = self._log(number)
        return BEGINNING if not number else f"{number}" if log is None else f"{number}-{log}"

    def number(self, identifier: str) -> int | None:
        """Return the number of an event; None if the identifier is of a log that has no such event.

        Raises ValueError for a text that is not an identifier.
        """
        if identifier == BEGINNING:
            return 0
        match = _IDENTIFIER.fullmatch(identifier)
        if match is None:
            raise ValueError(f"{identifier!r} is not the `id` of an event, such as 17-3f9a2b01, nor 0")
        number = int(match[1])
        return number if self._log(number) == match[2] else None

    def last_alike(self, other: "EventLogs") -> int | None:
        """Return the number of the last event that is the same in the logs of another time; None if all are."""
        alike = 0
        for one, another in zip(zip(*self, strict=True), zip(*other, strict=True), strict=False):
            if one != another:
                break
            alike += 1
        differ = [*self.begin_after[alike:][:1], *other.begin_after[alike:][:1]]
        return min(differ, default=None)

    def _log(self, number: int) -> str | None:
        at = bisect_left(self.begin_after, number) - 1
        return self.names[at] if at >= 0 else None


PATTERN: Final = r"[a-z]+\.([a-z]+|\*)"
"""The pattern of a type such as `attachment.finished`, or of all types of one kind, such as `attachment.*`."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A selection of events. Each set that is not empty must contain the event's value; of `subjects`, one must be how
    its subject begins.

    `sources` and `destinations` are names of the settings. Events about deliveries have a destination, all others have
    a source.
    """

    types: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    destinations: frozenset[str] = frozenset()
    subjects: tuple[str, ...] = ()

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
        return cls(types, frozenset(sources), frozenset(destinations), tuple(subjects))

    def has_type(self, kind: str) -> bool:
        """Return whether events of a type can be selected."""
        return not self.types or kind in self.types or f"{kind.partition('.')[0]}.*" in self.types

    def selects(self, event: EventRecord) -> bool:
        """Return whether an event is selected."""
        return (
            self.has_type(event.type)
            and (not self.subjects or event.subject.startswith(self.subjects))
            and (not self.sources or event.data.get("source") in self.sources)
            and (not self.destinations or event.data.get("destination") in self.destinations)
        )


ALL: Final = EventFilter()
