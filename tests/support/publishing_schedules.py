"""Receivers that publish in any order of steps: the real publisher, catalog, archive and journals, with faults.

One seed is one schedule. It says whose step is next, and what goes wrong. A step ends before a call of the catalog or
of the archive. There the process may stand still while the others go on, get an error before or after the effect of the
call, or end, and another process begins with its journal. A process that stands still may go on beside the one that
has begun in its place. Each gets the lease when it asks for it, as if that of the others were over. Meanwhile receivers
journal messages and retire segments, and assembly follows.

As a program: `python -m tests.support.publishing_schedules 7 1000` runs 1,000 schedules from the seed 7 on, and prints
the seeds of those that went wrong, and how often each thing happened.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Semaphore, Thread, current_thread
from typing import Any

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from app import plugins
from app.metrics import Metrics
from app.model.errors import GatewayError
from app.model.message import PhysicalMessage, Position
from app.model.records import Checkpoint
from app.observe import configure_logging
from app.ports import Catalog, HeldLease
from app.service.context import ReceiverContext
from app.service.events.event_spans import Traces
from app.service.receiving.publishing import Publisher
from app.settings import Settings
from app.testing.gateway_stages import ManualClock, migrated

STEPS = 30
SOURCE = "orders"
MEMORY = Path("/dev/shm")
STEP_CALLS = ("published", "receiving_journal", "record_published", "add", "origin")
METRICS, SETTINGS = Metrics(), Settings()
TRACES = Traces(SETTINGS)


class Ended(BaseException):
    """The process ends here."""


class Wrong(AssertionError):
    """What must not happen has happened."""


class Calls:
    """A catalog or an archive, called step by step."""

    def __init__(self, called: Any, schedule: "Schedule") -> None:
        self._called, self._schedule = called, schedule

    def __getattr__(self, name: str) -> Any:
        if name == "take_lease":
            return lambda name, holder, _seconds: HeldLease(name, holder, 1, None)
        if name == "release_lease":
            return lambda _lease: None
        method = getattr(self._called, name)
        if name not in STEP_CALLS or not isinstance(current_thread(), Turn):
            return method

        def call(*given: Any) -> Any:
            fault = self._schedule.await_turn(name)
            if fault.startswith("before"):
                raise Ended if "end" in fault else GatewayError(fault)
            result = method(*given)
            self._schedule.happened[name] += 1
            if fault.startswith("after"):
                raise Ended if "end" in fault else GatewayError(fault)
            return result

        return call


class Turn(Thread):
    """One call of `publish`, which goes on when it is its turn. `error` is what it has raised."""

    def __init__(self, run: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = run
        self.may_go_on, self.stands_still = Semaphore(0), Semaphore(0)
        self.is_over = False
        self.error: BaseException | None = None
        self.fault = "none"

    def run(self) -> None:
        self.may_go_on.acquire()
        try:
            self._work()
        except Ended:
            pass
        except BaseException as error:  # noqa: BLE001 - raised by the schedule
            self.error = error
        finally:
            self.is_over = True
            self.stands_still.release()

    def go_on(self, fault: str) -> None:
        """Let it do one step, and wait for that. The call before which it stands still has this fault."""
        if not self.is_alive() and not self.is_over:
            self.start()
        self.fault = fault
        self.may_go_on.release()
        self.stands_still.acquire()
        if self.error is not None:
            raise self.error


@dataclass(slots=True)
class Receiver:
    """A receiver's process: its journal, and what it does at present."""

    number: int
    context: ReceiverContext
    publisher: Publisher
    turn: Turn | None = None


@dataclass(slots=True)
class Schedule:
    """One schedule in a folder. `sent` are the bodies that receivers have journalled, in order."""

    folder: Path
    random: Random
    catalog: Catalog
    happened: Counter[str] = field(default_factory=Counter)
    sent: list[list[bytes]] = field(default_factory=list)
    assembled: list[bytes] = field(default_factory=list)
    paused: list[tuple[int, Turn]] = field(default_factory=list)
    """Former processes, by the number of the receiver."""
    receivers: list[Receiver] = field(default_factory=list)
    archive: ArrowArchive = field(init=False)
    own: defaultdict[tuple[int, int], list[bytes]] = field(default_factory=lambda: defaultdict(list))
    """The bodies in each own segment of each receiver."""
    archived: dict[int, list[bytes]] = field(default_factory=dict)
    """The bodies in each segment of the archive, as far as they were read."""

    def run(self) -> None:
        """Run the schedule. Raises Wrong."""
        with ExitStack() as ending:
            (self.folder / "archive").mkdir()
            if (progress := self.catalog.progress()) is not None:  # the archive of the schedule before is not here
                self.catalog.checkpoint(Checkpoint(progress=Position.end_of(Position.unpack(progress).segment).pack()))
            self.archive = ArrowArchive(self.folder / "archive", is_growing=True)
            ending.callback(self._close)
            for number in range(self.random.choice((2, 2, 3))):
                self.sent.append([])
                self.receivers.append(self._begun(number, self._journal(number)))
            for _ in range(STEPS):
                self._step()
            self._finish()

    def await_turn(self, name: str) -> str:
        """Stand still before a call until it is this thread's turn, and return the fault of the call."""
        turn = current_thread()
        assert isinstance(turn, Turn)
        turn.stands_still.release()
        turn.may_go_on.acquire()
        self.happened[f"{turn.fault} {name}"] += turn.fault != "none"
        return turn.fault

    def _journal(self, number: int) -> ArrowJournal:
        return ArrowJournal(self.folder / f"receiver-{number}", segment_age=3600.0)

    def _begun(self, number: int, journal: ArrowJournal) -> Receiver:
        clock = ManualClock()
        context = ReceiverContext(
            settings=SETTINGS,
            journal=journal,
            catalog=Calls(self.catalog, self),
            store=None,  # type: ignore[arg-type]
            clock=clock,
            metrics=METRICS,
            traces=TRACES,
            instance=f"process-{self.random.getrandbits(32)}",
        )
        archive = ArrowArchive(self.folder / "archive", is_growing=True)
        return Receiver(number, context, Publisher(context, Calls(archive, self), [SOURCE]))

    def _step(self) -> None:
        what = self.random.random()
        if what < 0.12:
            self._receive(self.random.choice(self.receivers))
        elif what < 0.22:
            self._retire(self.random.choice(self.receivers))
        elif what < 0.3:
            self._assemble()
        elif what < 0.34:
            self._restart(self.random.choice(self.receivers))
        elif what < 0.42 and self.paused:
            self._go_on(self.random.randrange(len(self.paused)))
        else:
            self._publish(self.random.choice(self.receivers), self._fault())

    def _fault(self) -> str:
        kinds = ("before", "after", "before end", "after end")
        return self.random.choice(kinds) if self.random.random() < 0.08 else "none"

    def _receive(self, receiver: Receiver) -> None:
        sent = self.sent[receiver.number]
        bodies = [b"%d:%d" % (receiver.number, len(sent) + at) for at in range(self.random.randint(1, 3))]
        messages = [PhysicalMessage(SOURCE, "sas_queue", body=body) for body in bodies]
        (segment,) = {position.segment for position in receiver.context.journal.append(messages)}
        self.own[receiver.number, segment] += bodies
        sent += bodies
        if self.random.random() < 0.7:
            receiver.context.journal.seal()

    def _retire(self, receiver: Receiver) -> None:
        """Retire as the role does, what the archive has and the catalog has recorded."""
        journal = receiver.context.journal
        for segment in journal.segments():
            if segment.sealed_at is not None and receiver.publisher.is_published(segment):
                recorded = Position.unpack(self.catalog.published()).segment
                if not {*self.own[receiver.number, segment.number]} <= {*self._archived(recorded)}:
                    raise Wrong(f"segment {segment.number} of receiver {receiver.number} is retired too early")
                journal.retire(segment.number)
                self.happened["retired"] += 1

    def _archived(self, last: int) -> list[bytes]:
        """Return the bodies in the archive, up to a segment."""
        newest = max(self.archived, default=0)
        if newest < last:
            after = Position.end_of(newest) if newest else None
            for positions, messages in self.archive.replay(after):
                self.archived.setdefault(positions[0].segment, []).extend(bytes(message.body) for message in messages)
        return [body for segment, bodies in self.archived.items() if segment <= last for body in bodies]

    def _assemble(self) -> None:
        """Assemble as the keeper does; what is assembled and the progress are saved together."""
        progress = self.catalog.progress()
        if self.catalog.published() <= (progress or 0):
            return
        for positions, messages in self.archive.replay(None if progress is None else Position.unpack(progress)):
            self.assembled += (bytes(message.body) for message in messages)
            self.catalog.checkpoint(Checkpoint(progress=positions[-1].pack()))
            if self.random.random() < 0.2:  # the keeper ends here
                break

    def _publish(self, receiver: Receiver, fault: str) -> None:
        if receiver.turn is None:
            receiver.turn = Turn(receiver.publisher.publish)
        receiver.turn.go_on(fault)
        if "end" in fault and receiver.turn.is_over:
            receiver.turn = None
            self._restart(receiver)
        elif receiver.turn is not None and receiver.turn.is_over:
            receiver.turn = None

    def _restart(self, receiver: Receiver) -> None:
        """Begin another process in place of this one, which has ended, or is only paused and may go on later."""
        turn, journal = receiver.turn, receiver.context.journal
        assert isinstance(journal, ArrowJournal)
        if turn is not None and self.random.random() < 0.5:
            self.paused.append((receiver.number, turn))
            self.happened["paused"] += 1
        elif turn is not None:
            _end(turn)
        if not any(number == receiver.number for number, _ in self.paused):
            journal.close()
            journal = self._journal(receiver.number)
        self.receivers[receiver.number] = self._begun(receiver.number, journal)
        self.happened["restarted"] += 1

    def _go_on(self, at: int) -> None:
        _, turn = self.paused[at]
        turn.go_on(self._fault())
        if turn.is_over:
            del self.paused[at]

    def _finish(self) -> None:
        """Let all that stand still go on, and publish and assemble the rest without faults."""
        while self.paused:
            self._go_on(self.random.randrange(len(self.paused)))
        for receiver in self.receivers:
            receiver.context.journal.seal()
        for _ in range(1_000):
            if not any(map(self._is_busy, self.receivers)):
                break
            self._publish(self.random.choice([each for each in self.receivers if self._is_busy(each)]), "none")
        else:
            raise Wrong(f"not all is published: {[each.publisher.check() for each in self.receivers]}")
        for receiver in self.receivers:
            self._retire(receiver)
            if receiver.context.journal.segments():
                raise Wrong(f"receiver {receiver.number} has not retired {receiver.context.journal.segments()}")
        while self.catalog.published() > (self.catalog.progress() or 0):
            self._assemble()
        self._judge()
        for each in self.catalog.receiving_journals():
            self.catalog.leave(each.id)

    def _judge(self) -> None:
        archived = self._archived(self.archive.segments()[-1].number if self.archive.segments() else 0)
        for number, sent in enumerate(self.sent):
            found = [body for body in archived if body.startswith(b"%d:" % number)]
            if found != sent:
                raise Wrong(f"receiver {number} has journalled {sent}, and the archive has {found}")
        if self.assembled != archived:
            raise Wrong(f"the archive has {archived}, and {self.assembled} was assembled")
        self.happened["messages"] += len(archived)
        self.happened["published"] += len(self.archive.segments())

    def _is_busy(self, receiver: Receiver) -> bool:
        return receiver.turn is not None or receiver.publisher.check()["waiting"] > 0

    def _close(self) -> None:
        for turn in (*(turn for _, turn in self.paused), *(each.turn for each in self.receivers if each.turn)):
            _end(turn)
        for receiver in self.receivers:
            receiver.context.journal.close()


def _end(turn: Turn) -> None:
    while not turn.is_over:
        with suppress(BaseException):
            turn.go_on("before end")


@contextmanager
def schedules() -> Iterator[Callable[[int], Counter[str]]]:
    """Return a function that runs the schedule of a seed, and returns how often each thing happened. It raises Wrong.

    The schedules have one catalog, so that the segments of each one follow those of the one before.
    """
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        catalog = plugins.catalog()(migrated(Path(folder) / "catalog.sqlite"))

        def run(seed: int) -> Counter[str]:
            with TemporaryDirectory(dir=folder) as own:
                schedule = Schedule(Path(own), Random(seed), catalog)
                schedule.run()
                return schedule.happened

        with closing(catalog):
            yield run


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    configure_logging("critical")
    happened: Counter[str] = Counter()
    wrong = 0
    seed = first
    while seed < first + count:
        with schedules() as run:  # after a schedule that went wrong, with a new catalog
            try:
                while seed < first + count:
                    happened += run(seed)
                    seed += 1
            except Exception as error:  # noqa: BLE001 - said, and the next one is run
                wrong += 1
                sys.stdout.write(f"seed {seed}: {type(error).__name__}: {error}\n")
                sys.stdout.flush()
                seed += 1
    sys.stdout.write(f"{count} schedules, {wrong} wrong\n")
    sys.stdout.writelines(f"{number:8} {what}\n" for what, number in happened.most_common())


if __name__ == "__main__":
    main()
