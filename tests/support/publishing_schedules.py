"""Receivers that publish in any order of steps: the real publisher, catalog, archive and journals, with faults.

One seed is one schedule. It says whose step is next, and what goes wrong. A step ends before a call of the catalog or
of the archive. There the process may stand still while the others go on, get an error before or after the effect of the
call, or end, and another process begins with its journal. A process that stands still may go on beside the one that
has begun in its place. Each gets the lease when it asks for it, as if that of the others were over. Meanwhile receivers
journal messages and retire segments, and assembly follows.

About half of the receivers have no disk. They put several objects at once, which the store has in any order, and whose
answers may be lost. Others replace one that seems to be away, which has ended, is paused, or is at work.

As a program: `python -m tests.support.publishing_schedules 7 1000` runs 1,000 schedules from the seed 7 on, and prints
the seeds of those that went wrong, and how often each thing happened.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Semaphore, Thread, current_thread
from typing import Any, NamedTuple
from unittest.mock import patch

from adapters.arrow_journal import ArrowJournal, ObjectJournal
from adapters.arrow_journal.archive import ArrowArchive
from app import plugins
from app.metrics import Metrics
from app.model.errors import GatewayError, JournalTaken
from app.model.message import PhysicalMessage, Position
from app.model.records import Checkpoint
from app.observe import configure_logging
from app.ports import Catalog, HeldLease
from app.service.context import ReceiverContext
from app.service.events.event_spans import Traces
from app.service.receiving.publishing import Publisher
from app.settings import Settings
from app.testing.gateway_stages import ManualClock, migrated

STEPS = 40
SOURCE = "orders"
MEMORY = Path("/dev/shm")
STEP_CALLS = ("published", "receiving_journal", "record_published", "add", "origin", "fence", "remove", "leave")
METRICS, SETTINGS = Metrics(), Settings()
AWAY_MICROSECONDS = 3_600_000_000
MOST_UNDER_WAY = 4
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
        if name == "receiving_journals":
            return self._schedule.seen
        method = getattr(self._called, name)
        if name not in STEP_CALLS or not isinstance(current_thread(), Turn):
            return method

        def call(*given: Any, **named: Any) -> Any:
            fault = self._schedule.await_turn(name)
            if fault.startswith("before"):
                raise Ended if "end" in fault else GatewayError(fault)
            result = method(*given, **named)
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


class Store:
    """The store of a receiver without a disk, which may fail before or after it has an object."""

    def __init__(self, store: Any, random: Random) -> None:
        self._store, self._random = store, random

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def add(self, number: int, pieces: Any) -> bool:
        fails = self._random.random()
        if fails < 0.05:
            raise GatewayError("the request is lost")
        is_added: bool = self._store.add(number, pieces)
        if fails < 0.1:
            raise GatewayError("the answer is lost")
        return is_added


class Append(NamedTuple):
    """An append that was begun: its bodies, and the function that ends it."""

    bodies: list[bytes]
    end: Callable[[], list[Position]]


@dataclass(slots=True, eq=False)
class Receiver:
    """A receiver's process: its journal, which is one of all, what it does at present, and its appends under way."""

    number: int
    context: ReceiverContext
    publisher: Publisher
    turn: Turn | None = None
    appends: list[Append] = field(default_factory=list)
    ended: dict[int, int] = field(default_factory=dict)
    """The segment of each append that has ended, by its place among `appends`."""

    @property
    def has_disk(self) -> bool:
        return isinstance(self.context.journal, ArrowJournal)


@dataclass(slots=True)
class Schedule:
    """One schedule in a folder. `sent` are the bodies that each journal was given, in order, and whether it has
    acknowledged them."""

    folder: Path
    random: Random
    catalog: Catalog
    happened: Counter[str] = field(default_factory=Counter)
    sent: list[dict[bytes, bool]] = field(default_factory=list)
    assembled: list[bytes] = field(default_factory=list)
    paused: list[Receiver] = field(default_factory=list)
    """Former processes."""
    away: set[str] = field(default_factory=set)
    """The journals whose receivers seem to be away."""
    receivers: list[Receiver] = field(default_factory=list)
    archive: ArrowArchive = field(init=False)
    weights: list[float] = field(init=False)
    """How often each of ACTS happens."""
    fault_rate: float = field(init=False)
    is_receiving: bool = True
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
            for _ in range(self.random.choice((2, 2, 3))):
                self.receivers.append(self._new(has_disk=self.random.random() < 0.5))
            self.weights = [weight * self.random.choice((0.25, 1, 4)) for weight in ACTS.values()]
            self.fault_rate = self.random.choice((0.02, 0.1, 0.2))
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

    def seen(self) -> list[Any]:
        """Return what the catalog says of the receivers; some seem to be away until they are replaced."""
        present = self.catalog.receiving_journals()
        self.away -= {each.id for each in present if each.has_left}
        return [each._replace(silent=AWAY_MICROSECONDS if each.id in self.away else 0) for each in present]

    def place(self, place: str, _cache: Any) -> Any:
        """Open the place of a receiver that is away."""
        return Calls(ArrowArchive(place), self)

    def _new(self, *, has_disk: bool) -> Receiver:
        """Begin a receiver with a new journal."""
        number = len(self.sent)
        self.sent.append({})
        if has_disk:
            return self._begun(number, self._journal(number))
        journal = ObjectJournal(str(self.folder / "archive"))
        journal._storage = Store(journal._storage, self.random)
        return self._begun(number, journal)

    def _journal(self, number: int) -> ArrowJournal:
        return ArrowJournal(self.folder / f"receiver-{number}", segment_age=3600.0)

    def _begun(self, number: int, journal: ArrowJournal | ObjectJournal) -> Receiver:
        clock = ManualClock()
        ack = "journal" if isinstance(journal, ArrowJournal) else "archive"
        own = SETTINGS.journal.model_copy(update={"archive_url": str(self.folder / "archive"), "ack": ack})
        context = ReceiverContext(
            settings=SETTINGS.model_copy(update={"journal": own}),
            journal=journal,  # type: ignore[arg-type]
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
        (act,) = self.random.choices(list(ACTS), self.weights)
        if act is Schedule._assemble:
            self._assemble()
        elif act is not Schedule._go_on:
            act(self, self.random.choice(self.receivers))
        elif self.paused:
            act(self, self.random.choice(self.paused))

    def _seem_away(self, receiver: Receiver) -> None:
        self.away.add(receiver.context.journal.identity().id)

    def _fault(self) -> str:
        kinds = ("before", "after", "before end", "after end")
        return self.random.choice(kinds) if self.random.random() < self.fault_rate else "none"

    def _receive(self, receiver: Receiver) -> None:
        """Begin an append, or several of a receiver without a disk, and end some."""
        for _ in range(1 if receiver.has_disk else self.random.randint(0, MOST_UNDER_WAY - len(receiver.appends))):
            sent = self.sent[receiver.number]
            bodies = [b"%d:%d" % (receiver.number, len(sent) + at) for at in range(self.random.randint(1, 3))]
            messages = [PhysicalMessage(SOURCE, "sas_queue", body=body) for body in bodies]
            sent |= dict.fromkeys(bodies, False)
            receiver.appends.append(Append(bodies, receiver.context.journal.begin_append(messages)))
        for _ in range(self.random.randint(receiver.has_disk, len(receiver.appends))):
            if not self._end_append(receiver):
                return
        if receiver.has_disk and self.random.random() < 0.7:
            receiver.context.journal.seal()

    def _end_append(self, receiver: Receiver) -> bool:
        """End one of the appends under way, if the store answers, and acknowledge those before which none is missing.
        Return False if the receiver was replaced, and another process has begun."""
        under_way = [at for at in range(len(receiver.appends)) if at not in receiver.ended]
        if not under_way:
            return True
        at = self.random.choice(under_way)
        try:
            (receiver.ended[at],) = {position.segment for position in receiver.appends[at].end()}
        except JournalTaken:
            self.happened["replaced"] += 1
            receiver.appends.clear()
            self._stop(receiver)
            if receiver in self.receivers:
                self._restart(receiver)
            return False
        except GatewayError:
            self.happened["put failed"] += 1
            return True
        while 0 in receiver.ended:
            (bodies, _), segment = receiver.appends.pop(0), receiver.ended.pop(0)
            receiver.ended = {place - 1: segment for place, segment in receiver.ended.items()}
            self.own[receiver.number, segment] += bodies
            self.sent[receiver.number] |= dict.fromkeys(bodies, True)
        return True

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

    def _publish(self, receiver: Receiver, fault: str | None = None) -> None:
        """Let a receiver publish for some steps, the last of which may have a fault."""
        if receiver.turn is None:
            receiver.turn = Turn(receiver.publisher.publish)
        for _ in range(self.random.choice((0, 0, 2, 6))):
            if not receiver.turn.is_over:
                receiver.turn.go_on("none")
        fault = fault or self._fault()
        if not receiver.turn.is_over:
            receiver.turn.go_on(fault)
        if receiver.turn.is_over:
            receiver.turn = None
            if "end" in fault:
                self._restart(receiver)

    def _restart(self, receiver: Receiver) -> None:
        """Begin another process in place of this one, which has ended, or is only paused and may go on later."""
        turn, journal = receiver.turn, receiver.context.journal
        if (turn is not None or receiver.appends) and self.random.random() < 0.5:
            self.paused.append(receiver)
            self.happened["paused"] += 1
        else:
            self._stop(receiver)
        if not isinstance(journal, ArrowJournal):
            self.away.add(journal.identity().id)
            following = self._new(has_disk=False)
        else:
            if all(each.number != receiver.number for each in self.paused):
                journal.close()
                journal = self._journal(receiver.number)
            following = self._begun(receiver.number, journal)
        self.receivers[self.receivers.index(receiver)] = following
        self.happened["restarted"] += 1

    def _stop(self, receiver: Receiver) -> None:
        """End a process."""
        while receiver.turn is not None and not receiver.turn.is_over:
            with suppress(BaseException):
                receiver.turn.go_on("before end")
        receiver.turn = None

    def _go_on(self, former: Receiver) -> None:
        if not former.has_disk and self.is_receiving:
            self._receive(former)
        if former.turn is None or (former.appends and self.random.random() < 0.5):
            self._end_append(former)
        else:
            former.turn.go_on(self._fault())
            if former.turn.is_over:
                former.turn = None
        if former.turn is None and not former.appends:
            self.paused.remove(former)

    def _finish(self) -> None:
        """Let all that stand still go on, and publish and assemble the rest without faults."""
        self.is_receiving = False
        while self.paused:
            self._go_on(self.random.choice(self.paused))
        for _ in range(1_000):
            for receiver in list(self.receivers):
                receiver.context.journal.seal()
                while receiver.appends and self._end_append(receiver):
                    pass
            busy = [each for each in self.receivers if self._is_busy(each)]
            if not busy and not self._is_left():
                break
            self._publish(self.random.choice(busy or self.receivers), "none")
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
            if found != [body for body, is_acknowledged in sent.items() if is_acknowledged or body in found]:
                raise Wrong(f"journal {number} has journalled {sent}, and the archive has {found}")
        if self.assembled != archived:
            raise Wrong(f"the archive has {archived}, and {self.assembled} was assembled")
        self.happened["messages"] += len(archived)
        self.happened["published"] += len(self.archive.segments())

    def _is_busy(self, receiver: Receiver) -> bool:
        return receiver.turn is not None or receiver.publisher.check()["waiting"] > 0

    def _is_left(self) -> bool:
        """Tell whether a receiver without a disk has ended that was not replaced."""
        at_work = {each.context.journal.identity().id for each in self.receivers}
        present = (each for each in self.catalog.receiving_journals() if each.in_archive and not each.has_left)
        return any(each.id not in at_work for each in present)

    def _close(self) -> None:
        for each in (*self.paused, *self.receivers):
            self._stop(each)
        for receiver in self.receivers:
            receiver.context.journal.close()


ACTS: dict[Callable[..., None], float] = {
    Schedule._publish: 0.5,
    Schedule._receive: 0.2,
    Schedule._seem_away: 0.06,
    Schedule._retire: 0.06,
    Schedule._assemble: 0.06,
    Schedule._restart: 0.04,
    Schedule._go_on: 0.08,
}
"""What happens in a step, and how often. Each schedule does some of it more often, and some less."""


@contextmanager
def schedules() -> Iterator[Callable[[int], Counter[str]]]:
    """Return a function that runs the schedule of a seed, and returns how often each thing happened. It raises Wrong.

    The schedules have one catalog, so that the segments of each one follow those of the one before.
    """
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        catalog = plugins.catalog()(migrated(Path(folder) / "catalog.sqlite"))

        def run(seed: int) -> Counter[str]:
            with TemporaryDirectory(dir=folder) as own:
                schedule, now, ids = Schedule(Path(own), Random(seed), catalog), count(), count()
                with ExitStack() as patched:
                    for name, replaced in {
                        "app.service.receiving.publishing.monotonic": lambda: float(next(now)),
                        "app.plugins.archive": lambda: schedule.place,
                        "adapters.arrow_journal.object_journal.token_hex": lambda _: f"{seed:016x}{next(ids):016x}",
                        "adapters.arrow_journal.journal_identity.token_hex": lambda _: f"{seed:016x}{next(ids):016x}",
                    }.items():
                        patched.enter_context(patch(name, replaced))
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
