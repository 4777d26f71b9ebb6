"""Batch processing of a whole archive: every sealed segment of a journal.

Spark shuffles references twice, headers by source and all references by attachment, and never a body. The end of the
run is saved before it starts. A run that was killed is repeated over the very same messages, so that tables that have
committed it already get the same data. An archive that has grown since is read as a whole, and only its new messages
are committed.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from app.model.message import Position
from app.pipeline import steps, tables
from app.pipeline.commit import Committed, Committer
from app.pipeline.job import Job, Opened, open_job
from app.pipeline.references import SCHEMA
from app.pipeline.session import is_connected
from app.pipeline.sources import register
from app.pipeline.stages import described
from app.pipeline.tables import TableTask, Written
from app.pipeline.workers import in_task
from app.ports import Catalog, Clock, ContentStore

BEGUN = "pipeline/batch"
"""The object of the content store that says how far a started batch reads its archive."""

HEADER_PARTITION_BYTES = 1 << 30
"""The size of the journal that a task reads when it only looks for headers. It reads little of it, and a task costs 40
ms."""

_NAMES_SHOWN = 200
"""Characters of the names of tables in the description of a job."""

TABLE_TASKS_HERE = 1
"""The largest number of tasks that run in the driver: so few are not worth a Spark job."""


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
    with described(spark, f"assemble segments up to {last} of {job.journal}"):
        results = steps.results_of(assembled(spark, job, last, _known(committer.progress, last)).toArrow())
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
        quality=tuple(chain.from_iterable(each.quality for each in runs)),
    )


def assembled(spark: SparkSession, job: Job, last_segment: int | None = None, known: int | None = None) -> DataFrame:
    """Return the results of all attachments up to a segment, in rows of `steps.RESULTS`.

    With the packed position `known`, return only attachments with messages after it.
    """
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
        .mapInArrow(in_task(steps.assemble_all(job, known)), from_arrow_schema(steps.RESULTS))
    )


def table_writer(spark: SparkSession, job: Job) -> Callable[[Sequence[TableTask]], Iterable[Written]]:
    """Return a function by which Spark's workers write the tables' files."""

    def write(tasks: Sequence[TableTask]) -> Iterable[Written]:
        if len(tasks) <= TABLE_TASKS_HERE:
            return map(partial(_write, job), tasks)
        names = sorted({task.table for task in tasks})
        with described(spark, f"write {len(tasks)} files of {len(names)} tables: {', '.join(names)[:_NAMES_SHOWN]}"):
            return _written(spark, job, tasks)

    return write


def _written(spark: SparkSession, job: Job, tasks: Sequence[TableTask]) -> list[Written]:
    """Return what Spark's workers have written, a task each."""
    if not is_connected(spark):
        found: list[Written] = spark.sparkContext.parallelize(tasks, len(tasks)).map(partial(_write, job)).collect()
        return found
    rows = pa.table({"task": pa.array([pickle.dumps(task) for task in tasks], pa.binary())})
    written = (
        spark.createDataFrame(rows)
        .repartition(len(tasks))
        .mapInArrow(partial(_write_all, job), "written binary")
        .toArrow()
    )
    return [pickle.loads(each) for each in written.column("written").to_pylist()]  # noqa: S301 - of this job


def _write_all(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for packed in batch.column("task").to_pylist():
            written = _write(job, pickle.loads(packed))  # noqa: S301 - of this job
            yield pa.record_batch({"written": pa.array([pickle.dumps(written)], pa.binary())})


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
