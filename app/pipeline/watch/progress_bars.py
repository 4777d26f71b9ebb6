"""Progress bars of Spark's stages on a terminal."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from app.pipeline.job.spark_session import is_connected

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

_LOOK_SECONDS = 0.2


@contextmanager
def progress(spark: "SparkSession", what: str, console: Console | None = None) -> Iterator[None]:
    """Show Spark's active stages and their completed tasks while the block runs.

    The bars disappear afterwards. There are none if standard error is not a terminal, or with Spark Connect.
    """
    console = console or Console(stderr=True)
    if not console.is_terminal or is_connected(spark):
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
    )
    over = threading.Event()
    with Progress(*columns, console=console, transient=True) as bars:
        watching = threading.Thread(
            target=_watch,
            args=(spark.sparkContext.statusTracker(), what, bars, over),
            name="spark-progress",
            daemon=True,
        )
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()


def _watch(tracker: "StatusTracker", what: str, bars: Progress, over: threading.Event) -> None:
    shown: dict[int, TaskID] = {}
    while not over.wait(_LOOK_SECONDS):
        active = {stage: tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()}
        for gone in shown.keys() - active.keys():
            bars.remove_task(shown.pop(gone))
        for stage, info in active.items():
            if info is None:
                continue
            if stage not in shown:
                shown[stage] = bars.add_task(f"{what}, stage {stage}", total=info.numTasks)
            bars.update(shown[stage], completed=info.numCompletedTasks)
