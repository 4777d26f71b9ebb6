"""The queue between the journal and assembly, and the thread that empties it.

When the catalog fails (a full disk, no connection to the database), the state in memory is dropped. The journal is
replayed once the catalog works again. Meanwhile the queue fills, and the brokers wait.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Event
from typing import Any, NamedTuple

from app.model.errors import CatalogChanged
from app.model.message import PhysicalMessage, Position
from app.observe import Recurring, logger
from app.service.assembling.assembler import Assembler
from app.service.context import Change

QUEUED_BATCHES = 3
AT_ONCE = 512
"""The number of messages from which on no more are assembled together."""
RETRY_SECONDS = 0.5

log = logger(__name__)


class Work(NamedTuple):
    """Messages to assemble, in the journal's order."""

    positions: Sequence[Position]
    messages: Sequence[PhysicalMessage]


class AssemblyQueue:
    """At most `QUEUED_BATCHES` batches of messages that the journal has, and changes to be made between two messages.

    Any thread may put something in; one takes it out.
    """

    def __init__(self) -> None:
        self._queue: Queue[Work | None] = Queue(QUEUED_BATCHES)
        self.changes: deque[Change] = deque()
        self.stopping = Event()

    def put(self, positions: Sequence[Position], messages: Sequence[PhysicalMessage]) -> None:
        """Queue messages; wait while the queue is full. After `stop`, drop them: the journal has them."""
        work = Work(positions, messages)
        while not self.stopping.is_set():
            try:
                self._queue.put(work, timeout=RETRY_SECONDS)
            except Full:
                continue
            return

    def between(self, change: Change) -> None:
        """Have a change made between two messages, after everything before it is in the catalog."""
        self.changes.append(change)
        with suppress(Full):
            self._queue.put_nowait(Work([], []))

    def take(self, before_waiting: Callable[[], None] = lambda: None) -> Work | None:
        """Return all queued messages, at most about `AT_ONCE`; wait for the first. Return None after `stop`."""
        try:
            work = self._queue.get_nowait()
        except Empty:
            before_waiting()
            return None if self.stopping.is_set() else self._queue.get()
        if work is None or self._queue.empty():
            return work
        positions, messages = [*work.positions], [*work.messages]
        with suppress(Empty):
            while len(messages) < AT_ONCE and (more := self._queue.get_nowait()) is not None:
                positions += more.positions
                messages += more.messages
        return Work(positions, messages)

    def stop(self) -> None:
        """Queue nothing more. What is queued is still assembled."""
        self.stopping.set()
        with suppress(Full):
            self._queue.put_nowait(None)


class QueuedAssembly:
    """Assembles what is queued, in one thread. A checkpoint is made when nothing is left to do, if not before."""

    def __init__(self, queue: AssemblyQueue, assembler: Assembler, finish_what_is_left: Callable[[], None]) -> None:
        self._queue, self._assembler, self._finish_what_is_left = queue, assembler, finish_what_is_left
        self._fault = Recurring(log, "assembly")

    def run(self) -> None:
        """Assemble queued messages until the queue is stopped, and then the messages that were queued before."""
        try:
            while not self._assemble_all():
                if not self._start_over():
                    return
        finally:
            self._assembler.close()

    def check(self) -> dict[str, Any]:
        """Return the state of assembly for the health report."""
        return {"ok": self._fault.error is None, "error": self._fault.error}

    def _assemble_all(self) -> bool:
        """Assemble queued messages until the end. Return False when something failed."""
        try:
            while (work := self._queue.take(self._assembler.save)) is not None:
                while self._queue.changes:
                    self._assembler.change(self._queue.changes.popleft())
                self._assembler.assemble(*work)
                self._assembler.save_if_due()
            self._assembler.save()
        except CatalogChanged as error:
            log.info("assembly_restarted", reason=str(error))
            return False
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
            return False
        return True

    def _start_over(self) -> bool:
        """Replay the journal until that works. Return False when it did not work before the queue was stopped.

        The last checkpoint may have been made, but not the steps after it. Finishing finds what was left.
        """
        while not self._queue.stopping.wait(RETRY_SECONDS):
            self._assembler.forget()
            try:
                self._assembler.recover()
                self._finish_what_is_left()
            except Exception as error:  # noqa: BLE001 - `Recurring` logs it
                self._fault.failed(error)
            else:
                self._fault.worked()
                return True
        return False
