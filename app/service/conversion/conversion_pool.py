"""The pool of processes that convert.

A conversion has a slot: a thread of the pool that waits for its process, and the process from the first conversion on.
So conversions take no thread from anything else. Slots are few. A request that waits for one holds only a coroutine,
and the number of waiting requests is limited.

Cancelling the work in a slot kills the process. That ends the thread's waiting, whatever the process was doing.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any, TypeVar

from app.model.errors import GatewayError, LimitExceeded
from app.observe import logger
from app.service.conversion.conversion_places import ConversionPlaces, SlotUse
from app.service.conversion.conversion_worker import ConversionPiece, ConversionTask, Done, Failed, work
from app.settings import Limits

log = logger(__name__)
T = TypeVar("T")
Converting = Callable[..., Generator[bytes | memoryview, None, T]]

_PRELOADED = [
    "app.service.conversion.low_priority",
    "__main__",
    "app.service.conversion.conversion_jobs",
    "app.service.conversion.conversion_worker",
    "app.service.sending.dry_run",
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
        """Start a process, so that the first conversion need not wait for the imports."""
        self._threads.submit(lambda: self.give_back(_Worker(self._limits.conversion_memory)))

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
        async with self._places.taken(use, who):
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
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(_retrieved)  # also if a forced stop cancels a second time
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


def _retrieved(future: "asyncio.Future[Any]") -> None:
    """Mark the exception of a future as retrieved: the caller gets the cancellation."""
    if not future.cancelled():
        future.exception()


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
            raise self._death(job) from error
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

    def _death(self, job: ConversionTask) -> Exception:
        self._process.join(_END_SECONDS)
        code = self._process.exitcode
        if code == -signal.SIGXCPU:
            return _too_long(job.seconds)
        if code in _SAYS_MEMORY:
            return self._too_large()
        return GatewayError(f"the process of a conversion ended with exit code {code}")
