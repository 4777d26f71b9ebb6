"""What all transports have in common about a connection: its status, and how long to wait before the next try."""

import random
import time
from threading import Event
from typing import Any

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""Seconds before the first new try, and at most."""


def now() -> int:
    """Return microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


def connected(**more: object) -> dict[str, Any]:
    """Return the status of a connection that has just been made."""
    return {"connected": True, "since": now(), "error": None, **more}


def not_connected(error: str | None = None) -> dict[str, Any]:
    """Return the status where there is no connection, with the reason if something failed."""
    return {"connected": False, "since": None, "error": error}


class Backoff:
    """Waits between tries to connect, twice as long each time, and never as long as others do."""

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE

    def reset(self) -> None:
        """Begin anew, after a connection that stood for a while."""
        self._pause = FIRST_PAUSE

    def wait(self, stop: Event, *, least: float = 0.0, longest: float = LONGEST_PAUSE) -> None:
        """Wait before the next try, or until `stop` is set."""
        pause = max(self._pause, least)
        stop.wait(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads the tries of many
        self._pause = min(pause * 2, longest)
