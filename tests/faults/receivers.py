"""The scenario of receivers that share a journal: programs send while any process is killed or paused for longer than
leases, the database is cut off, stopped or killed, the store is slow, fails, is away or loses its answers, and the
broker or the queue manager is started again.

Three processes receive from the same queues of a queue manager and from the same groups of subscribers, two serve, and
two keep. The keeper assembles, or a stream on Spark, which is killed as well. In the end each attachment must have been
finished once, with the bytes that were sent, and the quarantine must be empty. One gateway with embedded defaults that
receives the same messages must have the same. After each fault all processes become ready by themselves, or, if another
one has taken the place of a receiver without a disk, when they are started again.
"""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread
from time import monotonic, sleep
from typing import Literal

import httpx

from app.testing.waiting import PATIENCE
from tests.faults.divided import AWAY_SECONDS, SOON, Faults, Shared, killed, shared
from tests.faults.judging import Verdict
from tests.support.competing import LARGE, SMALL, Competing
from tests.support.division import Division
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess
from tests.support.mqi import environment, load
from tests.support.queue_manager import QueueManager
from tests.support.stream_job import StreamJob

MOST = 60
"""The number of faults that one round draws, most of them kills."""
RECEIVERS = ("receive-a", "receive-b", "receive-c")
PROCESSES = (*RECEIVERS, "serve-a", "serve-b", "keep-a", "keep-b")
LOST_PUTS = 4
SENDERS, MOST_TOGETHER = 4, 5
PAUSE_SECONDS = 0.5
"""The longest pause between what programs send."""
STORE_SECONDS = 0.02
"""The time after which the store answers."""
FIRST_BATCH = 900.0
"""The longest time that a stream takes, after it was killed, for all that waits, in seconds."""
LOG_LINES = 30
"""The number of lines of the stream's log that are shown when a promise was broken."""
SPARK = '[tables]\nurl = "{bucket}/tables"\n[pipeline]\ntrigger = "1s"\n'


class Programs:
    """Programs that send attachments of all sources, each message until it is confirmed.

    `SENDERS` of them send up to `MOST_TOGETHER` of a source together. They go on until they have sent so many
    `attachments`.
    """

    def __init__(self, division: Division, competing: Competing, seed: str, attachments: int) -> None:
        self._division, self._competing, self._random = division, competing, Random(f"programs {seed}")
        self._attachments = attachments
        self._stop = Event()
        self._errors = (OSError, httpx.HTTPError, RuntimeError, load("pymqi").MQMIError)
        self.hung: list[str] = []
        self._threads = [Thread(target=self._run, args=(each,)) for each in (self._order, *[self._send] * SENDERS)]

    def __enter__(self) -> "Programs":
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join()

    def _run(self, send: Callable[[], None]) -> None:
        try:
            while not self._stop.wait(self._random.uniform(0, PAUSE_SECONDS)):
                send()
            while self._competing.count < self._attachments and not self.hung:
                send()
        except TimeoutError as error:
            self.hung.append(str(error))

    def _send(self) -> None:
        self._competing.send(self._random.randint(1, MOST_TOGETHER), self._confirmed)

    def _order(self) -> None:
        """Have a table sent as order packets, which takes longer to be made than anything else."""
        serving = self._random.choice([name for name in PROCESSES if name.startswith("serve")])
        self._competing.order(self._division[serving], self._confirmed)

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


def run(
    seed: str,
    folder: Path,
    count: int | None = None,
    *,
    ack: str = "disk",
    assembler: Literal["embedded", "spark"] = "embedded",
    attachments: int = 0,
) -> Verdict:
    """Run the scenario with this number of faults, or with each kind once. Receivers acknowledge as `ack` says.

    If so many `attachments` are to be sent, they are small.
    """
    random = Random(f"receivers {seed}")
    with ExitStack() as ending:
        common = ending.enter_context(shared(folder, "receivers", environment("pymqi")))
        manager = ending.enter_context(QueueManager(folder / "queue-manager"))
        competing = Competing(common.broker, manager, RECEIVERS, random, SMALL if attachments else LARGE)
        division = Division(
            folder,
            common.cluster.folder,
            common.bucket,
            common.broker,
            common.forks,
            competing.destination + (SPARK.format(bucket=common.bucket.url) if assembler == "spark" else ""),
            first=f'assembler = "{assembler}"\n',
            shared=competing.sources,
            ack=ack,
        )
        ending.callback(division.stop)
        for name in PROCESSES:
            division.begin(name)
        more = _more(common, manager)
        if assembler == "spark":
            job = StreamJob(division["keep-a"].folder, common.environment, supervised=True)
            more["Spark killed"] = partial(_kill, ending.enter_context(job))
        faults = Faults(division, common, random, paused=("receive", "serve", "keep"), more=more, delay=STORE_SECONDS)
        with Programs(division, competing, seed, attachments) as programs:
            notes, hung = faults.occur(count)
        patience = FIRST_BATCH if assembler == "spark" else SOON
        verdict = _judged(division, competing, notes, [*hung, *programs.hung], folder / "alone", patience)
        if assembler == "spark" and not verdict.is_kept:
            return verdict._replace(
                notes=(*verdict.notes, "the stream's log ended so:", *job.log.splitlines()[-LOG_LINES:])
            )
        return verdict


def _kill(job: StreamJob) -> str:
    job.kill()
    job.start()
    return "the stream was killed"


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

    return {
        "answers of the store lost": lose,
        "broker restarted": restart,
        "queue manager killed": partial(killed, manager),
    }


def _differing(competing: Competing, gateway: GatewayProcess, folder: Path) -> list[str]:
    """Have one gateway receive everything. Return what it has otherwise than the divided one."""
    folder.mkdir()
    found = competing.content(gateway)
    with ForkedGateway(folder, competing.alone()) as alone:
        competing.repeat(alone)
        with suppress(AssertionError):
            alone.until(lambda: len(alone.listing("/v1/attachments", state="finished")) >= competing.count, SOON, 0.5)
        other = competing.content(alone)
    return [
        f"{each}: {found.get(each)}, and of one gateway {other.get(each)}"
        for each in sorted(found.keys() | other.keys())
        if found.get(each) != other.get(each)
    ]


def _judged(
    division: Division, competing: Competing, notes: list[str], hung: list[str], folder: Path, patience: float
) -> Verdict:
    """Wait until all that was sent is there, or for so many seconds nothing more is. Compare it with what was sent."""
    with suppress(TimeoutError):
        division.await_settled(competing.count, patience / PATIENCE)
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
        wrong += _differing(competing, gateway, folder)
    shares = ", ".join(f"{count} of {source} by {name}" for (name, source), count in competing.shares(division).items())
    told = (f"{competing.count} attachments; messages: {shares}", *notes, *lost, *twice, *wrong, *hung)
    return Verdict(len(notes), len(lost), len(twice), len(wrong), len(hung), 0, told)
