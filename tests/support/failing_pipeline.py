"""`attachment-gateway pipeline …` as a separate process whose first task kills the Java process.

python -m tests.support.failing_pipeline batch …
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from app.pipeline.job.job import OpenJob
from app.pipeline.run import spark_steps

ROOT = Path(__file__).parents[2]


class Ended(NamedTuple):
    """How the command ended, and what it said."""

    code: int
    out: str
    err: str


def run(*command: object) -> Ended:
    """Run a command of `pipeline` whose Java is killed."""
    options = ("--master", "local[2]", "--memory", "1g", "--partitions", "2")
    program = [sys.executable, "-m", "tests.support.failing_pipeline", *map(str, command), *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "250"}
    ended = subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=300)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def kill_java() -> None:
    """Kill the Java process above this worker. A worker's parent is PySpark's daemon, whose parent is Java."""
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)


def _killing(step: Callable[..., Iterator[pa.RecordBatch]]) -> Callable[..., Iterator[pa.RecordBatch]]:
    def killing(opened: OpenJob, batches: Iterable[pa.RecordBatch], **given: Any) -> Iterator[pa.RecordBatch]:
        from tests.support.failing_pipeline import kill_java  # noqa: PLC0415 - in the worker

        kill_java()
        yield from step(opened, batches, **given)

    return killing


if __name__ == "__main__":
    from app.cli import main

    sys.argv = ["attachment-gateway", "pipeline", *sys.argv[1:]]
    spark_steps.assemble_and_finish = _killing(spark_steps.assemble_and_finish)
    spark_steps.finish_all = _killing(spark_steps.finish_all)
    main()
