"""Batch processing of a whole archive: every sealed segment of a journal.

Spark shuffles references twice, headers by source and all references by attachment, and never a body. The end of the
run is saved before it starts. A run that was killed is repeated over the very same messages, so that tables that have
committed it already get the same data. An archive that has grown since is read as a whole, and only its new messages
are committed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from heapq import heapreplace
from itertools import chain
from math import ceil
from typing import Any

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from app.model.message import Position
from app.pipeline import steps, tables
from app.pipeline.commit import Committed, Committer
from app.pipeline.job import Job, Opened, open_job
from app.pipeline.references import SCHEMA, What
from app.pipeline.sources import register
from app.pipeline.tables import TableTask, Written
from app.pipeline.workers import at_task_start, in_task
from app.ports import Catalog, Clock, ContentStore
from app.service.threads import together

BEGUN = "pipeline/batch"
"""The object of the content store that says how far a started batch reads its archive."""

MOST_SHARES = 4096
"""The largest number of tasks that finish the attachments of an archive in an object store."""

TABLE_TASKS_HERE = 1
"""The largest number of tasks that run in the driver: so few are not worth a Spark job."""

SHARES_PER_CORE = 2
SMALL_TABLE = 1 << 20
"""The size of the stored data sets up to which tables are written at the same time: their files wait for the disk, or
for the object store."""
TABLE_TASK_COST = 256 << 10
"""The number of bytes that take about as long as the file of a table without rows."""


def run(spark: SparkSession, job: Job, catalog: Catalog, clock: Clock) -> Committed | None:
    """Assemble, finish and commit everything in a job's archive. Return None when it has no segment.

    Raises GatewayError and PluginError.
    """
    opened = open_job(job)
    done = [_run_to(last, spark, job, catalog, clock) for last in _ends(job, opened)]
    return _together([committed for committed in done if committed is not None])


def _run_to(last: int, spark: SparkSession, job: Job, catalog: Catalog, clock: Clock) -> Committed | None:
    """Process everything up to and including a segment."""
    opened = open_job(job)
    with opened.stores.store.create(BEGUN) as target:
        target.write(orjson.dumps({"journal": job.journal, "last_segment": last}))
    committer = Committer(opened, catalog, clock, table_writer(spark, job))
    with assembled(spark, job, last, _known(committer.progress, last)) as rows:
        results = steps.results_of(rows.toArrow())
    committed = committer.commit(results)
    opened.stores.store.delete(BEGUN)
    return committed


def _known(progress: int | None, last: int) -> int | None:
    """Return the catalog's progress, if it is before the last segment.

    A run that had reached its end is repeated as a whole: it may have been killed right after.
    """
    return progress if progress is not None and Position.unpack(progress).segment < last else None


def _together(runs: Sequence[Committed]) -> Committed | None:
    if not runs:
        return None
    return Committed(
        reached=max(each.reached for each in runs),
        finished=sum(each.finished for each in runs),
        refused=sum(each.refused for each in runs),
        quarantined=sum(each.quarantined for each in runs),
        duplicates=sum(each.duplicates for each in runs),
        conflicts=sum(each.conflicts for each in runs),
        tables=tuple(chain.from_iterable(each.tables for each in runs)),
        was_known=all(each.was_known for each in runs),
    )


@contextmanager
def assembled(
    spark: SparkSession, job: Job, last_segment: int | None = None, known: int | None = None
) -> Iterator[DataFrame]:
    """Compute the results of all attachments up to a segment, in rows of `steps.RESULTS`, within the block.

    With the packed position `known`, compute only those of attachments with messages after it. Every segment is read
    once for all references, which Spark keeps during the block.
    """
    register(spark)
    references = _references(spark, job, last_segment).persist()
    try:
        yield _results(spark, job, references, last_segment, known)
    finally:
        references.unpersist()


def _results(
    spark: SparkSession, job: Job, references: DataFrame, last_segment: int | None, known: int | None
) -> DataFrame:
    in_spark = from_arrow_schema(SCHEMA)
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or "1")
    is_header = references.what == int(What.HEADER)
    headers = (
        references.filter(is_header)
        .repartition(partitions, "source")
        .sortWithinPartitions("source", "position")
        .mapInArrow(in_task(steps.headers(job)), in_spark)
    )
    by_key = (
        references.filter(~is_header)
        .unionByName(headers)
        .repartition(partitions, "source", "key")
        .sortWithinPartitions("source", "key")
    )
    results = from_arrow_schema(steps.RESULTS)
    if job.is_local:
        return by_key.mapInArrow(in_task(steps.assemble_all(job, known)), results)
    shares = _shares(job, last_segment)
    return (
        by_key.mapInArrow(in_task(steps.outcomes_by_place(job, shares, known)), from_arrow_schema(steps.PLACED))
        .repartitionById(len(shares), "share")
        .mapInArrow(in_task(steps.finish_all(job)), results)
    )


def _shares(job: Job, last_segment: int | None) -> list[int]:
    """Return the first segments of the shares of an archive by which its attachments are finished.

    A segment of an object store is fetched as a whole. So attachments that begin in the same segments are finished by
    the same task.
    """
    numbers = [segment.number for segment in open_job(job).archive.segments()]
    numbers = [number for number in numbers if last_segment is None or number <= last_segment]
    return numbers[:: ceil(len(numbers) / MOST_SHARES)] or [0]


def table_writer(spark: SparkSession, job: Job) -> Callable[[Sequence[TableTask]], Iterable[Written]]:
    """Return a function by which Spark's workers write the tables' files."""

    def write(tasks: Sequence[TableTask]) -> Iterable[Written]:
        if len(tasks) <= TABLE_TASKS_HERE:
            return write_tables(job, tasks)
        context = spark.sparkContext
        shares = in_shares(tasks, SHARES_PER_CORE * context.defaultParallelism)
        run = partial(_write_in_task, job)
        found = context.parallelize([[tasks[at] for at in share] for share in shares], len(shares)).map(run).collect()
        by_task = dict(zip(chain(*shares), chain(*found), strict=True))
        return [by_task[at] for at in range(len(tasks))]

    return write


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


def _references(spark: SparkSession, job: Job, last_segment: int | None) -> DataFrame:
    reader = spark.read.format("attachment_references")
    if last_segment is not None:
        reader = reader.option("last_segment", str(last_segment))
    return reader.load(job.journal)


def _ends(job: Job, opened: Opened) -> list[int]:
    """Return the last segments of the runs to make: of this archive's unfinished run, and the newest segment."""
    begun = _begun(opened.stores.store)
    ends = [begun["last_segment"]] if begun is not None and begun["journal"] == job.journal else []
    newest = [segment.number for segment in opened.archive.segments()[-1:]]
    return ends + [number for number in newest if not ends or number > ends[0]]


def _begun(store: ContentStore) -> dict[str, Any] | None:
    with suppress(KeyError):
        found: dict[str, Any] = orjson.loads(b"".join(store.read(BEGUN)))
        return found
    return None
