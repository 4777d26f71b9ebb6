"""Connection status, the credentials of connections, and the pauses between attempts, for all transports."""

import random
import time
from threading import Event
from typing import Any, Final

from app.secret import Changing, Secret

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""Shortest and longest pause before the next attempt, in seconds."""
REFUSED_PAUSE: Final = 5.0
"""The longest pause, in seconds, while credentials are refused that lie in a file: they change without a restart."""
_LOOK_EVERY: Final = 0.5
"""The seconds between two looks at the file of refused credentials."""


def now() -> int:
    """Return microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


def connected(**more: object) -> dict[str, Any]:
    """Return the status of a connection that has just been made."""
    return {"connected": True, "since": now(), "error": None, **more}


def not_connected(error: str | None = None) -> dict[str, Any]:
    """Return the status without a connection, with the reason if something failed."""
    return {"connected": False, "since": None, "error": error}


class LogIn:
    """The credentials of one source or destination, and since when they are refused.

    `given` are the settings that it logs in with, by their names; the first one that is set stands for all in messages.
    """

    def __init__(self, **given: Secret | Changing | None) -> None:
        values = {name: value for name, value in given.items() if value is not None}
        self._files = [value.file for value in values.values() if value.file is not None]
        name = next(iter(values or given))
        first = values.get(name)
        self.credential = name if first is None or first.file is None else first.file.setting
        """The name of the setting, as the configuration has it: `password`, or `password_file`."""
        self.refused_since: int | None = None
        """In microseconds since 1970-01-01 UTC."""

    def accepted(self) -> None:
        self.refused_since = None

    def refused(self) -> None:
        self.refused_since = self.refused_since or now()

    @property
    def waits_for_a_file(self) -> bool:
        """Whether the credentials are refused, and are read from a file again at the next attempt."""
        return self.refused_since is not None and bool(self._files)

    @property
    def pause(self) -> float | None:
        """The seconds after which a next attempt is to be made at the latest, None for any."""
        return REFUSED_PAUSE if self.waits_for_a_file else None

    def has_changed(self) -> bool:
        """Tell whether there are other credentials than the last attempt had."""
        return any(file.has_changed() for file in self._files)

    def status(self) -> dict[str, Any]:
        """Return what `app.ports.Receiver.status` tells of credentials."""
        return {"credential": self.credential, "refused_since": self.refused_since}


class Backoff:
    """Pauses between attempts to connect. Each is twice as long as the one before, and random so that clients
    spread. One that waits for other credentials ends when their file changes."""

    def __init__(self, log_in: LogIn | None = None) -> None:
        self._pause = FIRST_PAUSE
        self._log_in = log_in

    def reset(self) -> None:
        """Begin with the shortest pause again, after a connection that has done work or lasted for a while."""
        self._pause = FIRST_PAUSE

    def wait(self, stop: Event, *, least: float = 0.0, longest: float = LONGEST_PAUSE) -> None:
        """Wait before the next attempt, or until `stop` is set."""
        log_in = self._log_in
        if log_in is not None and log_in.waits_for_a_file:
            least, longest = 0.0, min(longest, REFUSED_PAUSE)
            self._wait_for_a_change(stop, log_in, self._drawn(longest))
        else:
            stop.wait(self._drawn(max(least, longest), least))
        self._pause = min(max(self._pause, least) * 2, longest)

    def _drawn(self, longest: float, least: float = 0.0) -> float:
        pause = min(max(self._pause, least), longest)
        return pause * random.uniform(0.5, 1)  # noqa: S311 - spreads the tries of many

    @staticmethod
    def _wait_for_a_change(stop: Event, log_in: LogIn, seconds: float) -> None:
        while seconds > 0 and not stop.wait(min(seconds, _LOOK_EVERY)) and not log_in.has_changed():
            seconds -= _LOOK_EVERY
