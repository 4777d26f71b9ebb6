"""The state of connections, their credentials, and the pauses between attempts, for all transports."""

import logging
import random
import time
from threading import Event
from typing import Any, Final

import structlog

from app.observe import Recurring
from app.secret import Changing, Secret

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""Shortest and longest pause before the next attempt, in seconds."""
REFUSED_PAUSE: Final = 5.0
"""The longest pause, in seconds, while credentials are refused from a file: they may change without a restart."""
_CHECK_SECONDS: Final = 0.5
"""The seconds between two checks of the file of refused credentials."""


def now() -> int:
    """Return microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


class ConnectionState:
    """The status of a connection that is opened again after each failure, and the log of its failures."""

    def __init__(self, log: structlog.stdlib.BoundLogger) -> None:
        self._failures = Recurring(log, "connection", logging.WARNING)
        self._opened_at: float | None = None
        self.closed()

    def opened(self, **more: object) -> None:
        """Note that the connection has been made; `more` is part of its status."""
        self._opened_at = time.monotonic()
        self.status: dict[str, Any] = {"connected": True, "since": now(), "error": None, **more}

    def closed(self, error: str | None = None) -> None:
        """Note that there is no connection, with the reason if something failed."""
        self.status = {"connected": False, "since": None, "error": error}

    def failed(self, why: str) -> None:
        """Note and log that the connection has ended, or could not be made."""
        self.closed(why)
        self._failures.failed(why)

    def recovered(self) -> None:
        """Log that the connection works again, if it has failed before."""
        self._failures.worked()

    @property
    def has_failed(self) -> bool:
        """Whether it has failed and not recovered."""
        return self._failures.failures > 0

    @property
    def was_opened(self) -> bool:
        """Whether the last attempt has made a connection."""
        return self._opened_at is not None

    def attempt(self) -> None:
        """Note that a connection is about to be made."""
        self._opened_at = None

    def has_lasted(self, seconds: float) -> bool:
        """Tell whether the last connection was opened longer ago than this."""
        return self._opened_at is not None and time.monotonic() - self._opened_at > seconds


class LogIn:
    """The credentials of one source or destination, and since when they are refused.

    `given` are the settings that it logs in with, by name. Messages name the first one that is set.
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
        """Return the credentials' part of `app.ports.Receiver.status`."""
        return {"credential": self.credential, "refused_since": self.refused_since}


class Backoff:
    """Pauses between attempts to connect, each twice as long as the one before, with jitter.

    A pause after refused credentials ends early when their file changes.
    """

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
            seconds = self._with_jitter(longest)
            while seconds > 0 and not stop.wait(min(seconds, _CHECK_SECONDS)) and not log_in.has_changed():
                seconds -= _CHECK_SECONDS
        else:
            stop.wait(self._with_jitter(max(least, longest), least))
        self._pause = min(max(self._pause, least) * 2, longest)

    def _with_jitter(self, longest: float, least: float = 0.0) -> float:
        pause = min(max(self._pause, least), longest)
        return pause * random.uniform(0.5, 1)  # noqa: S311 - no secret
