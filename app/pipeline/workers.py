"""What Python workers of Spark do once, at their first task."""

import gc
from functools import cache

from pyspark import TaskContext


def at_task_start() -> None:
    """To be called by what runs in a task; elsewhere it does nothing."""
    if TaskContext.get() is not None:
        _keep_modules()


@cache
def _keep_modules() -> None:
    """Spark has garbage collected behind every task. With all that is imported here each time took 45 ms of a core,
    more than reading 64 MiB of a journal; what is frozen is not looked at."""
    gc.freeze()
