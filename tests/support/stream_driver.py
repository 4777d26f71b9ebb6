"""A streaming job in a separate process that kills itself, Java and workers included, at a chosen moment.

python -m tests.support.stream_driver FOLDER JOURNAL [MOMENT BATCH]
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from adapters.delta_tables import DeltaTables
from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.pipeline.commit import packages
from app.pipeline.commit.packages import Findings
from app.pipeline.job import workers
from app.pipeline.job.job import Job, open_run
from app.pipeline.job.spark_session import SparkSettings, session
from app.pipeline.run import spark_steps, streaming
from app.settings import Settings

MOMENTS = ("at work", "read", "one table", "all tables", "catalog")
"""The tasks of a micro-batch are running; its results have come, with every object written; the first of its
tables is committed, all of them are, and the catalog is as well."""

AT_WORK_SECONDS = 0.7
BYTES_PER_TRIGGER = 8 << 20


def settings(folder: Path) -> Settings:
    return Settings.model_validate({"data": folder})


def run(folder: Path, journal: Path, moment: str | None = None, batch: int = 0) -> None:
    spark = session("stream", SparkSettings("local[2]", "1g", 2))
    job = Job.of(settings(folder), str(journal), in_place=True)
    with closing(SqlCatalog(settings(folder).catalog_url)) as catalog:
        if moment is not None:
            _die_at(moment, batch, catalog)
        query = streaming.start(
            spark,
            open_run(job, catalog, SystemClock()),
            checkpoint=str(folder / "checkpoint"),
            bytes_per_trigger=BYTES_PER_TRIGGER,
            every=None,
        )
        query.awaitTermination()


def _die_at(moment: str, batch: int, catalog: SqlCatalog) -> None:
    """Patch the driver so that it kills itself in the `batch`-th micro-batch of this process, from 0; with -1 before
    the first, while it ends the commit of an earlier process."""
    begun = -1

    def is_the_one() -> bool:
        return begun == batch

    def held(table: Any) -> Findings:
        found = read(table)
        if moment == "read" and is_the_one():
            _die()
        return found

    def in_task(job: Job, step: Any) -> Any:
        nonlocal begun
        begun += 1
        if is_the_one() and moment == "at work":
            threading.Timer(AT_WORK_SECONDS, _die).start()
        return prepared(job, step)

    read, prepared = packages.held, workers.in_task
    vars(spark_steps)["held"] = held
    vars(streaming)["in_task"] = in_task
    if moment == "one table":
        DeltaTables.commit = _dying_after(DeltaTables.commit, is_the_one)  # type: ignore[method-assign]
    written: Any = catalog
    if moment == "all tables":
        saved = catalog.checkpoints
        written.checkpoints = lambda checkpoints: _die() if is_the_one() else saved(checkpoints)
    if moment == "catalog":
        written.checkpoints = _dying_after(catalog.checkpoints, is_the_one)


def _dying_after(call: Callable[..., Any], is_the_one: Callable[[], bool]) -> Callable[..., Any]:
    def called(*given: Any) -> Any:
        result = call(*given)
        if is_the_one():
            _die()
        return result

    return called


def _die() -> Any:
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    moment_, batch_ = (*sys.argv[3:5], "", "0")[:2]
    run(Path(sys.argv[1]), Path(sys.argv[2]), moment_ or None, int(batch_))
