"""A whole archive at once: every sealed segment of a journal -> attachments, the catalog and tables.

Spark shuffles references twice, headers by source and everything by attachment, and never a body. How far an archive
is read is written down before: a run that was killed is done again over the very same messages, so that tables, which
may have been told of it already, are told the same.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from app.pipeline import steps, tables
from app.pipeline.commit import Committed, Committer
from app.pipeline.job import Job, Opened, open_job
from app.pipeline.references import SCHEMA
from app.pipeline.sources import register
from app.pipeline.tables import TableTask, Written
from app.pipeline.workers import in_task
from app.ports import Catalog, Clock, ContentStore

BEGUN = "pipeline/batch"
"""The object of the content store that says how far a batch that has begun reads its archive."""

HEADER_PARTITION_BYTES = 1 << 30
"""Of the journal, for a task that only looks for headers: it touches little of it, and a task costs 40 ms."""

TABLE_TASKS_HERE = 1
"""So few tasks are not worth a job of Spark's."""


def run(spark: SparkSession, job: Job, catalog: Catalog, clock: Clock) -> Committed | None:
    """Assembles, finishes and commits all that the archive of a job holds; None when it holds no segment. Raises
    OurError and PluginError."""
    opened = open_job(job)
    last = _last_segment(job, opened)
    if last is None:
        return None
    results = steps.results_of(assembled(spark, job, last).toArrow())
    committed = Committer(opened, catalog, clock, table_writer(spark, job)).commit(results)
    opened.stores.store.delete(BEGUN)
    return committed


def assembled(spark: SparkSession, job: Job, last_segment: int | None = None) -> DataFrame:
    """The results of all attachments up to a segment, in rows of `steps.RESULTS`."""
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
        .mapInArrow(in_task(steps.assemble_all(job)), from_arrow_schema(steps.RESULTS))
    )


def table_writer(spark: SparkSession, job: Job) -> Callable[[Sequence[TableTask]], Iterable[Written]]:
    """Has the tables' files written by Spark's workers."""

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
    spark: SparkSession, job: Job, only: str, last_segment: int | None, partition_bytes: int | None = None
) -> DataFrame:
    reader = spark.read.format("attachment_references").option("only", only)
    if partition_bytes is not None:
        reader = reader.option("partition_bytes", str(partition_bytes))
    if last_segment is not None:
        reader = reader.option("last_segment", str(last_segment))
    return reader.load(job.journal)


def _last_segment(job: Job, opened: Opened) -> int | None:
    """The last segment of the batch of this archive that was begun and not committed, else the newest."""
    store = opened.stores.store
    begun = _begun(store)
    if begun is not None and begun["journal"] == job.journal:
        last: int = begun["last_segment"]
        return last
    segments = opened.archive.segments()
    if not segments:
        return None
    with store.create(BEGUN) as target:
        target.write(orjson.dumps({"journal": job.journal, "last_segment": segments[-1].number}))
    return segments[-1].number


def _begun(store: ContentStore) -> dict[str, Any] | None:
    with suppress(KeyError):
        found: dict[str, Any] = orjson.loads(b"".join(store.read(BEGUN)))
        return found
    return None
