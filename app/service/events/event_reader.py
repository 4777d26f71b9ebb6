"""The reading of the event log for all who follow it in this process, so that it is read once."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final

from app.model.event_logs import EventLogs
from app.model.records import EventRecord
from app.observe import logger
from app.ports import Catalog
from app.service.threads import Notifier

AT_ONCE: Final = 500
LOST: Final = "the database was put back: its events after this one are not those that were read from it before"

log = logger(__name__)

Taker = Callable[[Sequence[EventRecord]], object]
"""A function that gets events in the order of the log."""


class CurrentLogs:
    """The logs of a catalog's events. The lock guards `_newest` and `_known`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = Lock()
        self._newest: str | None = None
        self._known = EventLogs((), ())

    @property
    def known(self) -> EventLogs:
        """The logs that the last call of `read` has returned, without a query."""
        return self._known

    def read(self) -> EventLogs:
        """Return the logs, which identify all events that were read before. It is the same object until a log begins:
        the process that receives begins one when it starts, and so does the first write after a start of the
        database."""
        with self._lock:
            newest = self._catalog.newest_log()
            if newest != self._newest:
                self._known, self._newest = self._catalog.event_logs(), newest
            return self._known


class EventFollower:
    """One who follows the log. `take` gets each event after the number `after`, which moves with it. `lost` is called
    when events that it has got are lost, as the database was put back: it gets those that came instead."""

    def __init__(self, after: int, take: Taker, lost: Callable[[], object]) -> None:
        self.after, self.take, self.lost = after, take, lost


class EventReader:
    """Reads the log for its followers. `_lock` guards `_followers`; `_reading` lets one thread at a time `read`, and
    guards `_seen`: the logs when events were read last. `on_begun` is called when another log has begun since: the
    database may have lost what it had. If that fails, it is called again by the next reading."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock, self._reading = Lock(), Lock()
        self._followers: list[EventFollower] = []
        self.logs = CurrentLogs(catalog)
        self._seen = self.logs.read()
        self.on_begun: Callable[[], object] = lambda: None

    def follow(self, take: Taker, after: int | None = None, lost: Callable[[], object] = lambda: None) -> EventFollower:
        """Have `take` called with the events after a number, by default with those that are logged from now on."""
        with self._reading:  # `after` is of the logs that were seen
            self._look()
            newest = self._catalog.last_event()
            follower = EventFollower(newest if after is None else min(after, newest), take, lost)
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
                events = [] if after is None else self._catalog.events_after(after, AT_ONCE)
                if self._look():  # these events may not be the ones that follow
                    continue
                if not events:
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

    def look(self) -> EventLogs:
        """Notice whether another log has begun; return the logs, which identify all events that were read before."""
        with self._reading:
            self._look()
            return self._seen

    def _look(self) -> bool:
        """Notice whether another log has begun. Followers that have got lost events continue behind those that are the
        same. Return whether there were any."""
        logs = self.logs.read()
        if logs is self._seen:
            return False
        alike = logs.last_alike(self._seen)
        with self._lock:
            ahead = [each for each in self._followers if alike is not None and each.after > alike]
        for each in ahead:
            each.after = alike or 0
            each.lost()
        if ahead:
            log.warning("events_lost", last_event=alike, reason=LOST)
        self.on_begun()
        self._seen = self.logs.read()
        return bool(ahead)


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
