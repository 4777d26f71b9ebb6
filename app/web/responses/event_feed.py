"""The newest events, encoded as CloudEvents 1.0 and sent to any number of clients.

One task waits for new events, in a single thread, and has the reader of the event log read them at once. The newest
ones are kept in memory. Each client has only its position in the event log. It is served from memory, or from the
catalog when its position is older.
"""

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from time import monotonic

from starlette.concurrency import run_in_threadpool

from app.model.event_logs import ALL, EventFilter
from app.model.records import EventRecord
from app.observe import Recurring, logger
from app.service.events.event_entries import cloud_event
from app.service.gateway import Gateway

HEARTBEAT_SECONDS = 15.0
WAIT_SECONDS = 1.0
KEPT = 1000
AT_ONCE = 500

log = logger(__name__)


class Feed:
    """The newest events, and a signal for newer ones. `losses` counts how often events that clients may have got were
    lost, as the database was put back: streams that began before end."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._recent: deque[EventRecord] = deque(maxlen=KEPT)
        self._news = asyncio.Event()
        self._newest = 0
        self.losses = 0
        self._ended = False
        self._awaited: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Feed"]:
        """Follow the gateway's events within the block."""
        loop, events = asyncio.get_running_loop(), self._gateway.events

        def take(new: Sequence[EventRecord]) -> None:
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(self._take, new)

        def lost() -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._forget, follower.after)

        follower = await run_in_threadpool(events.follow, take, None, lost)
        self._newest = follower.after
        with ThreadPoolExecutor(1, "events") as executor:
            following = asyncio.create_task(self._follow(executor))
            try:
                yield self
            finally:
                self._end()
                self._gateway.notifier.notify()
                await following
                events.leave(follower)

    async def _follow(self, executor: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        fault = Recurring(log, "event_feed")
        while not (self._gateway.draining or self._ended):
            try:
                await loop.run_in_executor(executor, self._read)
            except Exception as error:  # noqa: BLE001 - `fault` logs it
                fault.failed(error)
                await asyncio.sleep(WAIT_SECONDS)
            else:
                fault.worked()
        self._end()

    def _read(self) -> None:
        """Let new events be read; wait up to `WAIT_SECONDS` for later ones."""
        gateway, seen = self._gateway, self._gateway.notifier.notifications
        gateway.events.read()
        if not gateway.draining:
            gateway.notifier.wait(seen, WAIT_SECONDS)

    def _take(self, events: Sequence[EventRecord]) -> None:
        self._recent.extend(events)
        self._newest = events[-1].number
        self._ring()
        for subject in {event.subject for event in events} & self._awaited.keys():
            _set_all(self._awaited[subject])

    def _forget(self, newest: int) -> None:
        """Forget the events that were lost, up to the newest one that was not."""
        self._recent.clear()
        self._newest = newest
        self.losses += 1
        self._ring()

    def _after(self, number: int) -> Sequence[EventRecord]:
        """Return the events after a number, when the logs are known that identify them: or else `losses` grows."""
        events = self._gateway.catalog.events_after(number, AT_ONCE)
        self._gateway.events.look()
        return events

    def _end(self) -> None:
        self._ended = True
        self._ring()
        for waiting in self._awaited.values():
            _set_all(waiting)

    def _ring(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def stream(
        self,
        after: int,
        losses: int = 0,
        which: EventFilter = ALL,
        is_visible: Callable[[EventRecord], bool] = lambda _: True,
        is_current: Callable[[], bool] = lambda: True,
    ) -> AsyncIterator[bytes]:
        """Yield the selected events after a number for one client, and heartbeat comments, until the gateway drains, or
        events are lost: what the client has seen is then decided when it comes again.

        `losses` are those that there were when the number was looked up. `is_visible` tells whether the client may see
        an event. `is_current` tells whether it is still to be served, and is called in a thread: every
        HEARTBEAT_SECONDS, whatever else is sent. A heartbeat follows. It also tells the number that the client has
        reached, if events were left out since the last one.
        """
        # The number comes first: a client that is cut off before any event resumes here.
        yield b": attachment gateway\nid: %b\n\n" % self._identifier(after)
        due = monotonic() + HEARTBEAT_SECONDS
        announced = after
        while not self._ended and self.losses == losses:
            if monotonic() >= due:
                due = monotonic() + HEARTBEAT_SECONDS
                if not await run_in_threadpool(is_current):
                    return
                yield (
                    b": still here\n\n" if announced == after else b": still here\nid: %b\n\n" % self._identifier(after)
                )
                announced = after
            news = self._news
            events: Sequence[EventRecord] = ()
            if self._newest > after:
                if self._recent and self._recent[0].number <= after + 1:
                    events = [event for event in self._recent if event.number > after]
                else:
                    events = await run_in_threadpool(self._after, after)
            if self.losses != losses:
                return
            if events:
                after = events[-1].number
                if selected := [event for event in events if which.selects(event) and is_visible(event)]:
                    announced = selected[-1].number
                    yield b"".join(map(self._encode, selected))
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), max(0.0, due - monotonic()))

    @property
    def has_ended(self) -> bool:
        """Whether the gateway drains, so that no events follow."""
        return self._ended

    @contextmanager
    def awaiting(self, subject: str) -> Iterator[asyncio.Event]:
        """Return a signal that is set by the next event about a subject, or when the gateway drains.

        Waiting costs neither a thread nor a query. Events that were logged before the block may set it, too.
        """
        signal = asyncio.Event()
        self._awaited[subject].add(signal)
        if self._ended:
            signal.set()
        try:
            yield signal
        finally:
            self._awaited[subject].discard(signal)
            if not self._awaited[subject]:
                del self._awaited[subject]

    def _identifier(self, number: int) -> bytes:
        return self._gateway.events.logs.known.identify(number).encode()

    def _encode(self, event: EventRecord) -> bytes:
        data = json.dumps(cloud_event(event, self._gateway.events.logs.known)).encode()
        return b"id: %b\ndata: %b\n\n" % (self._identifier(event.number), data)


def _set_all(signals: Iterable[asyncio.Event]) -> None:
    for signal in signals:
        signal.set()
