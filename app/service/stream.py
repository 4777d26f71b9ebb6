"""The stream: the way of a message from a broker to content in the store. This module builds it; it is the map.

    thread                   runs                                      puts into (who waits when that is full, and when)
    receive NAME             Receiver.run -> SharedIntake.submit       Backlog (the receiver: limits.backlog_bytes)
    journal NUMBER           JournalWriter.run                         AssemblyQueue (the journal: 3 batches)
    assemble                 QueuedAssembly.run -> Assembler.assemble  FinishingQueue (assembly: 4,096 attachments)
    finish                   Finisher.run                              catalog: finished, content in journal or store
    settle                   Settler.settle, each second               catalog: settled, content in the store

Each queue wakes the thread behind it when something is put in, and those who wait to put when something is taken. So a
slow stage holds back the stages before it, and in the end the broker.

1. A receiver submits what its broker delivered, with a function `on_durable`. The intake numbers and limits messages.
2. A batch of the backlog is written and flushed. The writing thread then calls `on_durable` of each entry, which
   wakes the receiver's thread: that acknowledges. Meanwhile another thread encodes the next batch, if it is full; a
   journal of objects puts several batches at once.
3. The writing thread then puts the batch into the queue of assembly, which notes the parts of attachments. A checkpoint
   goes to the catalog every 0.25 s, or when nothing waits. It finishes the attachments that were read as they came.
4. It passes other complete attachments to finishing, which reads their content from the journal.

What waits behind the journal is not lost in a crash: `recover` finds it in journal and catalog. A job on Spark may take
the place of assembly and finishing (`app.service.assembling.assembly_hosts.Landing`). Where several processes receive,
each publishes its journal (`app.service.receiving.publishing`), and the keeper assembles
(`app.service.assembling.following`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Event
from time import monotonic
from typing import Any

from app.assembly.collecting import Key
from app.model.errors import CatalogChanged
from app.model.records import ALONE
from app.observe import logger
from app.ports import Intake, Receiver
from app.service.assembling.answering import HeardMessage
from app.service.assembling.assembler import Assembler
from app.service.assembling.assembly_hosts import STOP_SECONDS, AssemblyHost
from app.service.assembling.assembly_queue import AssemblyQueue, QueuedAssembly
from app.service.context import ReceiverContext, WriterContext
from app.service.finishing.finisher import Finisher
from app.service.finishing.stored_parts import CompleteAttachment
from app.service.receiving.backlog import Backlog
from app.service.receiving.intake import NamingIntake, SharedIntake
from app.service.receiving.journal_writer import JournalWriter
from app.service.receiving.resumed_numbering import resume_numbering
from app.service.retention.receiving_time import Reached, ReceivingTime
from app.service.threads import Worker

HAND_OVER_SECONDS, POLL_SECONDS = 5.0, 0.1

log = logger(__name__)


class Stream:
    """All stages from the receivers to the `assembly` of attachments, which may be elsewhere."""

    def __init__(
        self,
        context: WriterContext,
        receivers: Mapping[str, Receiver],
        assembly: AssemblyHost,
        stop: Event,
        place: Callable[[int], Reached | None] = lambda position: Reached(position, position),
        journal: str = ALONE,
    ) -> None:
        """Build the stages. `place` and `journal` are as in `ReceivingTime`."""
        self._context, self._receivers, self.assembly = context, receivers, assembly
        self.backlog = Backlog(context.settings.limits.backlog_bytes)
        self.intake = SharedIntake(context, self.backlog)
        self.times = ReceivingTime(context, receivers, lambda: self.backlog.holding, place, journal)
        writer = JournalWriter(context, self.backlog, assembly.put)

        def receive(name: str, receiver: Receiver) -> None:
            receiver.run(self.times.intake(name, self.intake_of(name)), stop)

        self._receiving = [Worker(f"receive {name}", partial(receive, name, each)) for name, each in receivers.items()]
        threads = range(context.journal.most_appends + 1)
        self._writing = [Worker(f"journal {number}", writer.run) for number in threads]
        self.workers = [*self._writing, *self.assembly.workers, *self._receiving]

    def intake_of(self, source: str) -> Intake:
        """Return the intake of a source."""
        named = self._context.settings.named(source)
        return self.intake if named == source else NamingIntake(self.intake, named)

    def receives(self) -> bool:
        """Tell whether a receiver runs."""
        return any(each.alive for each in self._receiving)

    def recover(self) -> None:
        """Do the work that an earlier process left. Call it before `start`."""
        self.assembly.recover()
        resume_numbering(self._context, self._receivers, self.intake.arrivals)

    def start(self) -> None:
        """Start all stages; the receivers last."""
        for worker in self.workers:
            worker.start()

    def stop(self) -> None:
        """Let each stage do what waits for it, the first one first. The event `stop` must be set.

        The receivers hand over what they have already taken, as some brokers keep nothing of it. While the journal
        cannot be written, they wait for it until the backlog is stopped.
        """
        deadline = monotonic() + HAND_OVER_SECONDS
        for receiving in self._receiving:
            while receiving.alive and self.backlog.holding is None and (left := deadline - monotonic()) > 0:
                receiving.join(min(left, POLL_SECONDS))
        self.backlog.stop()
        for worker in (*self._receiving, *self._writing):
            worker.join(STOP_SECONDS)
        if lost := self.backlog.unwritten:
            why = self.backlog.holding or "the gateway stops"
            log.warning(
                "messages_not_taken", messages=lost, reason=why, effect="brokers that keep messages send them again"
            )
        self.assembly.stop()

    def check(self) -> dict[str, Any]:
        """Return the state of the journal for the health report."""
        return {"ok": self.backlog.holding is None, "holding": self.backlog.holding}


class Embedded:
    """Assembly and finishing in threads of this process, as `AssemblyHost`."""

    def __init__(
        self,
        context: ReceiverContext,
        sent_again: Callable[[CompleteAttachment], object],
        answers: Callable[[Sequence[HeardMessage]], None] | None,
    ) -> None:
        self._queue = AssemblyQueue()
        self.put, self.between = self._queue.put, self._queue.between
        self._finisher = Finisher(context, self.between)
        self._assembler = Assembler(context, self._finisher.queue.put, sent_again, answers)
        self._assembly = QueuedAssembly(self._queue, self._assembler, self._finisher.recover)
        self._assemble, self._finish = self.workers = [
            Worker("assemble", self._assembly.run),
            Worker("finish", self._finisher.run),
        ]

    def recover(self) -> None:
        """Replay the journal behind the last checkpoint, and finish what is complete."""
        if replayed := self._assembler.recover():
            log.info("journal_replayed", messages=replayed)
        self._finisher.recover()

    def begin_again(self) -> None:
        """Have the assembling thread forget what was read from the catalog, and replay the journal."""

        def forget() -> Iterable[Key]:
            raise CatalogChanged("the database was started or put back: assembly reads it again")

        self._queue.between(forget)

    def stop(self) -> None:
        self._queue.stop()
        self._assemble.join(STOP_SECONDS)
        self._finisher.queue.stop()
        self._finish.join(STOP_SECONDS)

    def finish_again(self, attachment_id: str) -> None:
        self._finisher.queue.put({attachment_id: None})

    def may_go(self, segment: int) -> bool:  # noqa: ARG002
        return True

    def check(self) -> dict[str, Any]:
        return {"by": "embedded", **self._assembly.check(), "finishing": self._finisher.check()}
