"""The scenario of receivers that share a journal: programs send while any process is killed or paused for longer than
leases, the database is cut off, stopped or killed, the store is slow, fails, is away or loses its answers, and the
broker or the queue manager is started again.

Three processes receive from the same queues of a queue manager and from the same groups of subscribers, two serve, and
two keep. In the end each attachment must have been finished once, with the bytes that were sent, and the quarantine
must be empty. After each fault all processes become ready by themselves, or, if another one has taken the place of a
receiver without a disk, when they are started again.
"""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from threading import Event, Thread
from time import monotonic, sleep

import httpx

from tests.faults.divided import AWAY_SECONDS, SOON, Faults, Shared, shared
from tests.faults.judging import Verdict
from tests.support.competing import Competing
from tests.support.division import Division
from tests.support.mqi import environment, load
from tests.support.queue_manager import QueueManager

MOST = 40
"""The number of faults that one round draws."""
RECEIVERS = ("receive-a", "receive-b", "receive-c")
PROCESSES = (*RECEIVERS, "serve-a", "serve-b", "keep-a", "keep-b")
LOST_PUTS = 4
PAUSE_SECONDS = 0.5
"""The longest pause between what programs send."""


class Programs:
    """Programs that send attachments of all sources, each message until it is confirmed."""

    def __init__(self, division: Division, competing: Competing, seed: str) -> None:
        self._division, self._competing, self._random = division, competing, Random(f"programs {seed}")
        self._stop = Event()
        self._errors = (OSError, httpx.HTTPError, RuntimeError, load("pymqi").MQMIError)
        self.hung: list[str] = []
        self._thread = Thread(target=self._run)

    def __enter__(self) -> "Programs":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._random.uniform(0, PAUSE_SECONDS)):
                self._competing.send(self._random.randint(1, 3), self._confirmed)
                serving = self._random.choice([name for name in PROCESSES if name.startswith("serve")])
                self._competing.order(self._division[serving], self._confirmed)
        except TimeoutError as error:
            self.hung.append(str(error))

    def _confirmed(self, send: Callable[[], None]) -> None:
        """Send something, again and again until all of it is confirmed at once."""
        end, why = monotonic() + SOON, ""
        while monotonic() < end:
            try:
                send()
            except self._errors as error:
                why = str(error)
                sleep(0.2)
            else:
                return
        raise TimeoutError(f"nothing could be sent for {SOON:.0f} s: {why}")


def run(seed: str, folder: Path, count: int | None = None, *, ack: str = "disk") -> Verdict:
    """Run the scenario with this number of faults, or with each kind once. Receivers acknowledge as `ack` says."""
    random = Random(f"receivers {seed}")
    with ExitStack() as ending:
        common = ending.enter_context(shared(folder, "receivers", environment("pymqi")))
        manager = ending.enter_context(QueueManager(folder / "queue-manager"))
        competing = Competing(common.broker, manager, RECEIVERS, random)
        division = Division(
            folder,
            common.cluster.folder,
            common.bucket,
            common.broker,
            common.forks,
            competing.destination,
            shared=competing.sources,
            ack=ack,
        )
        ending.callback(division.stop)
        for name in PROCESSES:
            division.begin(name)
        more = _more(common, manager)
        faults = Faults(division, common, random, paused=("receive", "serve", "keep"), more=more)
        with Programs(division, competing, seed) as programs:
            notes, hung = faults.occur(count)
        return _judged(division, competing, notes, [*hung, *programs.hung])


def _more(common: Shared, manager: QueueManager) -> dict[str, Callable[[], str]]:
    """Return the faults of what only this scenario has."""

    def lose() -> str:
        common.bucket.lose(LOST_PUTS)
        return f"{LOST_PUTS} PUT had their effect and got no answer"

    def restart() -> str:
        common.broker.stop()
        sleep(AWAY_SECONDS)
        common.broker.start()
        return "the broker was started again"

    def kill() -> str:
        manager.kill()
        manager.start()
        return "the queue manager was killed"

    return {"answers of the store lost": lose, "broker restarted": restart, "queue manager killed": kill}


def _judged(division: Division, competing: Competing, notes: list[str], hung: list[str]) -> Verdict:
    """Wait until all that was sent is there, and compare it with what was sent."""
    with suppress(TimeoutError):
        division.await_settled(competing.count, SOON)
    gateway = division["serve-a"]
    found = competing.found(gateway)
    lost = [f"{each}: {found.get(each)}" for each in competing.sent if found.get(each) != "finished"]
    twice = [f"{each} was never sent" for each in found.keys() - competing.sent]
    events = division.events("attachment.finished")
    twice += [f"{each} was finished more than once" for each in {*events} if events.count(each) > 1]
    wrong = [
        f"{kind}: {each}" for kind in ("message.quarantined", "attachment.damaged") for each in division.events(kind)
    ]
    if not (lost or twice or wrong):
        try:
            competing.assert_received(gateway)
        except AssertionError as error:
            wrong.append(str(error)[:2000])
    shares = ", ".join(f"{count} of {source} by {name}" for (name, source), count in competing.shares(division).items())
    told = (f"{competing.count} attachments; messages: {shares}", *notes, *lost, *twice, *wrong, *hung)
    return Verdict(len(notes), len(lost), len(twice), len(wrong), len(hung), 0, told)
