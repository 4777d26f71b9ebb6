"""The event stream: its lines, and where to resume after it broke."""

import json
from typing import Any, TypedDict

from attachment_gateway_client.errors import Problem, Unreachable

SILENCE_SECONDS = 60.0
"""The gateway sends something every 15 seconds. After a longer silence the connection is opened again."""


class Event(TypedDict):
    """An event (CloudEvents 1.0). `id` is its number and the name of its log, `subject` the identifier of what it is
    about."""

    specversion: str
    id: str
    source: str
    type: str
    subject: str
    time: str
    datacontenttype: str
    data: dict[str, Any]


class EventReader:
    """A reader of an event stream's lines. `last` is the `id` of the last event that is known to have passed."""

    def __init__(self, after: str | int | None = None) -> None:
        self._after = after
        self.last: str | None = None
        self._next: str | None = None
        self._data: list[str] = []

    @property
    def headers(self) -> dict[str, str]:
        """Return the header that makes a new connection continue after the last event."""
        return {"Accept": "text/event-stream"} | ({} if self.last is None else {"Last-Event-ID": self.last})

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the parameter that tells where the first connection begins."""
        return {"after": self._after if self.last is None else None}

    def begin(self) -> None:
        """Forget an event that a broken connection had begun. Its `id` does not count: it comes again."""
        self._next, self._data = None, []

    def feed(self, line: str) -> Event | None:
        """Take a line, without its end. Return the event that it completes, if it does."""
        if line.startswith("id:"):
            self._next = line.removeprefix("id:").strip()
        elif line.startswith("data:"):
            self._data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line:
            self.last = self.last if self._next is None else self._next
            data, self._data, self._next = "\n".join(self._data), [], None
            if data:
                event: Event = json.loads(data)
                return event
        return None


def is_passing(error: Unreachable | Problem) -> bool:
    """Return whether a stream that ended with this error is made again."""
    return isinstance(error, Unreachable) or error.is_temporary
