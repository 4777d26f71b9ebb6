"""The last hour of each source: messages, bytes, finished attachments and quarantined messages, minute by minute.

Everything is in memory and begins with the process. Messages and bytes come from the counters of the metrics, which are
sampled once a second. Finished attachments and quarantined messages come from the event log, so that the work of a job
on Spark is counted, too. Nothing is done for a single message.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from threading import Lock
from typing import Final, NamedTuple

from prometheus_client import Counter

from app.metrics import Metrics
from app.model.records import EventRecord
from app.observe import logger
from app.ports import Clock

log = logger(__name__)

SECONDS_A_POINT: Final = 60
POINTS: Final = 60
RATE_SAMPLES: Final = 11
"""The number of samples over which rates are taken: ten seconds, as there is one a second."""

_POINT: Final = SECONDS_A_POINT * 1_000_000
_SOURCE: Final = "source "
_FINISHED, _QUARANTINED = "attachment.finished", "message.quarantined"


class Activity(NamedTuple):
    """What happened in a time: received messages, the bytes of their bodies, finished attachments, and messages put
    into quarantine."""

    messages: int = 0
    size: int = 0
    finished: int = 0
    quarantined: int = 0

    def plus(self, other: "Activity") -> "Activity":
        return Activity(*map(sum, zip(self, other, strict=True)))


class Point(NamedTuple):
    """The activity of `SECONDS_A_POINT` seconds from a time (µs) on."""

    time: int
    activity: Activity


class Rate(NamedTuple):
    """Messages, and bytes of their bodies, a second."""

    messages: float = 0.0
    bytes: float = 0.0


class _Sample(NamedTuple):
    """The counters at a time of the monotonic clock."""

    at: float
    messages: Mapping[str, float]
    bytes: Mapping[str, float]
    sent: Mapping[str, float]


class History:
    """The history of a gateway's sources and destinations. The lock guards `_samples`, `_points`, `_lost`, `_heard` and
    `_begun`.

    `connected` returns for each source and destination (`source NAME`, `destination NAME`) whether it is connected.
    `_lock` guards `_points`, `_samples`, `_begun`, `_heard` and `_lost`.
    """

    def __init__(self, metrics: Metrics, clock: Clock, connected: Callable[[], Mapping[str, bool]]) -> None:
        self._metrics, self._clock, self._connected = metrics, clock, connected
        self._lock = Lock()
        self._begun = clock.now() // _POINT
        self._points: dict[int, dict[str, Activity]] = {}
        self._samples: deque[_Sample] = deque([self._sampled()], RATE_SAMPLES)
        self._heard: dict[str, int] = {}
        self._lost: dict[str, int] = {}
        self._has_begun = False

    def sample(self) -> None:
        """Read the counters. Call it once a second."""
        now, sample, connected = self._clock.now(), self._sampled(), self._connected()
        with self._lock:
            before = self._samples[-1]
            self._samples.append(sample)
            for source, messages in sample.messages.items():
                new = int(messages - before.messages.get(source, 0))
                if new:
                    size = int(sample.bytes.get(source, 0) - before.bytes.get(source, 0))
                    self._heard[source] = now
                    self._add(now, source, Activity(messages=new, size=size))
            self._lost = {name: self._lost.get(name, now) for name, is_up in connected.items() if not is_up}
        if not self._has_begun:
            # Log once that every source receives: what is sent to it from now on is not lost.
            sources = {
                name.removeprefix(_SOURCE): is_up for name, is_up in connected.items() if name.startswith(_SOURCE)
            }
            if sources and all(sources.values()):
                self._has_begun = True
                log.info("receiving_begun", sources=list(sources))

    def take(self, events: Iterable[EventRecord]) -> None:
        """Count events of the log that are new."""
        now = self._clock.now()
        with self._lock:
            for event in events:
                source = str(event.data.get("source", ""))
                if event.type == _FINISHED:
                    self._add(now, source, Activity(finished=1))
                elif event.type == _QUARANTINED:
                    self._add(now, source, Activity(quarantined=1))

    def received(self, source: str) -> Rate:
        """Return the rate at which a source received in the last seconds."""
        with self._lock:
            first, last = self._samples[0], self._samples[-1]
        return Rate(
            _rate(first, last, first.messages.get(source, 0), last.messages.get(source, 0)),
            _rate(first, last, first.bytes.get(source, 0), last.bytes.get(source, 0)),
        )

    def sent(self, destination: str) -> float:
        """Return the messages a second that a destination's broker confirmed in the last seconds."""
        with self._lock:
            first, last = self._samples[0], self._samples[-1]
        return _rate(first, last, first.sent.get(destination, 0), last.sent.get(destination, 0))

    def heard_at(self, source: str) -> int | None:
        """Return when a source last received a message, to the second; None if it has not since the start."""
        return self._heard.get(source)

    def lost_at(self, name: str) -> int | None:
        """Return when `source NAME` or `destination NAME` was first seen without a connection; None if it has one."""
        return self._lost.get(name)

    def points(self, sources: Collection[str] | None = None, now: int | None = None) -> list[Point]:
        """Return the points since the start up to a time (None: now), at most `POINTS`, of all sources or of these.
        The last one is not over."""
        last = (self._clock.now() if now is None else now) // _POINT
        with self._lock:
            return [
                Point(at * _POINT, _total(self._points.get(at, {}), sources))
                for at in range(max(self._begun, last - POINTS + 1), last + 1)
            ]

    def _add(self, now: int, source: str, activity: Activity) -> None:
        at = now // _POINT
        if at not in self._points:
            # The clock may be set back: what is ahead of it goes, too.
            self._points = {each: known for each, known in self._points.items() if at - POINTS < each < at}
            self._begun = min(self._begun, at)
        known = self._points.setdefault(at, {})
        known[source] = known.get(source, Activity()).plus(activity)

    def _sampled(self) -> _Sample:
        metrics = self._metrics
        return _Sample(
            self._clock.monotonic(),
            _values(metrics.messages_received, "source"),
            _values(metrics.bytes_received, "source"),
            _values(metrics.messages_sent, "destination"),
        )


def _values(counter: Counter, label: str) -> dict[str, float]:
    samples = (sample for family in counter.collect() for sample in family.samples)
    return {sample.labels[label]: sample.value for sample in samples if sample.name.endswith("_total")}


def _rate(first: _Sample, last: _Sample, before: float, after: float) -> float:
    return round((after - before) / (last.at - first.at), 3) if last.at > first.at else 0.0


def _total(by_source: Mapping[str, Activity], sources: Collection[str] | None) -> Activity:
    total = Activity()
    for source, activity in by_source.items():
        if sources is None or source in sources:
            total = total.plus(activity)
    return total
