"""The role `receive` of several processes: from brokers to the own journal, and from there to the shared one.

A message is acknowledged once it is in the receiver's own journal, on its disk. The archive has it soon after
(`app.service.receiving.publishing`). The keeper, or a job on Spark, assembles what is there. A receiver that is asked
to leave for good stays out until its process is started again (`app.service.receiving.leaving`).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Any

from app.model.errors import GatewayError
from app.ports import HeldLease, Receiver
from app.service.assembling.asking import Askers
from app.service.assembling.assembly_hosts import AssembledElsewhere
from app.service.context import ArchiveContext, Change, WriterContext, at_once
from app.service.quarantine.replays import Replayer
from app.service.receipts.receipt_replies import ReceiptReplies
from app.service.receiving.catalog_claim import require_journal
from app.service.receiving.journal_upkeep import measure_journal, seal_old_segment
from app.service.receiving.leaving import Leaving
from app.service.receiving.own_segments import OwnSegments
from app.service.receiving.publishing import Publisher
from app.service.retention.receiving_time import SavedReceivingTime
from app.service.stream import Stream
from app.service.threads import Worker, periodic

PUBLISH_SECONDS = 0.25
UPKEEP_SECONDS = 1.0
LEAVE_SECONDS = 1.0
REPLAY_SECONDS, REPLAY_LEASE_SECONDS = 1.0, 30.0
ASK_SECONDS, ASK_LEASE_SECONDS = 1.0, 30.0
ASKING = "asking"
"""The lease of the receiver that asks senders for missing parts."""
REPLYING = "receipt replies"
"""The lease of the receiver that sends receipts to senders."""
REPLAYS = "replays"
"""The lease of the receiver that journals messages of the quarantine again."""
STOP_SECONDS = 20.0


class ReceivingTogether:
    """Receives into the journal of `own`. `context` has the journal that all receivers share: the archive. `taken` is
    called when another receiver has taken over; nothing may be acknowledged any more."""

    def __init__(
        self,
        context: ArchiveContext,
        own: WriterContext,
        receivers: Mapping[str, Receiver],
        stop: Event,
        taken: Callable[[str], object],
    ) -> None:
        self._context, self._own, self.receivers = context, own, receivers
        self._stop, self._taken = stop, taken
        archive, journal, catalog = context.journal, own.journal, context.catalog
        sessions = {name: found.name for name, each in receivers.items() if (found := each.session()) is not None}
        self._publisher = Publisher(own, archive, {own.settings.named(name) for name in receivers}, sessions)
        # In an older copy of the journal, or if it has lost its end, new messages must not be taken for published ones.
        journal.reserve(self._publisher.last_published())
        place, journal_id = self._publisher.place, journal.identity().id
        self._receiving_ends = ends = Event()
        self.stream = stream = Stream(own, receivers, AssembledElsewhere(own), ends, place=place, journal=journal_id)
        self._segments = OwnSegments(own, archive, self._publisher, stream.intake.journal_unchanged, stop)
        self._leaving = Leaving(own, journal_id, receivers, stream.intake_of, stream.receives, ends)
        self.times = SavedReceivingTime(catalog)
        self.free_bytes = journal.free_bytes
        self.replayer = Replayer(context, self.stream.intake.journal_again, lambda _attachment: None, journal.end)
        every = periodic(stop)
        self._own_workers = [
            every(1.0, "receiving time", self.stream.times.step),
            every(UPKEEP_SECONDS, "seal", partial(seal_old_segment, own)),
            every(PUBLISH_SECONDS, "publish", self._publish),
            every(UPKEEP_SECONDS, "retire", self._segments.retire),
            every(REPLAY_SECONDS, "replay", self._carry_out_replays),
            every(LEAVE_SECONDS, "leave", self._leaving.step),
        ]
        self._askers = Askers(context, receivers, self.times)
        if self._askers.has_sources:
            self._own_workers.append(every(ASK_SECONDS, "ask", self._ask))
        self._replies = ReceiptReplies(context, context.settings.receipts, receivers, stop)
        if self._replies.has_sources:
            self._own_workers.append(every(ASK_SECONDS, "receipt replies", self._reply))
        self.workers: Sequence[Worker] = [*self._own_workers, *self.stream.workers]
        measure_journal(own)

    def recover(self) -> None:
        """Make sure that catalog and archive belong together. What an earlier process left in the own journal is
        published as what comes now."""
        require_journal(self._context)

    def start(self) -> None:
        """Start all threads, the receivers last."""
        for worker in self._own_workers:
            worker.start()
        self.stream.start()

    def stop(self) -> None:
        """Stop to receive, and publish all that is in the own journal. The event `stop` must be set."""
        self._receiving_ends.set()
        self._leaving.stop()
        self.stream.stop()
        for worker in self._own_workers:
            worker.join(STOP_SECONDS)
        with suppress(GatewayError):  # the next process publishes it
            self._own.journal.seal()
            self._publisher.leave()
        self.stream.times.finish()

    def close(self) -> None:
        """Close the own journal."""
        self._own.journal.close()

    def begin_again(self) -> None:
        """Join again, and have the catalog learn what has been published since it was copied."""
        self._publisher.join_again()
        self.stream.times.read()

    def checks(self) -> dict[str, dict[str, Any]]:
        """Return the checks of journal, publishing and receiving: a receiver may have left for good."""
        state = "left" if self._publisher.has_left else "leaving" if self._leaving.is_asked else "receiving"
        receiving = {"ok": state == "receiving", "state": state}
        publishing, retiring = self._publisher.check(), self._segments.check()
        publishing |= {
            "ok": publishing["ok"] and retiring["ok"],
            "error": publishing["error"] or retiring["error"],
            "uncompared": retiring["uncompared"],
        }
        return {"journal": self.stream.check(), "publishing": publishing, "receiving": receiving}

    def between(self, change: Change) -> None:
        """Make a change at once."""
        at_once(change)

    def _publish(self) -> None:
        """Publish what is sealed. A receiver ends if another one has taken over, or has opened its journal or a copy of
        it: brokers give what it has not acknowledged to others, or to its next process."""
        if self._leaving.is_empty:
            self._own.journal.seal()
            self._publisher.leave(for_good=True)
        else:
            self._publisher.publish()
        backlog, taken = self.stream.backlog, self._publisher.taken
        if taken is not None:
            backlog.hold(taken)
            backlog.stop()
        if backlog.is_stopping and not self._stop.is_set():
            self._taken(taken or backlog.holding or "another receiver has taken over")

    def _ask(self) -> None:
        """Ask senders for missing parts, by one receiver at a time. Each takes note of how far sources are."""
        if self._askers.mark() and not self._leaving.is_asked:
            self._in_turn(ASKING, ASK_LEASE_SECONDS, lambda lease: self._askers.ask(self._context.catalog.under(lease)))

    def _reply(self) -> None:
        """Send receipts to senders, by one receiver at a time."""
        if not self._leaving.is_asked:
            catalog = self._context.catalog
            self._in_turn(REPLYING, ASK_LEASE_SECONDS, lambda lease: self._replies.step(catalog.under(lease)))

    def _carry_out_replays(self) -> None:
        """Carry out the replays that clients have requested, by one receiver at a time."""
        if not self._leaving.is_asked and self._context.catalog.replay_requests(1):
            self._in_turn(REPLAYS, REPLAY_LEASE_SECONDS, lambda _: self.replayer.carry_out())

    def _in_turn(self, name: str, seconds: float, work: Callable[[HeldLease], object]) -> None:
        """Do work with a lease, unless another receiver has it."""
        lease = self._context.catalog.take_lease(name, self._context.instance, seconds)
        if lease is not None:
            try:
                work(lease)
            finally:
                self._context.catalog.release_lease(lease)
