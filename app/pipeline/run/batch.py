"""Batch processing of a whole archive: every sealed segment of a journal.

Spark shuffles references twice, headers by source and all references by attachment, and never the body of a part. An
archive that has grown since an earlier run is read as a whole, and only its new messages are committed
(`app.pipeline.run.runs`).
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from heapq import heapreplace
from itertools import chain
from math import ceil

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from app.pipeline.commit import packages, tables
from app.pipeline.commit.commit import CommittedBatch, WriteTables
from app.pipeline.commit.commit_intent import ReprocessingWindow
from app.pipeline.commit.packages import TaskResults
from app.pipeline.commit.tables import TableTask, Written
from app.pipeline.finish.finish_outcomes import Result
from app.pipeline.job.job import Job, open_job
from app.pipeline.job.spark_session import is_connected
from app.pipeline.job.stage_names import described
from app.pipeline.job.workers import at_task_start, in_task
from app.pipeline.read.segment_shares import Share
from app.pipeline.references.message_references import SCHEMA, What, to_batch
from app.pipeline.references.retired_headers import Retired
from app.pipeline.references.shuffle import packed, packing, unpacking
from app.pipeline.run import runs, spark_steps
from app.pipeline.run.runs import ReprocessingScope
from app.pipeline.run.segment_sources import ReferenceSource, cache_options
from app.ports import Catalog, Clock
from app.service.threads import together

_NAMES_SHOWN = 200
"""Characters of the names of tables in the description of a job."""

TABLE_TASKS_HERE = 1
"""The largest number of tasks that run in the driver: so few are not worth a Spark job."""

SHARES_PER_CORE = 2
LEAST_SHARE, MOST_SHARE = 8 << 20, 256 << 20
"""The size of the segments that one task reads for references, in bytes. A task costs about as much as 40 MiB."""

PARTITION_BYTES = 512 << 20
"""The size of the segments, in bytes, whose references one task may hold in memory. They take a hundredth of it if
messages are large, and up to a half if all are tiny."""

SMALL_TABLE = 1 << 20
"""The size of the stored data sets up to which tables are written at the same time: their files wait for the disk, or
for the object store."""
TABLE_TASK_COST = 256 << 10
"""The number of bytes that take about as long as the file of a table without rows."""


def run(
    spark: SparkSession, job: Job, catalog: Catalog, clock: Clock, again: ReprocessingScope | None = None
) -> CommittedBatch | None:
    """Assemble, finish and commit everything in a job's archive, as `app.pipeline.run.runs.run`."""
    return runs.run(SparkPasses(spark), job, catalog, clock, again)


class SparkPasses:
    """`app.pipeline.run.runs.Passes` by Spark's workers."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def news(self, job: Job, last: int, known: int | None, retired: Retired, *, checked: bool) -> TaskResults:
        with (
            self._described("assemble", job, last),
            _all_references(self._spark, job, last, retired, checked=checked) as references,
        ):
            return packages.found_in(_finished(job, references, last, known, checked).toArrow())

    def again(self, job: Job, last: int, window: ReprocessingWindow, retired: Retired) -> Sequence[Result]:
        step = in_task(unpacking(spark_steps.assemble_again(job, window)))
        with (
            self._described("process again", job, last),
            _all_references(self._spark, job, last, retired, checked=True) as references,
        ):
            found = references.mapInArrow(step, from_arrow_schema(packages.RESULTS))
            return packages.found_in(found.toArrow()).results

    def table_writer(self, job: Job) -> WriteTables:
        return table_writer(self._spark, job)

    def _described(self, action: str, job: Job, last: int) -> AbstractContextManager[None]:
        return described(self._spark, f"{action} segments up to {last} of {job.journal}")


@contextmanager
def _all_references(
    spark: SparkSession, job: Job, last_segment: int, retired: Retired, *, checked: bool
) -> Iterator[DataFrame]:
    """Provide all references up to a segment, packed by partition, for the block.

    Every segment is read once for all references, which Spark keeps during the block.
    """
    size = sum(segment.size for segment in open_job(job).archive.segments() if segment.number <= last_segment)
    partitions = max(_shuffle_partitions(spark), ceil(size / PARTITION_BYTES))
    read = _references(spark, job, last_segment, size, partitions, checked).persist()
    try:
        yield _with_headers_read(spark, job, read, retired, partitions)
    finally:
        read.unpersist()


def _with_headers_read(
    spark: SparkSession, job: Job, references: DataFrame, retired: Retired, partitions: int
) -> DataFrame:
    """Return packed references, those to the content of headers in place of the headers, and with those of retired
    headers."""
    is_header = references.what == int(What.HEADER)
    read_headers = packing(spark_steps.headers(job, retired), partitions)
    headers = (
        references.filter(is_header)
        .repartition(_shuffle_partitions(spark), "source")
        .sortWithinPartitions("source", "position")
        .mapInArrow(in_task(read_headers), from_arrow_schema(SCHEMA))
    )
    if retired.references:
        known = pa.Table.from_batches(packed([to_batch(retired.references)], partitions))
        headers = headers.unionByName(spark.createDataFrame(known))
    everything = references.filter(~is_header).unionByName(headers)
    return everything.repartitionById(partitions, everything.position.cast("int"))


def _shuffle_partitions(spark: SparkSession) -> int:
    return int(spark.conf.get("spark.sql.shuffle.partitions") or "1")


def _finished(job: Job, references: DataFrame, last_segment: int, known: int | None, checked: bool) -> DataFrame:
    """Return the results, in rows of `packages.RESULTS`, of all attachments with messages after the packed position
    `known`."""
    results = from_arrow_schema(packages.RESULTS)
    if job.is_local:
        return references.mapInArrow(in_task(unpacking(spark_steps.assemble_all(job, known, checked=checked))), results)
    shares = _shares(job, last_segment, _most_shares(references.sparkSession))
    placed = from_arrow_schema(spark_steps.PLACED)
    return (
        references.mapInArrow(in_task(unpacking(spark_steps.outcomes_by_place(job, shares, known))), placed)
        .repartitionById(len(shares), "share")
        .sortWithinPartitions("position")
        .mapInArrow(in_task(spark_steps.finish_all(job, known, checked=checked)), results)
    )


def _shares(job: Job, last_segment: int, most: int) -> list[int]:
    """Return the first segments of at most so many shares of an archive, by which its attachments are finished.

    A segment of an object store is fetched as a whole. So attachments that begin in the same segments are finished by
    the same task, in their order. The more shares, the more segments are fetched by two tasks: attachments reach into
    the segments of the next share.
    """
    numbers = [segment.number for segment in open_job(job).archive.segments() if segment.number <= last_segment]
    return numbers[:: ceil(len(numbers) / most)] if numbers else [0]


def table_writer(spark: SparkSession, job: Job) -> Callable[[Sequence[TableTask]], Iterable[Written]]:
    """Return a function by which Spark's workers write the tables' files."""

    def write(tasks: Sequence[TableTask]) -> Iterable[Written]:
        if len(tasks) <= TABLE_TASKS_HERE:
            return write_tables(job, tasks)
        shares = in_shares(tasks, _most_shares(spark))
        names = sorted({task.table for task in tasks})
        with described(spark, f"write {len(tasks)} files of {len(names)} tables: {', '.join(names)[:_NAMES_SHOWN]}"):
            found = _written(spark, job, [[tasks[at] for at in share] for share in shares])
        by_task = dict(zip(chain(*shares), chain(*found), strict=True))
        return [by_task[at] for at in range(len(tasks))]

    return write


def _most_shares(spark: SparkSession) -> int:
    """Return the number of tasks that keep all cores busy. The cores of a Spark Connect server are not known."""
    if is_connected(spark):
        return _shuffle_partitions(spark)
    return SHARES_PER_CORE * spark.sparkContext.defaultParallelism


def _written(spark: SparkSession, job: Job, shares: Sequence[Sequence[TableTask]]) -> list[list[Written]]:
    """Return what Spark's workers have written for each share of the table tasks."""
    if not is_connected(spark):
        run = partial(_write_in_task, job)
        found: list[list[Written]] = spark.sparkContext.parallelize(shares, len(shares)).map(run).collect()
        return found
    packed = pa.array([pickle.dumps(share) for share in shares], pa.binary())
    rows = pa.table({"share": pa.array(range(len(shares)), pa.int32()), "packed": packed})
    written = (
        spark.createDataFrame(rows)
        .repartitionById(len(shares), "share")
        .mapInArrow(partial(_write_all, job), "share int, packed binary")
        .toArrow()
        .sort_by("share")
    )
    return [pickle.loads(each) for each in written.column("packed").to_pylist()]  # noqa: S301 - of this job


def _write_all(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        shares = (pickle.loads(packed) for packed in batch.column("packed").to_pylist())  # noqa: S301 - of this job
        written = [pickle.dumps(_write_in_task(job, share)) for share in shares]
        yield batch.set_column(1, "packed", pa.array(written, pa.binary()))


def in_shares(tasks: Sequence[TableTask], shares: int) -> list[list[int]]:
    """Return the numbers of the tasks in at most so many shares of about the same size."""
    made: list[list[int]] = [[] for _ in range(min(shares, len(tasks)))]
    loads = [(0, number) for number in range(len(made))]
    for at in sorted(range(len(tasks)), key=lambda at: tasks[at].size, reverse=True):
        load, number = loads[0]
        made[number].append(at)
        heapreplace(loads, (load + tasks[at].size + TABLE_TASK_COST, number))
    return made


def _write_in_task(job: Job, tasks: Sequence[TableTask]) -> list[Written]:
    at_task_start()
    return write_tables(job, tasks)


def write_tables(job: Job, tasks: Sequence[TableTask]) -> list[Written]:
    """Run table tasks in this process: large ones one after the other, and small ones many at a time."""
    opened = open_job(job)
    assert opened.tables is not None
    run = partial(tables.write, tables=opened.tables, content=opened.stores.store)
    small = [task for task in tasks if task.size <= SMALL_TABLE]
    done = iter(together(run, small))
    return [next(done) if task.size <= SMALL_TABLE else run(task) for task in tasks]


def _references(
    spark: SparkSession, job: Job, last_segment: int, size: int, partitions: int, checked: bool
) -> DataFrame:
    share = min(max(size // _most_shares(spark), LEAST_SHARE), MOST_SHARE)
    wanted = {
        "last_segment": last_segment,
        "partition_bytes": share,
        "newest_first": not job.is_local,
        "partitions": partitions,
        "all_bodies": checked,
    }
    options = {**{name: str(value) for name, value in wanted.items()}, **cache_options(job)}
    source = ReferenceSource({"path": job.journal, **options})
    shares = source.reader(source.schema()).partitions()
    numbers = spark.range(0, len(shares), 1, len(shares))
    return numbers.mapInArrow(partial(_read_shares, source, shares), source.schema())


def _read_shares(
    source: ReferenceSource, shares: Sequence[Share], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column("id").to_pylist():
            yield from source.read(shares[number], source.schema())
