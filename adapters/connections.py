"""Connection status and the pauses between connection attempts, for all transports."""

import random
import time
from threading import Event
from typing import Any

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""Shortest and longest pause before the next attempt, in seconds."""


def now() -> int:
    """Return microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


def connected(**more: object) -> dict[str, Any]:
    """Return the status of a connection that has just been made."""
    return {"connected": True, "since": now(), "error": None, **more}


def not_connected(error: str | None = None) -> dict[str, Any]:
    """Return the status without a connection, with the reason if something failed."""
    return {"connected": False, "since": None, "error": error}


class Backoff:
    """Pauses between attempts to connect. Each is twice as long as the one before, and random so that clients
    spread."""

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE

    def reset(self) -> None:
        """Begin with the shortest pause again, after a connection that lasted for a while."""
        self._pause = FIRST_PAUSE

    def wait(self, stop: Event, *, least: float = 0.0, longest: float = LONGEST_PAUSE) -> None:
        """Wait before the next attempt, or until `stop` is set."""
        pause = max(self._pause, least)
        stop.wait(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads the tries of many
        self._pause = min(pause * 2, longest)
