"""A run of `attachment-gateway pipeline …` in a session of its own, whose processes can be found and killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep, time_ns
from typing import NamedTuple

from tests.faults.world import Hung

ROOT = Path(__file__).parents[2]
RUN_LIMIT = 600.0
"""Seconds after which a run that has not ended counts as hung."""
ENDED_WITHIN = 120.0
"""Seconds within which the processes that a killed driver leaves behind must end."""
LOOK_SECONDS = 0.1
_SHOWN = 3000


class Process(NamedTuple):
    """A process of a run's session. A Python worker `is_for_tasks` if it does not only plan the reading of a source."""

    pid: int
    parent: int
    is_java: bool
    is_for_tasks: bool


class Run:
    """A command of `pipeline`. Its session has the driver, Java, the executors and the Python workers.

    `out` is the folder of its results.
    """

    def __init__(self, command: Sequence[str], out: Path, log: Path) -> None:
        self.out, self._log = out, log
        program = Path(sys.executable).parent / "attachment-gateway"
        self.began_at = time_ns()
        with log.open("ab") as said:
            self._from = said.tell()
            self._driver = subprocess.Popen(
                [str(program), "pipeline", *command],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=ROOT,
                start_new_session=True,
            )

    @property
    def status(self) -> int | None:
        """The driver's exit status, negative for a signal; None while it runs."""
        return self._driver.poll()

    @property
    def said(self) -> str:
        """The end of this run's output."""
        return self._log.read_bytes()[self._from :].decode(errors="replace")[-_SHOWN:]

    def processes(self) -> list[Process]:
        """Return the processes of the session, without those that have ended."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(FileNotFoundError, ProcessLookupError):
                name, _, rest = path.read_text().rpartition(")")
                state, parent, _, session, *_ = rest.split()
                if int(session) == self._driver.pid and state not in "ZX":
                    is_for_tasks = b"\0pyspark.worker\0" in (path.parent / "cmdline").read_bytes()
                    found.append(Process(int(path.parent.name), int(parent), name.endswith("(java"), is_for_tasks))
        return found

    def driver(self) -> list[int]:
        return [] if self.status is not None else [self._driver.pid]

    def java(self) -> list[int]:
        """Return the Java process of the driver."""
        return [each.pid for each in self.processes() if each.is_java and each.parent == self._driver.pid]

    def executors(self) -> list[int]:
        """Return the Java processes of executors."""
        found = self.processes()
        java = {each.pid for each in found if each.is_java}
        return [each.pid for each in found if each.is_java and each.parent in java]

    def workers(self) -> list[int]:
        """Return the Python processes of tasks, and those that start them."""
        return [each.pid for each in self.processes() if each.is_for_tasks]

    def all(self) -> list[int]:
        return [each.pid for each in self.processes()]

    def await_end(self) -> int:
        """Return the exit status. Raises Hung if the run does not end."""
        try:
            return self._driver.wait(RUN_LIMIT)
        except subprocess.TimeoutExpired:
            raise Hung(f"a run does not end: {self.said}") from None

    def await_gone(self) -> None:
        """Return when no process of the session is left. Raises Hung."""
        end = monotonic() + ENDED_WITHIN
        while left := self.processes():
            if monotonic() > end:
                raise Hung(f"processes are left behind: {left}")
            sleep(LOOK_SECONDS)

    def close(self) -> None:
        """Kill whatever is left."""
        while left := self.all():
            kill(left)
            sleep(LOOK_SECONDS)
        self._driver.wait()


def kill(pids: Sequence[int]) -> bool:
    """Kill processes, and tell whether one of them was there."""
    hit = False
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            hit = True
    return hit
