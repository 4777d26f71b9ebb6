"""The role `receive`: from brokers to the journal, assembly, finishing, and the journal's own upkeep.

Every process has one of three: `OwnReceiving`; `ReceivingTogether`, if several receive
(`app.service.roles.receiving_together`); or `ReceivingElsewhere`, which knows what other processes receive only by the
catalog and the archive.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from shutil import disk_usage
from threading import Event
from typing import Any, Protocol

from app.framing.registry import framing
from app.model.errors import CatalogError, CatalogTaken, GatewayError
from app.ports import ContentStore, Receiver, Segment
from app.service.assembling.answering import Answers
from app.service.assembling.asking import Askers
from app.service.assembling.assembly_hosts import AssemblyHost, Landing
from app.service.content.content_damage import Damages
from app.service.context import ArchiveContext, Change, ReceiverContext, at_once
from app.service.quarantine.replays import Replayer, Replays, RequestedReplays
from app.service.receipts.receipt_replies import ReceiptReplies
from app.service.receiving.archiver import Archiver
from app.service.receiving.catalog_claim import claim, claim_again, keep_lock, require_journal
from app.service.receiving.journal_upkeep import JournalUpkeep, measure_journal, seal_old_segment
from app.service.repair.healing import Healer, Reading
from app.service.retention.receiving_time import CountedTime, SavedReceivingTime
from app.service.stream import Embedded, Stream
from app.service.threads import Worker, periodic

UPKEEP_SECONDS = 1.0
REPLAY_SECONDS = 1.0
ANSWER_SECONDS = 0.1
ASK_SECONDS = 0.5
STOP_SECONDS = 20.0
TAKEN_SECONDS = 0.5
LOOK_SECONDS = 2.0
"""The time after which a process looks again whether there are more archives."""
NO_SEGMENT = 1 << 62
"""A number behind all segments."""


class Receiving(Protocol):
    """What the other roles of a process need of receiving, wherever that happens."""

    @property
    def receivers(self) -> Mapping[str, Receiver]:
        """The receivers of the sources, by name."""

    @property
    def workers(self) -> Sequence[Worker]:
        """All threads."""

    @property
    def replayer(self) -> Replays:
        """What has quarantined messages processed again."""

    @property
    def times(self) -> CountedTime:
        """The receiving time of sources."""

    def recover(self) -> None:
        """Make sure that catalog and journal belong together, and do the work that an earlier process left. Raises
        GatewayError."""

    def start(self) -> None:
        """Start to receive."""

    def stop(self) -> None:
        """Stop to receive, and assemble everything that is in the journal."""

    def close(self) -> None:
        """Close the journal."""

    def begin_again(self) -> None:
        """Take nothing for granted that was read from the catalog: its database was started or put back."""

    def checks(self) -> dict[str, dict[str, Any]]:
        """Return the checks for the health report."""

    def between(self, change: Change) -> None:
        """Have a change made of assembled attachments, between two messages."""

    def free_bytes(self) -> int:
        """Return the free bytes of the disk that uploads must leave to others."""


class OwnReceiving:
    """Receives. `taken` is called when another gateway has taken over; nothing may be written any more.

    Sealed segments are copied to `archive` before they are retired. `before_retiring` is called before that.
    """

    def __init__(
        self,
        context: ReceiverContext,
        receivers: Mapping[str, Receiver],
        archive: ContentStore | None,
        damages: Damages,
        read: Reading,
        stop: Event,
        before_retiring: Callable[[], None],
        taken: Callable[[str], object],
    ) -> None:
        self._context, self.receivers = context, receivers
        self._damages, self._stop, self._taken = damages, stop, taken
        self._healer = Healer(context, damages, read, stop)
        is_elsewhere = context.settings.assembler == "spark"
        answering = {name for name, each in context.settings.sources.items() if framing(each.framing).has_answers}
        answered = {name: each for name, each in receivers.items() if name in answering}
        answers = Answers(context, answered) if answered and not is_elsewhere else None
        answer = None if answers is None else answers.put
        assembly: AssemblyHost = Landing(context) if is_elsewhere else Embedded(context, self._healer.put, answer)
        self.stream = Stream(context, receivers, assembly, stop)
        self.times = self.stream.times
        self._archiver = None if archive is None else Archiver(context, archive)
        self._upkeep = JournalUpkeep(context, self._may_go, before_retiring)
        self.between, self.free_bytes = assembly.between, context.journal.free_bytes
        self.replayer = Replayer(context, self.stream.intake.journal_again, assembly.finish_again, context.journal.end)
        every = periodic(stop)
        self._own_workers = [
            every(1.0, "receiving time", self.times.step),
            # Sealing has its own thread: slow work must not keep messages from readers of sealed segments.
            every(UPKEEP_SECONDS, "seal", partial(seal_old_segment, context)),
            every(UPKEEP_SECONDS, "retire", self._upkeep.retire_segments),
            every(1.0, "heal", self._healer.step),
            every(TAKEN_SECONDS, "taken", self._end_if_taken),
        ]
        if answers is not None:
            self._own_workers.append(every(ANSWER_SECONDS, "answer", answers.step))
        self._askers = Askers(context, receivers, self.times)
        if self._askers.has_sources:
            self._own_workers.append(every(ASK_SECONDS, "ask", self._ask))
        replies = ReceiptReplies(context, context.settings.receipts, receivers, stop)
        if replies.has_sources:
            self._own_workers.append(every(ASK_SECONDS, "receipt replies", partial(replies.step, context.catalog)))
        if context.settings.standby is None:  # otherwise the lease is watched
            self._own_workers.append(Worker("lock", self._keep_lock))
        if context.settings.is_catalog_shared:  # other processes may request replays
            self._own_workers.append(every(REPLAY_SECONDS, "replay", self.replayer.carry_out))
        if self._archiver is not None:
            self._own_workers.append(every(UPKEEP_SECONDS, "archive", self._archiver.archive))
        self.workers = [*self._own_workers, *self.stream.workers]
        measure_journal(context)

    def recover(self) -> None:
        """Make this process the one that receives for the catalog, and replay the journal behind it."""
        claim(self._context)
        self.stream.recover()

    def start(self) -> None:
        """Start all threads, the receivers last."""
        for worker in self._own_workers:
            worker.start()
        self.stream.start()

    def stop(self) -> None:
        """Let each stage end. The event `stop` must be set."""
        self.stream.stop()
        for worker in self._own_workers:
            worker.join(STOP_SECONDS)
        # All that is in the journal is archived, for those who read it while this process is away, or instead of it.
        if self._archiver is not None and self._archiver.check()["ok"]:
            with suppress(GatewayError):  # the next process archives it
                self._context.journal.seal()
                self._archiver.archive()
        self.times.finish()

    def close(self) -> None:
        """Close the journal."""
        self._context.journal.close()

    def begin_again(self) -> None:
        """Assemble again behind the catalog's progress. End the process if the journal lacks what is behind it."""
        try:
            claim_again(self._context)
        except CatalogError:
            raise  # it is tried again
        except GatewayError as error:
            self.stream.backlog.stop()
            self._stop.set()
            self._taken(str(error))
            return
        self.times.read()
        self.stream.assembly.begin_again()

    def checks(self) -> dict[str, dict[str, Any]]:
        """Return the checks of journal, assembly and archive."""
        archived = {} if self._archiver is None else {"archive": self._archiver.check()}
        return {"journal": self.stream.check(), "assembly": self.stream.assembly.check(), **archived}

    def _ask(self) -> None:
        if self._askers.mark():
            self._askers.ask(self._context.catalog)

    def _may_go(self, segment: Segment) -> bool:
        archived = self._archiver is None or self._archiver.has(segment)
        return archived and self.stream.assembly.may_go(segment.number)

    def _end_if_taken(self) -> None:
        """End this process when it cannot write the journal any more. It may hold the lease, for which others wait."""
        backlog = self.stream.backlog
        if backlog.is_stopping and not self._stop.is_set():
            self._taken(backlog.holding or "another gateway has opened the journal")

    def _keep_lock(self) -> None:
        """Stop the gateway when another one has taken over. Brokers give it the messages that are not acknowledged."""
        try:
            keep_lock(self._context, self._stop)
        except CatalogTaken as error:
            self.stream.backlog.stop()
            self._stop.set()
            self._taken(str(error))
            raise


class ReceivingElsewhere:
    """What a process knows of receiving that another process does, or nobody: what catalog and archive have.

    `taken` is called when a batch has added archives to the one that this process reads: from then on, numbers of
    segments in the catalog may be of another archive.
    """

    def __init__(self, context: ArchiveContext, stop: Event, taken: Callable[[str], object]) -> None:
        self._context, self._taken = context, taken
        is_of_one = context.catalog.combined(NO_SEGMENT) is None
        every = periodic(stop)
        self.workers: Sequence[Worker] = [every(LOOK_SECONDS, "archives", self._look)] if is_of_one else []
        self.receivers: Mapping[str, Receiver] = {}
        self.times = SavedReceivingTime(context.catalog)
        self.replayer = RequestedReplays(context.catalog)

    def recover(self) -> None:
        """Raise GatewayError when archive and catalog do not belong together."""
        require_journal(self._context)

    def start(self) -> None:
        """Look from time to time whether the archive is still the only one."""
        for worker in self.workers:
            worker.start()

    def stop(self) -> None:
        """End that. The event `stop` must be set."""
        for worker in self.workers:
            worker.join(STOP_SECONDS)

    def close(self) -> None:
        """Do nothing: an archive is not closed."""

    def _look(self) -> None:
        if self._context.catalog.combined(NO_SEGMENT) is not None:
            self._taken("the catalog has results of several archives now, and this process reads one: start it again")

    def begin_again(self) -> None:
        """Do nothing: everything is read from the catalog when it is needed."""

    def checks(self) -> dict[str, dict[str, Any]]:
        """Return nothing: a failing archive fails the requests that need it, and no others."""
        return {}

    def between(self, change: Change) -> None:
        """Make a change at once."""
        at_once(change)

    def free_bytes(self) -> int:
        """Return the free bytes of the disk of the data folder."""
        return disk_usage(self._context.settings.data).free
