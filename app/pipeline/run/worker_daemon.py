"""The daemon of Spark's Python workers. It imports what tasks need before it forks a worker for them.

Spark's own daemon imports nothing, so that each worker imports all modules of a task again: a second of a core for each
of some ten workers, before the first micro-batch of a stream can begin. Workers of this daemon share its modules.

Spark starts it as `python -m app.pipeline.run.worker_daemon` (`spark.python.daemon.module`).
"""

import gc

import pyspark.worker  # noqa: F401 - for the workers
from pyspark.daemon import manager

from app.pipeline.run import segment_sources, state_steps  # noqa: F401 - for the workers


def main() -> None:
    """Fork workers until Spark ends."""
    gc.collect()
    gc.freeze()  # workers share what is there, and do not search it for garbage
    manager()


if __name__ == "__main__":
    main()
