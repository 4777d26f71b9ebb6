"""The host of assembly: this process (`app.service.stream.Embedded`), or another one that reads the same journal.

Either way the results are in the catalog and the content store. The gateway does the rest: it receives, settles,
expires, retires segments, sends and answers.
"""

from collections.abc import Sequence
from threading import Event
from typing import Any, NamedTuple, Protocol

from app.model.message import PhysicalMessage, Position
from app.ports import JournalReader
from app.service.context import Change, ServiceContext, at_once
from app.service.threads import Worker, repeat

STOP_SECONDS = 20.0
LISTEN_SECONDS = 0.5


class AssemblyHost(Protocol):
    """The functions of a host of assembly that the gateway calls."""

    workers: list[Worker]

    def put(self, positions: Sequence[Position], messages: Sequence[PhysicalMessage]) -> None:
        """Take messages that the journal has written; wait while there is no room for them."""

    def recover(self) -> None:
        """Do the work that an earlier process left. Call it before anything is written to the journal."""

    def stop(self) -> None:
        """Stop the workers after they have assembled everything in the journal."""

    def between(self, change: Change) -> None:
        """Have a change made of assembled attachments, between two messages."""

    def begin_again(self) -> None:
        """Forget what was read from the catalog: its database was started or put back."""

    def finish_again(self, attachment_id: str) -> None:
        """Have the content of a complete attachment read again."""

    def may_go(self, segment: int) -> bool:
        """Tell whether assembly no longer needs a segment that it has passed and that no attachment needs."""

    def check(self) -> dict[str, Any]:
        """Return the state of assembly for the health report."""


class AssembledElsewhere:
    """Leaves assembly to the keeper, or to a job, that reads what several receivers have published."""

    def __init__(self, context: ServiceContext) -> None:
        self._by = "spark" if context.settings.assembler == "spark" else "keeper"
        self.workers: list[Worker] = []

    def put(self, positions: Sequence[Position], messages: Sequence[PhysicalMessage]) -> None:
        """Do nothing: the messages are published later."""

    def recover(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def between(self, change: Change) -> None:
        """Make a change at once: it is counted, so that assembly notices it."""
        at_once(change)

    def begin_again(self) -> None:
        """Do nothing: another process assembles."""

    def finish_again(self, attachment_id: str) -> None:
        """Do nothing: whoever finishes searches the catalog for complete attachments."""

    def may_go(self, segment: int) -> bool:  # noqa: ARG002
        return True

    def check(self) -> dict[str, Any]:
        return {"ok": True, "by": self._by}


class Lag(NamedTuple):
    """The sealed part of a journal that is not in the catalog yet. `seconds` is how long its first segment has been
    sealed."""

    segments: int
    size: int
    seconds: float


def lag(journal: JournalReader, progress: int | None, now: int) -> Lag:
    """Return the lag of a catalog at this progress (packed position), at this time (µs)."""
    last = 0 if progress is None else Position.unpack(progress).segment
    waiting = [segment for segment in journal.segments() if segment.number > last and segment.sealed_at is not None]
    oldest = min((segment.sealed_at for segment in waiting if segment.sealed_at is not None), default=now)
    return Lag(len(waiting), sum(segment.size for segment in waiting), max(0.0, (now - oldest) / 1e6))


class Landing:
    """Leaves assembly to a job that reads sealed segments and writes the catalog."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._stopping = Event()
        self._reached: int | None = None
        self._reached_before: int | None = None
        self.workers = [Worker("listen", lambda: repeat(LISTEN_SECONDS, self._stopping, self._follow))]
        context.metrics.assembly_behind_segments.set_function(lambda: self._lag().segments)
        context.metrics.assembly_behind_seconds.set_function(lambda: self._lag().seconds)

    def put(self, positions: Sequence[Position], messages: Sequence[PhysicalMessage]) -> None:
        """Do nothing: the job reads the journal."""

    def recover(self) -> None:
        """Read how far the job is, which continues where it was."""
        self._reached = self._context.catalog.progress()

    def stop(self) -> None:
        self._stopping.set()
        for worker in self.workers:
            worker.join(STOP_SECONDS)

    def between(self, change: Change) -> None:
        """Make a change at once. `app.service.retention.expiry` informs the job."""
        at_once(change)

    def begin_again(self) -> None:
        """Read how far the job is: if it was further in what was lost, it does that again."""
        self._reached_before, self._reached = None, self._context.catalog.progress()

    def finish_again(self, attachment_id: str) -> None:
        """Do nothing: the next batch of the job reads every attachment that the catalog calls complete."""

    def may_go(self, segment: int) -> bool:
        """Tell whether the job no longer needs a segment.

        A job that is killed after it commits a batch, but before it notes that, does the same batch again. So segments
        after the progress before the last one stay. All segments stay while that progress is not known.
        """
        return self._reached_before is not None and segment <= Position.unpack(self._reached_before).segment

    def check(self) -> dict[str, Any]:
        behind = self._lag()
        return {"ok": True, "by": "spark", "behind": {"segments": behind.segments, "seconds": behind.seconds}}

    def _lag(self) -> Lag:
        """Return the lag of the job, as far as is known. It takes whole segments, so the segment of its progress is
        done."""
        return lag(self._context.journal, self._reached, self._context.clock.now())

    def _follow(self) -> None:
        progress = self._context.catalog.progress()
        if progress != self._reached:
            self._reached_before, self._reached = self._reached, progress
