"""`attachment-gateway pipeline …` as a separate process in which something is killed.

python -m tests.support.failing_pipeline WHAT MARKER batch …

WHAT is "java": the first task kills the Java process; "worker": every task kills its Python worker; "worker-once": only
the first task does. The file MARKER is created with the first kill.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from app.pipeline import steps

ROOT = Path(__file__).parents[2]


class Ended(NamedTuple):
    """How the command ended, and what it said."""

    code: int
    out: str
    err: str


def run(what: str, folder: Path, *command: object) -> Ended:
    """Run a command of `pipeline`; `folder` gets the marker."""
    arguments = [what, folder / f"killed-{what}", *command, "--master", "local[2]", "--memory", "1g"]
    program = [sys.executable, "-m", "tests.support.failing_pipeline", *map(str, arguments), "--partitions", "2"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "250"}
    ended = subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=300)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def _kill(what: str, marker: Path) -> None:
    """Replace the steps by ones whose tasks kill a process."""
    for name in ("assemble_all", "finish_all"):
        setattr(steps, name, _killing(getattr(steps, name), what, str(marker)))


def _killing(made: object, what: str, marker: str) -> object:
    def make(*given: object) -> object:
        step = made(*given)  # type: ignore[operator]

        def killing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from tests.support.failing_pipeline import die  # noqa: PLC0415 - in the worker

            die(what, marker)
            yield from step(batches)

        return killing

    return make


def die(what: str, marker: str) -> None:
    """Kill this worker, or the Java process above it. The parent of a worker is PySpark's daemon, whose parent is
    Java."""
    is_first = not Path(marker).exists()
    Path(marker).touch()
    if what == "java":
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
    elif is_first or what == "worker":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    from app.cli import main

    what_, marker_, *command_ = sys.argv[1:]
    sys.argv = ["attachment-gateway", "pipeline", *command_]
    if what_ != "nothing":
        _kill(what_, Path(marker_))
    main()
