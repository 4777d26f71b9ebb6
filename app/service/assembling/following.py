"""Assembly of the journal that receivers share, by the keeper: it follows the archive.

Receivers publish segments in one order. So this is the replay that follows a restart, begun again whenever there is a
new segment. What fails leaves nothing behind: the state in memory is dropped, and the next attempt continues at the
last checkpoint. At first it records what the archive has and the catalog lacks: the catalog may be an older copy.
"""

from collections import deque
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import Any

from app.model.errors import CatalogChanged
from app.observe import Recurring, logger
from app.service.assembling.assembler import Assembler
from app.service.context import ArchiveContext, Change
from app.service.finishing.finisher import Finisher
from app.service.finishing.stored_parts import CompleteAttachment
from app.service.receiving.publishing import record_archived
from app.service.threads import Worker, repeat

FOLLOW_SECONDS = 0.25
RETRY_SECONDS = 2.0
SEARCH_SECONDS = 5.0
"""The time between two searches for attachments that another process wants to have finished again."""

log = logger(__name__)


class Following:
    """Assembles and finishes what has been published, until `stop` is set. `sent_again` gets finished attachments that
    came again."""

    def __init__(
        self, context: ArchiveContext, sent_again: Callable[[CompleteAttachment], object], stop: Event
    ) -> None:
        self._catalog, self._archive, self._stop = context.catalog, context.journal, stop
        self._changes: deque[Change] = deque()
        self._finisher = Finisher(context, self.between)
        self._assembler = Assembler(context, self._finisher.queue.put, sent_again)
        self._fault = Recurring(log, "assembly")
        self._is_recovered = False
        """Whether finishing has found what was left complete: by an earlier process, or when something failed."""
        self._searched_at = monotonic()
        self.workers = [Worker("assemble", self._run), Worker("finish", self._finisher.run)]

    def between(self, change: Change) -> None:
        """Have a change made of assembled attachments, between two segments."""
        self._changes.append(change)

    def end(self) -> None:
        """Stop the workers. The event `stop` must be set."""
        self._finisher.queue.stop()

    def check(self) -> dict[str, Any]:
        """Return the state of assembly for the health report."""
        error = self._fault.error
        return {"ok": error is None, "by": "keeper", "error": error, "finishing": self._finisher.check()}

    def _run(self) -> None:
        try:
            repeat(FOLLOW_SECONDS, self._stop, self._follow)
        finally:
            self._assembler.close()

    def _follow(self) -> None:
        try:
            if not self._is_recovered:
                record_archived(self._catalog, self._archive)
                self._finisher.recover()
                self._is_recovered = True
            elif monotonic() - self._searched_at >= SEARCH_SECONDS:
                self._finisher.queue.search()
                self._searched_at = monotonic()
            while self._changes:
                self._assembler.change(self._changes.popleft())
            if self._catalog.published() > (self._catalog.progress() or 0):
                self._assembler.recover()
        except CatalogChanged as error:
            log.info("assembly_restarted", reason=str(error))
            self._forget()
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
            self._forget()
            self._stop.wait(RETRY_SECONDS)
        else:
            self._fault.worked()

    def _forget(self) -> None:
        """Drop the state in memory. A checkpoint may have been made, but not the steps after it."""
        self._assembler.forget()
        self._is_recovered = False
