"""Stream processing of a growing journal: micro-batches of sealed segments become attachments and rows of tables.

    references --+-- headers --> by source: HeaderProcessor --+
                 |                                            +--> by attachment: AttachmentProcessor --> outcomes
                 +-- all others ------------------------------+
    outcomes --> finished in Spark's workers --> results --> committed by this process

Spark's checkpoint contains the segments of each micro-batch, and the state before it. A driver that was killed repeats
its last micro-batch, with the same segments and the same state, and `app.pipeline.commit.commit` recognizes it. A
commit that was interrupted is ended before the stream starts (`app.pipeline.run.batch`), with or without a checkpoint.
With a new checkpoint and an older catalog, the journal is read from its beginning. Up to the catalog's progress this
only builds state. No micro-batch has both segments up to that progress and segments after it. A checkpoint of another
journal, or one that is ahead of the catalog, is refused.
"""

from collections.abc import Callable
from functools import partial

import structlog
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from app.model.message import Position
from app.pipeline.commit import packages
from app.pipeline.commit.commit import CommittedBatch, Committer
from app.pipeline.commit.packages import Findings
from app.pipeline.job.job import Job, OpenRun
from app.pipeline.job.spark_failures import is_late_worker
from app.pipeline.job.spark_session import described
from app.pipeline.job.workers import in_task
from app.pipeline.read.journal_archives import missing_segments, spoken
from app.pipeline.references.message_references import ReferenceKind
from app.pipeline.run import spark_steps
from app.pipeline.run.batch import process, unfinished
from app.pipeline.run.processors import AttachmentProcessor, HeaderProcessor
from app.pipeline.run.segment_sources import cache_options, register
from app.pipeline.run.spark_steps import OUTCOME_ROWS, REFERENCES, SparkSteps, kept
from app.pipeline.watch.run_records import recording

Watch = Callable[[int, Findings, CommittedBatch], None]
"""A function that is called for every micro-batch with its number, its results, and its outcome."""

STARTS = 3
"""How often a stream is begun whose Python worker does not start in time."""
_POLL_SECONDS = 1

log = structlog.stdlib.get_logger(__name__)


def start(
    spark: SparkSession,
    run: OpenRun,
    *,
    checkpoint: str,
    bytes_per_trigger: int,
    every: float | None,
    watch: Watch = lambda _number, _found, _committed: None,
) -> StreamingQuery:
    """Start the stream, or continue from the checkpoint.

    A micro-batch takes at most `bytes_per_trigger` bytes of journal. A new one begins every `every` seconds. With None,
    the stream ends with the segments that are sealed now.
    """
    steps = SparkSteps(spark)
    for batch in unfinished(run):
        process(steps, run, batch)
    committer = Committer(run, partial(steps.write_tables, run))

    def take(outcomes: DataFrame, number: int) -> None:
        before = committer.progress
        step = in_task(run.job, partial(spark_steps.finish_all, known=before))
        with (
            described(spark, f"micro-batch {number}: assemble and finish attachments"),
            recording(run.catalog, run.clock, "stream") as record,
            kept(outcomes.mapInArrow(step, from_arrow_schema(packages.RESULTS))) as found,
        ):
            if not found:
                return
            record.begin()
            committed = committer.commit(found)
            record.end(committed)
            if committed is not None:
                counts = {name: getattr(committed, name) for name in ("finished", "refused", "quarantined")}
                counts["tables"] = len(committed.tables)
                again = {"again": True} if committed.was_known else {}
                log.info("batch_committed", batch=number, **counts, state_bytes=found.state, **again)
                _warn(run, before, committed)
                watch(number, found, committed)

    writer = (
        outcomes(spark, run.job, bytes_per_trigger, committer.progress)
        .writeStream.queryName("attachments")
        .outputMode("append")
        .option("checkpointLocation", checkpoint)
        .foreachBatch(take)
    )
    writer = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=f"{every} seconds")
    return writer.start()


def run_until(is_over: Callable[[], bool], begin: Callable[[], StreamingQuery]) -> None:
    """Run a stream until it ends or is over. If a Python worker did not start in time, begin the stream again: it
    continues where it was."""
    for starts_left in range(STARTS - 1, -1, -1):
        query = begin()
        try:
            while not query.awaitTermination(_POLL_SECONDS):
                if is_over():
                    query.stop()
        except StreamingQueryException as error:
            if not starts_left or is_over() or not is_late_worker(error):
                raise
            log.warning("stream_restarted", reason="a Python worker of Spark did not start in time")
        else:
            return


def _warn(run: OpenRun, before: int | None, committed: CommittedBatch) -> None:
    """Log what the micro-batch lacked: damaged messages, and segments that are missing."""
    if committed.damaged:
        log.error("messages_damaged", segments=list(committed.damaged), journal=run.job.journal)
    reached = Position.unpack(committed.reached).segment
    numbers = [segment.number for segment in run.archive.segments() if segment.number <= reached]
    after = Position.unpack(before).segment if before is not None else min(numbers, default=1) - 1
    if not committed.was_known and (missing := missing_segments(numbers, after)):
        log.warning("segments_not_found", segments=spoken(missing), journal=run.job.journal)


def outcomes(spark: SparkSession, job: Job, bytes_per_trigger: int, known: int | None = None) -> DataFrame:
    """Return the stream of outcomes, in rows of `spark_steps.OUTCOMES`.

    Outcomes up to the packed position `known` are in separate micro-batches.
    """
    register(spark)
    references = (
        spark.readStream.format("attachment_references")
        .schema(REFERENCES)
        .options(**cache_options(job))
        .option("max_bytes_per_trigger", str(bytes_per_trigger))
        .option("known_segment", str(0 if known is None else Position.unpack(known).segment))
        .load(job.journal)
    )
    is_header = references.kind == int(ReferenceKind.HEADER)
    announced = (
        references.filter(is_header)
        .select("source", "position")
        .groupBy("source")
        .transformWithState(HeaderProcessor(job), REFERENCES, "Append", "ProcessingTime")
    )
    return (
        references.filter(~is_header)
        .unionByName(announced)
        .groupBy("source", "key")
        .transformWithState(AttachmentProcessor(job), OUTCOME_ROWS, "Append", "ProcessingTime")
    )
