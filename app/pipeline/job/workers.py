"""Initialization of Spark's Python workers, at the start of a task."""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import pyarrow as pa
from pyspark import TaskContext

from app.service.threads import collect_seldom

Step = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A step of a job: a function from Arrow batches to Arrow batches, as `mapInArrow` takes it."""


def in_task(step: Step) -> Step:
    """Return a step with the initialization that a task needs."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        at_task_start()
        return step(batches)

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
