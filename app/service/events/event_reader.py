"""The reading of the event log for all who follow it in this process, so that it is read once."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final

from app.model.event_logs import EventLogs
from app.model.records import EventRecord
from app.ports import Catalog
from app.service.threads import Notifier

AT_ONCE: Final = 500

Taker = Callable[[Sequence[EventRecord]], object]
"""A function that gets events in the order of the log."""


class EventFollower:
    """One who follows the log. `take` gets each event after the number `after`, which moves with it."""

    def __init__(self, after: int, take: Taker) -> None:
        self.after, self.take = after, take


class EventReader:
    """Reads the log for its followers. `_lock` guards `_followers`; `_reading` lets one thread at a time `read`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock, self._reading = Lock(), Lock()
        self._followers: list[EventFollower] = []

    def follow(self, take: Taker, after: int | None = None) -> EventFollower:
        """Have `take` called with the events after a number, by default with those that are logged from now on."""
        newest = self._catalog.last_event()
        follower = EventFollower(newest if after is None else min(after, newest), take)
        with self._lock:
            self._followers.append(follower)
        return follower

    def leave(self, follower: EventFollower) -> None:
        """Call `take` no more; a call that has begun may still be at work."""
        with self._lock:
            self._followers.remove(follower)

    def read(self) -> None:
        """Give each follower the events that it has not got. One that raises keeps them from no other; they are offered
        to it again by the next call. Its error is raised in the end."""
        failed: dict[EventFollower, Exception] = {}
        with self._reading:
            while True:
                with self._lock:
                    followers = [each for each in self._followers if each not in failed]
                after = min((each.after for each in followers), default=None)
                if after is None or not (events := self._catalog.events_after(after, AT_ONCE)):
                    break
                for each in followers:
                    if new := [event for event in events if event.number > each.after]:
                        try:
                            each.take(new)
                        except Exception as error:  # noqa: BLE001 - raised in the end
                            failed[each] = error
                        else:
                            each.after = new[-1].number
        for first in failed.values():
            raise first


class EventWatch:
    """Notices events that other processes have logged, and wakes those who wait for events in this one."""

    def __init__(self, catalog: Catalog, notifier: Notifier) -> None:
        self._catalog, self._notifier = catalog, notifier
        self._heard = 0

    def look(self) -> None:
        """Ask the catalog for its newest event. Call it several times a second."""
        newest = self._catalog.last_event()
        if newest != self._heard:
            self._heard = newest
            self._notifier.notify()


class CurrentLogs:
    """The logs of a catalog's events, as far as they are needed: a process that receives begins one when it starts, and
    others learn of it when they read its events.

    The lock guards `_known` and `_covered`, which is the last number that they identify."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = Lock()
        self._known = EventLogs((), ())
        self._covered = -1

    @property
    def known(self) -> EventLogs:
        """The logs that the last call of `covering` has returned, without a query."""
        return self._known

    def covering(self, number: int) -> EventLogs:
        """Return logs that identify all events up to this number."""
        with self._lock:
            if number > self._covered:
                # A log begins after the newest event: those that are there now stay in their logs.
                covered = self._catalog.last_event()
                self._known, self._covered = self._catalog.event_logs(), covered
            return self._known
