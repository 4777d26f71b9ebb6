"""The newest events, encoded as CloudEvents 1.0 and sent to any number of clients.

One task waits for new events, in a single thread, and keeps the newest ones in memory. Each client has only its
position in the event log. It is served from memory, or from the catalog when its position is older.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from time import monotonic

from starlette.concurrency import run_in_threadpool

from app.model.records import EventRecord
from app.observe import Recurring, logger
from app.service.gateway import Gateway
from app.web.times import to_time

HEARTBEAT_SECONDS = 15.0
WAIT_SECONDS = 1.0
KEPT = 1000
AT_ONCE = 500

log = logger(__name__)

Visible = Callable[[Sequence[EventRecord]], Sequence[EventRecord]]


class Feed:
    """The newest events, and a signal for newer ones."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._recent: deque[EventRecord] = deque(maxlen=KEPT)
        self._news = asyncio.Event()
        self._newest = 0
        self._ended = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Feed"]:
        """Follow the gateway's events within the block."""
        self._newest = await run_in_threadpool(self._gateway.catalog.last_event)
        with ThreadPoolExecutor(1, "events") as executor:
            following = asyncio.create_task(self._follow(executor))
            try:
                yield self
            finally:
                self._end()
                self._gateway.notifier.notify()
                await following

    async def _follow(self, executor: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        fault = Recurring(log, "event_feed")
        while not (self._gateway.draining or self._ended):
            try:
                events = await loop.run_in_executor(executor, self._gateway.wait_events, self._newest, WAIT_SECONDS)
            except Exception as error:  # noqa: BLE001 - `fault` logs it
                fault.failed(error)
                await asyncio.sleep(WAIT_SECONDS)
                continue
            fault.worked()
            if events:
                self._recent.extend(events)
                self._newest = events[-1].number
                self._ring()
        self._end()

    def _end(self) -> None:
        self._ended = True
        self._ring()

    def _ring(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def stream(
        self, after: int, visible: Visible | None = None, is_current: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[bytes]:
        """Yield the events after a number for one client, and heartbeat comments, until the gateway drains.

        `visible` chooses the events that the client may see; None: it may see all. `is_current` tells whether it is
        still to be served, and is asked every HEARTBEAT_SECONDS. Both are called in a thread.
        """
        yield b": attachment gateway\n\n"
        asked = monotonic()
        while not self._ended:
            if monotonic() - asked >= HEARTBEAT_SECONDS:
                asked = monotonic()
                if not await run_in_threadpool(is_current):
                    return
            news = self._news
            events = await self._behind(after)
            if events:
                after = events[-1].number
                if visible is not None:
                    events = await run_in_threadpool(visible, events)
                yield b"".join(map(_encode, events))
                continue
            try:
                await asyncio.wait_for(news.wait(), HEARTBEAT_SECONDS)
            except TimeoutError:
                yield b": still here\n\n"

    async def _behind(self, after: int) -> Sequence[EventRecord]:
        if after >= self._newest:
            return ()
        if self._recent and self._recent[0].number <= after + 1:
            return [event for event in self._recent if event.number > after]
        return await run_in_threadpool(self._gateway.catalog.events_after, after, AT_ONCE)


def _encode(event: EventRecord) -> bytes:
    body = {
        "specversion": "1.0",
        "id": str(event.number),
        "source": "/v1/events",
        "type": event.type,
        "subject": event.subject,
        "time": to_time(event.time).isoformat(),
        "datacontenttype": "application/json",
        "data": event.data,
    }
    return f"id: {event.number}\ndata: {json.dumps(body)}\n\n".encode()
