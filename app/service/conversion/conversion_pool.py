"""The pool of processes that convert.

A conversion has a slot: a thread of the pool that waits for its process, and the process from the first conversion on.
So conversions take no thread from anything else. Slots are few. A request that waits for one holds only a coroutine,
and the number of waiting requests is limited.

Cancelling the work in a slot kills the process. That ends the thread's waiting, whatever the process was doing.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from enum import Enum, auto
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Lock, Thread
from typing import Any, TypeVar

from app.model.errors import GatewayError, LimitExceeded
from app.observe import logger
from app.service.conversion.conversion_worker import ConversionPiece, ConversionTask, Done, Failed, work
from app.service.threads import uncancelled
from app.settings import Limits

WAIT_SECONDS = 60.0
"""The longest time that a conversion waits for a place."""
_CALLERS = 10_000
"""The maximum number of callers whose last grant is in memory."""


class Busy(Exception):
    """All places are in use, and the maximum number of conversions waits."""


class SlotUse(Enum):
    """What a place is for."""

    UPLOAD = auto()
    DOWNLOAD = auto()
    QUERY = auto()


class _Waiter:
    def __init__(self, use: SlotUse, who: str) -> None:
        self.use, self.who = use, who
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def has_place(self) -> bool:
        return self.granted.done() and not self.granted.cancelled() and self.granted.exception() is None


class ConversionPlaces:
    """The places. Only the thread of the event loop may use them.

    Downloads leave one free for uploads, since their clients may be slow. Queries, which may be endless, have places of
    their own, and each caller leaves one of them to others.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: list[_Waiter] = []
        self._held: Counter[tuple[SlotUse, str]] = Counter()
        self._last_grants: dict[str, int] = {}
        self._grants = count(1)

    @asynccontextmanager
    async def hold(self, use: SlotUse, who: str) -> AsyncIterator[None]:
        """Hold a place of a caller for the length of the block. Raises Busy."""
        waiter = _Waiter(use, who)
        self._waiting.append(waiter)
        self._grant()
        if not waiter.granted.done():
            self._refuse_one_too_many(use)
        try:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await waiter.granted
            except TimeoutError:
                raise Busy(f"no conversion ended for {WAIT_SECONDS:.0f} seconds") from None
            yield
        finally:
            if waiter.has_place:
                self._held[use, who] -= 1
                self._held += Counter()  # removes the callers without a place
            else:
                self._waiting = [each for each in self._waiting if each is not waiter]
            self._grant()

    def _grant(self) -> None:
        """Give the free places to the waiting callers with the fewest places, longest ungranted first."""
        for waiter in sorted(
            self._waiting, key=lambda each: (self._held[each.use, each.who], self._last_grants.get(each.who, 0))
        ):
            if not waiter.granted.done() and self._is_free(waiter.use, waiter.who):
                waiter.granted.set_result(None)
                self._held[waiter.use, waiter.who] += 1
                self._last_grants.pop(waiter.who, None)
                self._last_grants[waiter.who] = next(self._grants)
                if len(self._last_grants) > _CALLERS:
                    del self._last_grants[next(iter(self._last_grants))]
        self._waiting = [each for each in self._waiting if not each.granted.done()]

    def _is_free(self, use: SlotUse, who: str) -> bool:
        if use is SlotUse.QUERY:
            own = self._held[use, who]
            return self._count(use) < self._limits.queries and own < self._limits.queries - 1
        downloads = self._count(SlotUse.DOWNLOAD)
        if use is SlotUse.DOWNLOAD and downloads >= max(1, self._limits.conversions - 1):
            return False
        return downloads + self._count(SlotUse.UPLOAD) < self._limits.conversions

    def _count(self, use: SlotUse) -> int:
        return sum(number for (of, _), number in self._held.items() if of is use)

    def _refuse_one_too_many(self, use: SlotUse) -> None:
        """Refuse the newest of the caller that has most waiting, if more wait than may."""
        waiting = [each for each in self._waiting if each.use is use and not each.granted.done()]
        if len(waiting) <= self._limits.conversions_waiting:
            return
        ((most, _),) = Counter(each.who for each in reversed(waiting)).most_common(1)
        newest = next(each for each in reversed(waiting) if each.who == most)
        running = self._limits.queries if use is SlotUse.QUERY else self._limits.conversions
        newest.granted.set_exception(Busy(f"{running} conversions run and {len(waiting) - 1} wait; try again later"))


log = logger(__name__)
T = TypeVar("T")
Converting = Callable[..., Generator[bytes | memoryview, None, T]]

_PRELOADED = [
    "app.service.conversion.low_priority",
    "__main__",
    "app.service.conversion.conversion_jobs",
    "app.service.conversion.conversion_worker",
    "app.service.sending.delivery_creation",
    "pyarrow.dataset",
]
_SAYS_MEMORY = {-signal.SIGABRT, -signal.SIGKILL, -signal.SIGSEGV}
_END_SECONDS = 5.0


class Conversions:
    """The slots, their threads and processes. The lock guards `_idle`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._places = ConversionPlaces(limits)
        self._threads = ThreadPoolExecutor(limits.conversions + limits.queries, "convert")
        self._idle: list[_Worker] = []
        self._lock = Lock()

    def warm(self) -> None:
        """Start a process, so that the first conversion need not wait for the imports, nor the program's end for it."""
        Thread(target=lambda: self.give_back(self.take()), name="warm", daemon=True).start()

    async def close(self) -> None:
        """End the idle processes. All slots must have been given back."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()
        self._threads.shutdown(wait=False)

    @asynccontextmanager
    async def slot(self, use: SlotUse = SlotUse.UPLOAD, who: str = "") -> "AsyncIterator[Slot]":
        """Yield a slot for the length of the block, when it is the turn of this caller. Raises Busy."""
        async with self._places.hold(use, who):
            slot = Slot(self, self._threads)
            try:
                yield slot
            finally:
                await slot.end()

    def take(self) -> "_Worker":
        """Return an idle process, or a new one. Blocks for some milliseconds."""
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.is_alive():
                    return worker
        return _Worker(self._limits.conversion_memory)

    def give_back(self, worker: "_Worker") -> None:
        with self._lock:
            self._idle.append(worker)

    @property
    def seconds(self) -> float:
        """The time that a conversion may take."""
        return self._limits.conversion_time.total_seconds()


class Slot:
    """One conversion at a time, in the pool's thread and in a process. The lock guards `_worker` and `_ended`."""

    def __init__(self, pool: Conversions, threads: ThreadPoolExecutor) -> None:
        self._pool, self._threads = pool, threads
        self._worker: _Worker | None = None
        self._ended = False
        self._lock = Lock()
        self._running: asyncio.Future[Any] | None = None

    async def do(self, blocking: Callable[[], T]) -> T:
        """Call `blocking` in the pool's thread and return its result. `blocking` may call `run`.

        Kills the process when cancelled. Raises what `blocking` raises.
        """
        future = asyncio.get_running_loop().run_in_executor(self._threads, blocking)
        self._running = future
        try:
            return await uncancelled(future)
        except asyncio.CancelledError:
            # The caller gets the cancellation, also if a forced stop cancels a second time.
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
            self.kill()
            await asyncio.wait([future])
            raise

    async def within_time(self, blocking: Callable[[], T]) -> T:
        """Call `blocking` as `do` does. Raises LimitExceeded when it takes too long."""
        try:
            async with asyncio.timeout(self._pool.seconds):
                return await self.do(blocking)
        except TimeoutError:
            raise _too_long(self._pool.seconds) from None

    def run(self, function: Converting[T], *given: Any) -> Generator[bytes, None, T]:
        """Run a generator function in the process; yield its bytes and return its result.

        The function and its arguments are pickled. Raises LimitExceeded, and what the function raises.
        """
        self.check()
        with self._lock:
            worker = self._worker
        if worker is None:
            worker = self._pool.take()
            with self._lock:
                self._worker = worker
                if self._ended:
                    worker.kill()
        try:
            result: T = yield from worker.pieces(ConversionTask(function, given, max(1, round(self._pool.seconds))))
        except LimitExceeded as error:
            if not self._ended:
                log.warning("conversion_stopped", limit=error.limit, reason=str(error))
            raise
        finally:
            if worker.is_last or worker.is_busy:
                self._worker = None
                worker.kill()
        return result

    def check(self) -> None:
        """Raise GatewayError when the conversion must end. It is for conversions in the thread itself."""
        if self._ended:
            raise GatewayError("the conversion was ended")

    def kill(self) -> None:
        """End the conversion at once. Any thread may call it."""
        with self._lock:
            self._ended = True
            if self._worker is not None:
                self._worker.kill()

    async def end(self) -> None:
        if self._running is not None and not self._running.done():
            self.kill()
            await asyncio.wait([self._running])
        with self._lock:
            worker, self._worker = self._worker, None
            usable = worker is not None and not (self._ended or worker.is_busy or worker.is_last)
            self._ended = True
        if worker is None:
            return
        if usable:
            self._pool.give_back(worker)
        else:
            worker.kill()
            worker.close()


def finished(pieces: Generator[bytes | memoryview, None, T]) -> T:
    """Return the result of a conversion; its bytes are dropped."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result


def _too_long(seconds: float) -> LimitExceeded:
    return LimitExceeded("conversion_time", f"the conversion took longer than {seconds:g} s")


class _Worker:
    """A process and the connection to it."""

    def __init__(self, memory: int) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload(_PRELOADED)
        self._memory = memory
        self._connection: Connection
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, memory), name="conversion", daemon=True)
        self._process.start()
        theirs.close()
        self.is_busy = self.is_last = False

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def pieces(self, job: ConversionTask) -> Generator[bytes, None, Any]:
        """Yield the pieces of a job and return its result."""
        self.is_busy = True
        try:
            self._connection.send(job)
            while isinstance(message := self._connection.recv(), ConversionPiece):
                yield self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            self._process.join(_END_SECONDS)
            code = self._process.exitcode
            if code == -signal.SIGXCPU:
                raise _too_long(job.seconds) from error
            if code in _SAYS_MEMORY:
                raise self._too_large() from error
            raise GatewayError(f"the process of a conversion ended with exit code {code}") from error
        self.is_busy = False
        if isinstance(message, Done):
            self.is_last = message.is_last
            return message.result
        assert isinstance(message, Failed)
        self.is_last = message.out_of_memory
        raise self._too_large() if message.out_of_memory else message.error()

    def kill(self) -> None:
        """End the process; callers that wait for it get an error."""
        if self._process.is_alive():
            self._process.kill()

    def close(self) -> None:
        """Let the process end after its current job."""
        self._connection.close()

    def _too_large(self) -> LimitExceeded:
        return LimitExceeded("conversion_memory", f"the conversion took more memory than {self._memory:,} bytes")
