"""Tasks in Spark's Python workers: each opens the job's stores and does one step."""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

from app.service.threads import collect_seldom

if TYPE_CHECKING:
    from app.pipeline.job.job import Job, OpenJob

Step = Callable[["OpenJob", Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""The work of a task: a function from Arrow batches to Arrow batches."""


def in_task(job: "Job", step: Step) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a step as `mapInArrow` takes it."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from app.pipeline.job.job import open_job  # noqa: PLC0415 - processes that plan a stream go without

        at_task_start()
        return step(open_job(job), batches)

    return run


def at_task_start() -> None:
    """Initialize the worker in a task; do nothing elsewhere."""
    if TaskContext.get() is not None:
        _keep_modules(len(sys.modules))


@cache
def _keep_modules(number: int) -> None:  # noqa: ARG001
    """Exclude all imported modules from garbage collection, again whenever their `number` has grown.

    Spark collects garbage after every task. With all imported modules this took 45 ms of a core each time, more than
    reading 64 MiB of a journal. Most modules are imported in a worker's first task.
    """
    collect_seldom()
