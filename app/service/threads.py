"""The threads of a process: workers, how they wake each other, how they share Python and memory, and when it collects
garbage."""

import asyncio
import ctypes
import gc
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Condition, Event, Thread, current_thread
from typing import TypeVar

from app.observe import Recurring, logger

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 16
"""The number of threads that wait for disks or for the network at the same time."""

SWITCH_SECONDS = 0.0005

log = logger(__name__)


class Worker:
    """Runs `work` in a daemon thread until it returns. A worker that raises is logged and stays `failed`."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self.name, self.failed = name, False
        self._work = work
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout: float | None = None) -> None:
        if self._thread.ident is not None:
            self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._work()
        except Exception:
            self.failed = True
            log.exception("worker_failed", worker=self.name)


def repeat(every: float, stop: Event, work: Callable[[], None]) -> None:
    """Call `work` every `every` seconds until `stop` is set. An error is logged once, and the next call tries again."""
    fault = Recurring(log, "periodic_work", worker=current_thread().name)
    while not stop.wait(every):
        try:
            work()
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            fault.failed(error)
        else:
            fault.worked()


def periodic(stop: Event) -> Callable[[float, str, Callable[[], None]], Worker]:
    """Return a function that makes workers, each of a number of seconds, a name, and the work that it repeats until
    `stop` is set."""

    def every(seconds: float, name: str, work: Callable[[], None]) -> Worker:
        return Worker(name, lambda: repeat(seconds, stop, work))

    return every


def together(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the result of `work` for each item, in their order, from several threads.

    Use it for work that waits for disks or for the network. The first error is raised after all work has ended.
    """
    if len(items) <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(len(items), AT_ONCE), "together") as pool:
        return list(pool.map(work, items))


class Notifier:
    """Wakes every waiter when notified. `notifications` counts, so that a waiter misses none between two calls. The
    lock of `_changed` guards `notifications`."""

    def __init__(self) -> None:
        self._changed = Condition()
        self.notifications = 0

    def notify(self) -> None:
        with self._changed:
            self.notifications += 1
            self._changed.notify_all()

    def wait(self, seen: int, timeout: float) -> int:
        """Wait until there were more notifications than `seen`, or for `timeout` seconds; return their number."""
        with self._changed:
            self._changed.wait_for(lambda: self.notifications > seen, timeout)
            return self.notifications


THRESHOLDS = (50_000, 20, 50)


async def uncancelled(work: "asyncio.Future[R]") -> R:
    """Return the result of work, which goes on if this waiting is cancelled. From Python 3.14 on, `asyncio.shield`
    would then log an error of the work as unexpected."""
    await asyncio.wait([work])
    return await work


def switch_soon() -> None:
    """Let a thread that computes give way soon to others that wait for Python's lock.

    When many threads are at work, the event loop would otherwise wait 5 ms for each of them.
    """
    sys.setswitchinterval(SWITCH_SECONDS)


def collect_seldom() -> None:
    """Exempt all present objects from garbage collection, and collect the others seldom.

    Messages make many short-lived objects and no cycles. Collecting seldom saves a tenth of the processor time.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


MALLOC_OPTIONS = {"M_ARENA_MAX": (-8, 2), "M_MMAP_THRESHOLD": (-3, 8 << 20), "M_TRIM_THRESHOLD": (-1, 16 << 20)}
"""Options of glibc's allocator, by name: the number and the value of each."""


def keep_memory() -> None:
    """Keep little of what many threads have freed, and 16 MiB of what any of them needs again soon.

    By default each thread has an arena. Each freed piece of content goes back to the system, and the next one is taken
    from it page by page, which takes a tenth of the processor time of a download.
    """
    with suppress(AttributeError, OSError):  # another C library
        library = ctypes.CDLL(None)
        for number, value in MALLOC_OPTIONS.values():
            library.mallopt(number, value)
