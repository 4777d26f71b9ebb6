"""The identifiers of events, which say in which log an event has its number.

A catalog begins a log each time a gateway opens it. The numbers go on. A gateway that was restored from an older copy,
or that has lost its newest events in a power failure, gives the numbers of the lost events to others; a rebuilt catalog
begins again with 1. So an identifier has the number and the log. One of a log that ended before this number names an
event that is no longer there, and is not mistaken for another one.
"""

import re
from bisect import bisect_left
from typing import Final, NamedTuple

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

        Raises ValueError for what is no identifier.
        """
        if identifier == BEGINNING:
            return 0
        match = _IDENTIFIER.fullmatch(identifier)
        if match is None:
            raise ValueError(f"{identifier!r} is not the `id` of an event, such as 17-3f9a2b01, nor 0")
        number = int(match[1])
        return number if self._log(number) == match[2] else None

    def _log(self, number: int) -> str | None:
        at = bisect_left(self.begin_after, number) - 1
        return self.names[at] if at >= 0 else None
