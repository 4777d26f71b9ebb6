"""What a divided gateway shares with its brokers, database and store, what happens to all of these, and whether its
processes recover."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from signal import Signals
from time import monotonic, sleep
from typing import NamedTuple

import httpx
import psycopg

from tests.support import object_server
from tests.support.division import Division
from tests.support.forked_gateway import ForkedGateway, Forks
from tests.support.mosquitto import Mosquitto, free_port
from tests.support.postgresql import AT_ONCE, FAST, Cluster, binaries, running_cluster
from tests.support.queue_manager import QueueManager

PAUSED_SECONDS = 13.0
"""Longer than all leases, and a claim of a delivery."""
SLOW_SECONDS, SLOW_FOR = 0.3, 4.0
AWAY_SECONDS = 4.0
"""The time for which the database is stopped, and the store refuses requests or connections."""
CALM_SECONDS = 1.5
"""The longest time between two faults."""
AWAITED = 0.25
"""The share of the kills after which all processes must become ready before the next kill. A process that is killed
while it starts need not. Before other faults all are ready: a process does not start without database and store."""
SOON = 300.0


class Shared(NamedTuple):
    """What the processes of a divided gateway share: also their environment, and the process that they are forks of."""

    cluster: Cluster
    bucket: object_server.Bucket
    broker: Mosquitto
    environment: Mapping[str, str]
    forks: Forks


@contextmanager
def shared(folder: Path, bucket: str, environment: Mapping[str, str] = os.environ) -> Iterator[Shared]:
    """Yield a database, a store and a broker that run. Processes get this environment, and the address of the store."""
    programs = binaries()
    assert programs is not None, "PostgreSQL's programs are not installed"
    port = free_port()
    (folder / "broker").mkdir()
    with ExitStack() as ending:
        cluster = ending.enter_context(running_cluster(programs))
        ending.enter_context(object_server.serving(port))
        environment = {**environment, **object_server.environment(port)}
        forks = Forks(environment)
        ending.callback(forks.close)
        broker = ending.enter_context(Mosquitto(folder / "broker", persistent=True))
        yield Shared(cluster, object_server.Bucket(port, bucket), broker, environment, forks)


class Faults:
    """What happens to the processes and to what they share: to those of the `paused` roles, too, that they are stopped
    for a while; and `more`, by its kind."""

    def __init__(
        self,
        division: Division,
        shared: Shared,
        random: Random,
        *,
        paused: Sequence[str],
        more: Mapping[str, Callable[[], str]] = {},
        delay: float = 0,
    ) -> None:
        """The store answers after this `delay`, and later when it is slow."""
        self._division, self._shared, self._random, self._delay = division, shared, random, delay
        shared.bucket.delay(delay)
        self._kinds: dict[str, Callable[[], str]] = {
            **{f"kill {role}": partial(self._kill, role) for role in ("receive", "serve", "keep")},
            **{f"pause {role}": partial(self._pause, role) for role in paused},
            "cut connections": self._cut,
            "database stopped": partial(self._restart, FAST, AWAY_SECONDS),
            "database restarted": partial(self._restart, FAST, 0),
            "database killed": partial(self._restart, AT_ONCE, 0),
            "slow store": self._slow,
            "store answers 500": partial(self._refuse, 500),
            "store answers 503": partial(self._refuse, 503),
            "store away": self._leave,
            **more,
        }

    def occur(self, count: int | None) -> tuple[list[str], list[str]]:
        """Have this number of faults occur, or each kind once. Return what occurred, and who did not recover.

        If there are more faults than kinds, the others are kills.
        """
        kinds = [*self._kinds]
        kills = [kind for kind in kinds if kind.startswith("kill ")]
        if count is not None:
            kinds = self._random.sample(kinds, min(count, len(kinds)))
            kinds += self._random.choices(kills, k=count - len(kinds))
        self._random.shuffle(kinds)
        notes, hung, began = [], [], monotonic()
        for kind, following in zip(kinds, [*kinds[1:], ""], strict=True):
            sleep(self._random.uniform(0, CALM_SECONDS))
            note = self._kinds[kind]()
            notes.append(f"{monotonic() - began:6.1f} s  {note}")
            is_awaited = not {kind, following} <= {*kills} or self._random.random() < AWAITED
            waiting = not_ready(self._division) if is_awaited else []
            hung += [f"{name} does not recover after this: {note}" for name in waiting]
        return notes, hung

    def _kill(self, role: str) -> str:
        name = self._chosen(role)
        self._division[name].kill()
        self._division[name].spawn()
        return f"{name} was killed"

    def _pause(self, role: str) -> str:
        name = self._chosen(role)
        process = self._division[name].process
        assert process is not None
        with suppress(ProcessLookupError):  # it may have ended, as another one has taken its place
            os.kill(process.pid, signal.SIGSTOP)
            sleep(PAUSED_SECONDS)
            os.kill(process.pid, signal.SIGCONT)
        return f"{name} was paused"

    def _cut(self) -> str:
        others = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid != pg_backend_pid()"
        with psycopg.connect(host=str(self._shared.cluster.folder), user="postgres", dbname="postgres") as connection:
            connection.execute(f"{others} AND backend_type = 'client backend'")
        return "all connections to the database were cut"

    def _restart(self, how: Signals, seconds: float) -> str:
        self._shared.cluster.stop(how)
        sleep(seconds)
        self._shared.cluster.start()
        return f"the database was stopped by {how.name} for {seconds} s"

    def _slow(self) -> str:
        self._shared.bucket.delay(SLOW_SECONDS)
        sleep(SLOW_FOR)
        self._shared.bucket.delay(self._delay)
        return "the store was slow"

    def _refuse(self, status: int) -> str:
        self._shared.bucket.refuse(status)
        sleep(AWAY_SECONDS)
        self._shared.bucket.refuse(0)
        return f"the store answered {status}"

    def _leave(self) -> str:
        self._shared.bucket.leave(AWAY_SECONDS)
        return "the store accepted no connections"

    def _chosen(self, role: str) -> str:
        return self._random.choice([name for name in self._division.processes if name.startswith(role)])


def killed(manager: QueueManager) -> str:
    manager.kill()
    manager.start()
    return "the queue manager was killed"


def not_ready(division: Division) -> list[str]:
    """Wait until all processes are ready. Return the names of those that are not for too long, or have ended.

    One that ended because another one has taken its place is started again, as supervisors do.
    """
    end, waiting = monotonic() + SOON, list(division.processes)
    while waiting and monotonic() < end:
        waiting = [name for name in waiting if not _is_ready(division[name])]
        sleep(0.1)
    return waiting


def _is_ready(gateway: ForkedGateway) -> bool:
    if gateway.process is None:
        return False
    if gateway.process.poll() == os.EX_TEMPFAIL:
        gateway.start(timeout=120)
    if gateway.process.poll() is not None:
        return False
    with suppress(httpx.HTTPError):
        return gateway.client.get("/health/ready").status_code == 200
    return False
