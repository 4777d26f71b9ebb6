"""Batch processing of a whole archive: every sealed segment of a journal.

Spark shuffles references twice, headers by source and all references by attachment, and never a body. An archive that
has grown since an earlier run is read as a whole, and only its new messages are committed (`app.pipeline.runs`).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from app.pipeline import runs, steps, tables
from app.pipeline.commit import Committed, WriteTables
from app.pipeline.finishing import Result
from app.pipeline.intent import Window
from app.pipeline.job import Job, open_job
from app.pipeline.references import SCHEMA
from app.pipeline.runs import Again
from app.pipeline.sources import cache_options, register
from app.pipeline.steps import Step
from app.pipeline.tables import TableTask, Written
from app.pipeline.workers import in_task
from app.ports import Catalog, Clock

HEADER_PARTITION_BYTES = 1 << 30
"""The size of the journal that a task reads when it only looks for headers. It reads little of it, and a task costs 40
ms."""

TABLE_TASKS_HERE = 1
"""The largest number of tasks that run in the driver: so few are not worth a Spark job."""


def run(spark: SparkSession, job: Job, catalog: Catalog, clock: Clock, again: Again | None = None) -> Committed | None:
    """Assemble, finish and commit everything in a job's archive, as `app.pipeline.runs.run`."""
    return runs.run(SparkPasses(spark), job, catalog, clock, again)


class SparkPasses:
    """`app.pipeline.runs.Passes` by Spark's workers."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def news(self, job: Job, last: int, known: int | None) -> list[Result]:
        return self._results(job, last, steps.assemble_all(job, known))

    def again(self, job: Job, last: int, window: Window) -> list[Result]:
        return self._results(job, last, steps.assemble_again(job, window))

    def table_writer(self, job: Job) -> WriteTables:
        return table_writer(self._spark, job)

    def _results(self, job: Job, last: int, step: Step) -> list[Result]:
        return steps.results_of(assembled(self._spark, job, last, step).toArrow())


def assembled(spark: SparkSession, job: Job, last_segment: int, step: Step) -> DataFrame:
    """Return the results, in rows of `steps.RESULTS`, of a step over all references up to a segment."""
    register(spark)
    in_spark = from_arrow_schema(SCHEMA)
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or "1")
    headers = (
        _references(spark, job, "headers", last_segment, HEADER_PARTITION_BYTES)
        .repartition(partitions, "source")
        .sortWithinPartitions("source", "position")
        .mapInArrow(in_task(steps.headers(job)), in_spark)
    )
    return (
        _references(spark, job, "others", last_segment)
        .unionByName(headers)
        .repartition(partitions, "source", "key")
        .sortWithinPartitions("source", "key")
        .mapInArrow(in_task(step), from_arrow_schema(steps.RESULTS))
    )


def table_writer(spark: SparkSession, job: Job) -> Callable[[Sequence[TableTask]], Iterable[Written]]:
    """Return a function by which Spark's workers write the tables' files."""

    def write(tasks: Sequence[TableTask]) -> Iterable[Written]:
        if len(tasks) <= TABLE_TASKS_HERE:
            return map(partial(_write, job), tasks)
        written: list[Written] = spark.sparkContext.parallelize(tasks, len(tasks)).map(partial(_write, job)).collect()
        return written

    return write


def _write(job: Job, task: TableTask) -> Written:
    opened = open_job(job)
    assert opened.tables is not None
    return tables.write(task, opened.tables, opened.stores.store)


def _references(
    spark: SparkSession, job: Job, only: str, last_segment: int, partition_bytes: int | None = None
) -> DataFrame:
    reader = spark.read.format("attachment_references").option("only", only)
    if partition_bytes is not None:
        reader = reader.option("partition_bytes", str(partition_bytes))
    reader = reader.options(last_segment=str(last_segment), **cache_options(job))
    return reader.load(job.journal)
