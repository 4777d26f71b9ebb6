"""The kills of a pipeline's run: which processes are killed, and when. Everything is drawn from a seed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import NamedTuple

from tests.faults.pipeline_run import LOOK_SECONDS, RUN_LIMIT, Run, kill
from tests.faults.world import Hung

MOST_VERSIONS = 6
"""The number of new table versions after which a process may be killed: a run over the archive makes about as many."""
CHECKPOINT_LOST = 0.25
"""The share of the ended streams whose checkpoint is deleted."""


class Moment(NamedTuple):
    """A moment of a run. A process is killed up to `longest` seconds later."""

    is_there: Callable[[Run, int], bool]
    longest: float


class Kill(NamedTuple):
    """A kill: the processes, the moment with the `number` that it needs, and the seconds after it.

    `choice` (0 to 1) says which of several processes is killed. `loses_checkpoint` is for streams.
    """

    target: str
    moment: str
    number: int
    delay: float
    choice: float
    loses_checkpoint: bool

    @property
    def ends_the_run(self) -> bool:
        return self.target in ENDING

    def strike(self, run: Run) -> bool:
        """Wait for the moment, and kill. Return False if the run ended before. Raises Hung."""
        found = TARGETS[self.target]
        moment = MOMENTS[self.moment]
        end = monotonic() + RUN_LIMIT
        while not (moment.is_there(run, self.number) and found(run)):
            if run.status is not None:
                return False
            if monotonic() > end:
                raise Hung(f"a run does not come to the moment {self.moment!r}: {run.said}")
            sleep(LOOK_SECONDS)
        sleep(self.delay)
        pids = found(run)
        if run.status is not None or not pids:
            return False
        return kill(pids if self.target == "everything" else [pids[int(self.choice * len(pids))]])


def _committing(run: Run, _count: int) -> bool:
    return bool(_since(run, [run.out / "content" / "pipeline" / "batch"]))


def _versions(run: Run, count: int) -> bool:
    return len(_since(run, (run.out / "tables").glob("**/_delta_log/*.json"))) >= count


def _since(run: Run, paths: Iterable[Path]) -> list[Path]:
    """Return those of the files that were written since the run began."""
    found = []
    for path in paths:
        try:
            if path.stat().st_mtime_ns >= run.began_at:
                found.append(path)
        except FileNotFoundError:
            continue
    return found


TARGETS: dict[str, Callable[[Run], Sequence[int]]] = {
    "driver": Run.driver,
    "java": Run.java,
    "worker": Run.workers,
    "executor": Run.executors,
    "everything": Run.all,
}
ENDING = frozenset(("driver", "java", "everything"))
"""The targets without which a run cannot go on."""

MOMENTS: dict[str, Moment] = {
    "starting": Moment(lambda _run, _count: True, 6.0),
    "working": Moment(lambda run, _count: bool(run.workers()), 2.0),
    "committing": Moment(_committing, 0.5),
    "between tables": Moment(_versions, 0.2),
}


def drawn(seed: str, targets: Mapping[str, int], count: int) -> list[Kill]:
    """Return this number of kills. Each pair of target and moment is drawn before one is drawn more often than the
    numbers of `targets` say.

    While a run starts it has no workers and executors. Kills that a run survives are in the order of their moments.
    """
    random = Random(f"kills {seed}")
    pairs = [
        (target, moment)
        for target, number in targets.items()
        for moment in MOMENTS
        if target in ENDING or moment != "starting"
        for _ in range(number)
    ]
    kinds: list[tuple[str, str]] = []
    while len(kinds) < count:
        kinds += random.sample(pairs, len(pairs))
    kills = [_of(random, target, moment) for target, moment in kinds[:count]]
    order = [*MOMENTS]
    found: list[Kill] = []
    for _, together in groupby(kills, lambda each: each.ends_the_run):
        some = list(together)
        found += some if some[0].ends_the_run else sorted(some, key=lambda each: order.index(each.moment))
    return found


def one(seed: str, target: str, moment: str) -> Kill:
    """Return a kill of this kind."""
    return _of(Random(f"kill {seed}"), target, moment)


def _of(random: Random, target: str, moment: str) -> Kill:
    return Kill(
        target,
        moment,
        random.randint(1, MOST_VERSIONS),
        random.uniform(0, MOMENTS[moment].longest),
        random.random(),
        random.random() < CHECKPOINT_LOST,
    )
