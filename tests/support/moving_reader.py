"""A client of events that asks another process after each event."""

from collections.abc import Sequence
from random import Random
from threading import Thread
from typing import Any

import httpx
import orjson

from tests.support.forked_gateway import ForkedGateway

LAST = "attachment.deleted"
"""The type of the event with which reading ends."""


class MovingReader(Thread):
    """Reads events from the oldest one on. After each event it goes on at any of these processes, by `Last-Event-ID`.

    `seen` are the identifiers of the events, in the order in which they came.
    """

    def __init__(self, processes: Sequence[ForkedGateway], random: Random) -> None:
        super().__init__(daemon=True)
        self._processes, self._random = processes, random
        self.seen = ["0"]

    def run(self) -> None:
        while (event := self._next())["type"] != LAST:
            self.seen.append(event["id"])
        self.seen.append(event["id"])

    def _next(self) -> dict[str, Any]:
        """Return the next event, of one connection."""
        url = self._random.choice(self._processes).client.base_url.join("/v1/events")
        with httpx.stream("GET", url, headers={"Last-Event-ID": self.seen[-1]}, timeout=60) as stream:
            stream.raise_for_status()
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    event: dict[str, Any] = orjson.loads(line.removeprefix("data: "))
                    return event
        raise AssertionError(f"{url} sends no event after {self.seen[-1]}")
