"""The time in which each source could receive, by which attachments expire.

A source can receive while it is connected and up to date. It is up to date once it has been connected for
`SETTLING_SECONDS` and has brought nothing for `IDLE_SECONDS`: then the broker holds nothing back. A source that is
never idle counts as up to date after a connection as long as `expiry.unfinished`. All this begins anew when the
connection is lost, or when a limit stops receiving. Several paths of the same messages (`same_as`) are one source here,
which can receive while each of them can.

Time is taken from the monotonic clock, in steps of at most `LONGEST_STEP`, so that a stopped process counts nothing. A
step counts only after assembly has reached the journal's end at that step: messages that wait in the journal are not
late.

The count is kept in the catalog. From time to time a mark says which journal position had been reached at which count.
Messages up to that position had come by then. So nothing has to be written for a single message.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from threading import Lock
from typing import NamedTuple, Protocol

from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage
from app.model.records import ALONE, ReceivingMark
from app.observe import logger
from app.ports import Intake, Receiver
from app.ports.catalog.receiving import ReceivingCatalog
from app.service.context import WriterContext
from app.settings import microseconds

log = logger(__name__)

LONGEST_STEP = 10.0
SETTLING_SECONDS = 30.0
IDLE_SECONDS = 2.0
SAVE_SECONDS = 10.0
MARKS = 64
"""Marks in the time after which an attachment expires. It expires late by at most the time between two marks."""
STEPS_WAITING = 1000
"""The most steps that may wait for assembly. Later ones are joined."""


class CountedTime(Protocol):
    """The receiving time of sources, as far as expiry needs it."""

    @property
    def sources(self) -> list[str]:
        """All sources that were ever counted."""

    def counted(self, source: str) -> int:
        """Return the microseconds in which a source could receive."""

    def mark_before(self, source: str, duration: int) -> ReceivingMark | None:
        """Return the newest mark that is at least `duration` microseconds of receiving old."""


class SavedReceivingTime:
    """The receiving time that other processes count, as it was when `sources` was last asked for. Expiry by it is late
    by at most `SAVE_SECONDS`.

    Where several receive, the one that has been able to receive for the shortest time decides: what it keeps, or what
    the broker keeps for it, is not late.
    """

    def __init__(self, catalog: ReceivingCatalog) -> None:
        self._catalog = catalog
        self._counted: dict[str, dict[str, int]] = {}
        """By source, then by the journal of the receiver."""
        self._marks: dict[str, dict[str, list[ReceivingMark]]] = {}
        """By journal, then by source."""

    @property
    def sources(self) -> list[str]:
        """All sources that were ever counted; this reads their times from the catalog."""
        counted: dict[str, dict[str, int]] = {}
        for journal, times in self._catalog.receiving_time().items():
            for source, time in times.items():
                counted.setdefault(source, {})[journal] = time
        self._counted, self._marks = counted, _by_source(self._catalog.receiving_marks())
        return list(self._counted)

    def counted(self, source: str) -> int:
        """Return the microseconds in which a source could receive."""
        return min(self._counted.get(source, {}).values(), default=0)

    def mark_before(self, source: str, duration: int) -> ReceivingMark | None:
        """Return a mark at the lowest position of those that are at least `duration` microseconds of receiving old, of
        each receiver the newest one."""
        marks: list[ReceivingMark] = []
        for journal, counted in self._counted.get(source, {}).items():
            mark = _newest(self._marks.get(journal, {}), source, counted - duration)
            if mark is None:
                return None
            marks.append(mark)
        return min(marks, key=attrgetter("position"), default=None)


def _by_source(marks: Iterable[ReceivingMark]) -> dict[str, dict[str, list[ReceivingMark]]]:
    """Return marks by the journal of the receiver, then by source."""
    found: dict[str, dict[str, list[ReceivingMark]]] = {}
    for mark in marks:
        found.setdefault(mark.journal, {}).setdefault(mark.source, []).append(mark)
    return found


def _newest(marks: Mapping[str, Sequence[ReceivingMark]], source: str, before: int) -> ReceivingMark | None:
    """Return the newest mark of a source whose count is not above `before`."""
    return next((mark for mark in reversed(marks.get(source, ())) if mark.counted <= before), None)


class WatchedIntake:
    """The intake of one source, with the time since the last message. The lock guards `_inside` and `heard_at`."""

    def __init__(self, intake: Intake, clock: Callable[[], float]) -> None:
        self._intake, self._clock = intake, clock
        self.has_others = intake.has_others
        self._inside = 0
        self._lock = Lock()
        self.heard_at = clock()

    def submit(self, messages: Sequence[PhysicalMessage], on_durable: Callable[[], None]) -> None:
        """Submit messages; see `app.ports.Intake.submit`."""
        with self:
            self._intake.submit(messages, on_durable)

    def refuse(self, message: PhysicalMessage, error: InvalidInputError, on_durable: Callable[[], None]) -> None:
        """Refuse a message; see `app.ports.Intake.refuse`."""
        with self:
            self._intake.refuse(message, error, on_durable)

    def idle_seconds(self) -> float:
        """Return the seconds without a message; 0 while a receiver waits to submit something."""
        return 0.0 if self._inside else self._clock() - self.heard_at

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            self.heard_at = self._clock()


@dataclass(slots=True)
class _Source:
    """The state of one source's connection. `since` is the last `since` in the status of its receiver."""

    receiver: Receiver
    intake: WatchedIntake | None = None
    since: object = None
    connected_at: float | None = None
    is_up_to_date: bool = False

    def can_receive(self, now: float, holding: bool, longest: float) -> bool:
        status = self.receiver.status()
        if holding or not status["connected"]:
            self.connected_at, self.is_up_to_date = None, False
            return False
        if self.connected_at is None or status.get("since") != self.since:
            self.connected_at, self.since, self.is_up_to_date = now, status.get("since"), False
        if not self.is_up_to_date:
            connected = now - self.connected_at
            idle = self.intake is None or self.intake.idle_seconds() >= IDLE_SECONDS
            settled = connected >= min(SETTLING_SECONDS, longest)
            self.is_up_to_date = (settled and idle) or connected >= longest
        return self.is_up_to_date


class Reached(NamedTuple):
    """What a position of the own journal means for the one that is assembled, in packed positions: everything up to
    there is not behind `last`, and everything not behind `before` had come by then."""

    last: int
    before: int


@dataclass(slots=True)
class _Step:
    """The time that sources could receive before the own journal ended at a packed position. It counts once assembly
    has `reached` what was in the own journal then. None while that is not published."""

    end: int
    times: dict[str, int]
    reached: Reached | None = None


class ReceivingTime:
    """Counts the receiving time of these receivers' sources. `holding` returns why nothing is received, if so.

    A receiver that shares a journal counts for its own one, `journal`. `place` returns what a position of the own
    journal means for the shared one; None while that does not have all up to there.

    `_lock` guards `_new_marks`; `_stepping` lets one thread at a time `step`.
    """

    def __init__(
        self,
        context: WriterContext,
        receivers: Mapping[str, Receiver],
        holding: Callable[[], str | None] = lambda: None,
        place: Callable[[int], Reached | None] = lambda position: Reached(position, position),
        journal: str = ALONE,
    ) -> None:
        self._context, self._holding, self._place, self._journal = context, holding, place, journal
        self._sources = {name: _Source(receiver) for name, receiver in receivers.items()}
        self._names = {name: context.settings.named(name) for name in receivers}
        self._longest = context.settings.expiry.unfinished.total_seconds()
        self._waiting: deque[_Step] = deque()
        self._new_marks: list[ReceivingMark] = []
        self._lock, self._stepping = Lock(), Lock()
        self._read()
        self._log: str | None = None
        """The newest log of events when the times were read or saved; None before that."""
        self._last = self._saved_at = context.clock.monotonic()
        for name in {*self._names.values()}:
            context.metrics.receiving_seconds.labels(name).set_function(partial(self._seconds, name))

    def read(self) -> None:
        """Read from the catalog what was counted. What was not saved is forgotten: it may be of what an older copy of
        the catalog lacks, which is to be assembled again before it expires."""
        with self._stepping:
            self._read()

    def _read(self) -> None:
        catalog = self._context.catalog
        self._log = catalog.newest_log()
        self._counted = catalog.receiving_time().get(self._journal, {})
        self._marks = _by_source(catalog.receiving_marks()).get(self._journal, {})
        self._waiting.clear()
        with self._lock:
            self._new_marks.clear()

    def intake(self, source: str, intake: Intake) -> Intake:
        """Return the intake for the receiver of a source."""
        self._sources[source].intake = watched = WatchedIntake(intake, self._context.clock.monotonic)
        return watched

    def counted(self, source: str) -> int:
        """Return the microseconds in which a source could receive."""
        return self._counted.get(source, 0)

    def _seconds(self, source: str) -> float:
        return self.counted(source) / 1e6

    @property
    def sources(self) -> list[str]:
        """All sources that were ever counted."""
        return list(self._counted)

    def mark_before(self, source: str, duration: int) -> ReceivingMark | None:
        """Return the newest mark that is at least `duration` microseconds of receiving old."""
        return _newest(self._marks, source, self.counted(source) - duration)

    def step(self) -> None:
        """Count the time since the last call. Call it often."""
        with self._stepping:
            now = self._context.clock.monotonic()
            passed = max(0, int(min(now - self._last, LONGEST_STEP) * 1e6))
            self._last = now
            holding = self._holding() is not None
            can = {name: source.can_receive(now, holding, self._longest) for name, source in self._sources.items()}
            cannot = {self._names[name] for name, is_able in can.items() if not is_able}
            end = self._context.journal.end()
            times = dict.fromkeys({*self._names.values()} - cannot, passed)
            if len(self._waiting) >= STEPS_WAITING:
                earlier = self._waiting.pop().times
                times = {name: earlier.get(name, 0) + times.get(name, 0) for name in earlier | times}
            self._waiting.append(_Step(-1 if end is None else end.pack(), times))

            for step in self._waiting:
                if step.reached is None:
                    step.reached = self._place(step.end)
                if step.reached is None:
                    break
            progress = self._context.catalog.progress()
            assembled = -1 if progress is None else progress
            while self._waiting and (reached := self._waiting[0].reached) is not None and reached.last <= assembled:
                for source, time in self._waiting.popleft().times.items():
                    self._counted[source] = counted = self.counted(source) + time
                    self._mark(ReceivingMark(source, counted, reached.before, self._journal))

            if now - self._saved_at >= SAVE_SECONDS:
                self.save()

    def save(self) -> None:
        """Save the counts and the new marks, unless the database was started or put back meanwhile."""
        self._saved_at = self._context.clock.monotonic()
        newest = self._context.catalog.newest_log()
        if self._log not in (None, newest):
            self._read()
            return
        self._log = newest
        with self._lock:
            marks, self._new_marks = self._new_marks, []
        oldest = {source: marks[0].counted for source, marks in self._marks.items() if marks}
        self._context.catalog.save_receiving_time(self._counted, marks, oldest, self._journal)

    def finish(self) -> None:
        """Count and save the last time. If that fails, it is lost: attachments then expire a little later."""
        try:
            self.step()
            self.save()
        except Exception:
            log.exception("receiving_time_not_saved")

    def _mark(self, mark: ReceivingMark) -> None:
        marks = self._marks.setdefault(mark.source, [])
        every = max(1, int(self._longest * 1e6) // MARKS)
        if marks and mark.counted - marks[-1].counted < every:
            return
        marks.append(mark)
        with self._lock:
            self._new_marks.append(mark)
        expiry = self._context.settings.expiry
        needed = mark.counted - microseconds(expiry.unfinished) - microseconds(expiry.grace)
        while len(marks) > 1 and marks[1].counted <= needed:
            del marks[0]
