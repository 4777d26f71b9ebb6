"""What Python workers of Spark do once, at their first task."""

from collections.abc import Iterable, Iterator
from functools import cache

import pyarrow as pa
from pyspark import TaskContext

from app.pipeline.steps import Step
from app.service.threads import collect_seldom


def in_task(step: Step) -> Step:
    """A step as tasks run it."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        at_task_start()
        return step(batches)

    return run


def at_task_start() -> None:
    """To be called by what runs in a task; elsewhere it does nothing."""
    if TaskContext.get() is not None:
        _keep_modules()


@cache
def _keep_modules() -> None:
    """Spark has garbage collected behind every task. With all that is imported here each time took 45 ms of a core,
    more than reading 64 MiB of a journal; what is frozen is not looked at."""
    collect_seldom()
