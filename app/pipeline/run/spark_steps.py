"""The steps of a batch on Spark: what the driver plans, and what each task does with its rows.

Spark shuffles references twice, headers by source and all references by attachment, and never the body of a part. A
batch reads the segments behind the catalog's progress. What these continue comes from the catalog
(`app.pipeline.assemble.earlier_state`).

Functions of a task get the open job and Arrow batches. They do not depend on Spark.
"""

import pickle
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from heapq import heapreplace
from itertools import chain, islice
from math import ceil
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema

from app.model.message import Position
from app.pipeline.assemble import columnar_assembly
from app.pipeline.assemble.assemble_key import KeyOutcome, KeyState, assemble, by_key
from app.pipeline.assemble.earlier_state import EarlierState
from app.pipeline.commit import packages, tables
from app.pipeline.commit.commit_intent import IntendedBatch, ReprocessingWindow
from app.pipeline.commit.packages import Findings, held, rows_again, rows_of
from app.pipeline.commit.tables import TableTask, Written
from app.pipeline.finish.finish_outcomes import Result, StagingStore, finish
from app.pipeline.job.job import OpenJob, OpenRun
from app.pipeline.job.spark_session import described, is_connected
from app.pipeline.job.workers import in_task
from app.pipeline.read.segment_shares import Rows, Share, read_share, shares
from app.pipeline.references.header_plan import POSITIONS, SEGMENTS, HeaderPlan, with_keys
from app.pipeline.references.message_references import (
    SCHEMA,
    ReferenceKind,
    from_batch,
    lost_batch,
    references_between,
    to_batch,
)
from app.pipeline.references.shuffle import KEYS, packed, unpacked
from app.pipeline.run import header_steps
from app.ports import JournalArchive, Segment
from app.service.threads import together
from app.tables.quality import Increment, increments, quality_rows

SHARES_PER_CORE = 2
LEAST_SHARE, MOST_SHARE = 8 << 20, 256 << 20
"""The size of the segments that one task reads for references, in bytes. A task costs about as much as 40 MiB."""

PARTITION_BYTES = 128 << 20
"""The size of the segments, in bytes, whose references one task may hold in memory. They take a hundredth of it if
messages are large, and up to a half if all are tiny. Java holds the results of one task at a time, a fifth of it if all
attachments are tiny."""

HELD_BYTES = 16 << 20
"""The largest size of the results of a batch that the driver fetches at once, those of about 50,000 attachments."""

KEYS_AT_ONCE = 10_000
"""The number of keys that the catalog is asked for together."""

QUALITIES_AT_ONCE = 10_000
"""The number of increments of quality that are summed together."""

ELSEWHERE = -1
"""The position `reached` by results outside of a window."""

OUTCOMES = pa.schema([pa.field("outcome", pa.binary(), nullable=False)])
PLACED = pa.schema(
    [pa.field("share", pa.int32(), nullable=False), pa.field("position", pa.int64(), nullable=False), *OUTCOMES]
)
"""Outcomes with their positions, and the number of the share of the journal that they begin in. The last share
has number 0: the newest segments have been read last, and some are still in the cache of an object store's segments."""
OUTCOMES_A_BATCH = 1024

WRITTEN = pa.schema([pa.field("share", pa.int64(), nullable=False), pa.field("written", pa.binary(), nullable=False)])
"""The number of a share of table tasks, and what was written for it, pickled."""

TABLE_TASKS_HERE = 1
"""The largest number of tasks for tables that run in the driver: they are not worth a Spark job."""

SMALL_TABLE = 1 << 20
"""The size of the stored data sets up to which tables are written at the same time: their files wait for the disk, or
for the object store."""
TABLE_TASK_COST = 256 << 10
"""The number of bytes that take about as long as the file of a table without rows."""

_NAMES_SHOWN = 200
"""Characters of the names of tables in the description of a job."""

REFERENCES = from_arrow_schema(SCHEMA)
OUTCOME_ROWS = from_arrow_schema(OUTCOMES)
_RESULTS = from_arrow_schema(packages.RESULTS)


class PackedRows(NamedTuple):
    """References, packed by partition (`app.pipeline.references.shuffle`), and the number of partitions."""

    rows: DataFrame
    partitions: int


class SparkSteps:
    """`app.pipeline.run.batch.Steps` by Spark's workers."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @contextmanager
    def read_references(self, run: OpenRun, batch: IntendedBatch, *, checked: bool) -> Iterator[PackedRows]:
        after = -1 if batch.known is None else batch.known
        numbers = range(max(Position.unpack(after).segment, 0), batch.last_segment + 1)
        segments = [segment for segment in run.archive.segments() if segment.number in numbers]
        size = sum(segment.size for segment in segments)
        partitions = max(_shuffle_partitions(self._spark), ceil(size / PARTITION_BYTES))
        read = partial(references_between, after=after, checked=checked)
        with on_disk(self._read(run, segments, partitions, read)) as rows:
            yield PackedRows(rows, partitions)

    def _read(self, run: OpenRun, segments: Sequence[Segment], partitions: int, read: Rows) -> DataFrame:
        """Return the packed references of segments, as `read` returns them for a batch."""
        size = sum(segment.size for segment in segments)
        share_bytes = min(max(size // _most_shares(self._spark), LEAST_SHARE), MOST_SHARE)
        planned = shares(segments, share_bytes, cut=run.job.is_local, newest_first=not run.job.is_local)
        step = partial(read_references, planned=planned, read=read, partitions=partitions)
        numbers = self._spark.range(0, len(planned), 1, max(len(planned), 1))
        return numbers.mapInArrow(in_task(run.job, step), REFERENCES)

    def keys(self, run: OpenRun, references: PackedRows) -> Iterator[tuple[str, list[bytes]]]:
        rows, _ = references
        keys = rows.mapInArrow(in_task(run.job, header_steps.keys_of), from_arrow_schema(KEYS))
        found = iter(keys.toLocalIterator())
        while some := list(islice(found, KEYS_AT_ONCE)):
            by_source: dict[str, dict[bytes, None]] = {}
            for row in some:
                by_source.setdefault(row.source, {})[bytes(row.key)] = None
            yield from ((source, list(wanted)) for source, wanted in by_source.items())

    def read_headers(self, run: OpenRun, references: PackedRows, earlier: EarlierState) -> PackedRows:
        rows, partitions = references
        rows = rows.filter(rows.kind == int(ReferenceKind.HEADER))
        plan = self._header_plan(run, PackedRows(rows, partitions), earlier)
        step = partial(header_steps.read_headers, plan=plan, partitions=partitions)
        found = rows.mapInArrow(in_task(run.job, step), REFERENCES)
        if plan.needs_order:
            choose = partial(header_steps.headers_in_order, plan=plan)
            step = partial(header_steps.read_in_order, earlier=earlier, partitions=partitions)
            ordered = (
                rows.mapInArrow(in_task(run.job, choose), REFERENCES)
                .repartition(_shuffle_partitions(self._spark), "source")
                .sortWithinPartitions("source", "position")
                .mapInArrow(in_task(run.job, step), REFERENCES)
            )
            found = found.unionByName(ordered)
        if earlier.references:
            known = pa.Table.from_batches(packed([to_batch(earlier.references)], partitions))
            found = found.unionByName(self._spark.createDataFrame(known))
        if earlier.sought:
            segments = [segment for segment in run.archive.segments() if segment.number in earlier.segments]
            again = partial(references_again, earlier=earlier)
            found = found.unionByName(self._read(run, segments, partitions, again))
        return PackedRows(found, partitions)

    def _header_plan(self, run: OpenRun, headers: PackedRows, earlier: EarlierState) -> HeaderPlan:
        rows, partitions = headers
        segments = rows.mapInArrow(in_task(run.job, header_steps.segments_of_headers), from_arrow_schema(SEGMENTS))
        found = segments.toArrow()
        if not found.num_rows:
            return HeaderPlan.of(found, {}, frozenset())
        keys = partial(header_steps.keys_of_headers, partitions=partitions)
        choose = partial(header_steps.contested_positions, known=earlier.keys)
        contested = (
            rows.mapInArrow(in_task(run.job, keys), REFERENCES)
            .repartitionById(partitions, functions.col("position").cast("int"))
            .mapInArrow(in_task(run.job, choose), from_arrow_schema(POSITIONS))
            .toArrow()
        )
        return HeaderPlan.of(found, earlier.dialects, frozenset(contested.column("position").to_pylist()))

    @contextmanager
    def assemble_and_finish(
        self, run: OpenRun, references: PackedRows, headers: PackedRows, batch: IntendedBatch, *, checked: bool
    ) -> Iterator[Findings]:
        rows, partitions = references
        rows = rows.filter(rows.kind != int(ReferenceKind.HEADER)).unionByName(headers.rows)
        rows = rows.repartitionById(partitions, rows.position.cast("int"))  # the number of their partition
        action = "assemble" if batch.again is None else "process again"
        with described(self._spark, f"{action} segments up to {batch.last_segment} of {run.job.journal}"):
            if batch.again is not None:
                found = rows.mapInArrow(in_task(run.job, partial(process_again, window=batch.again)), _RESULTS)
            elif run.job.is_local:
                step = partial(assemble_and_finish, known=batch.known, checked=checked)
                found = rows.mapInArrow(in_task(run.job, step), _RESULTS)
            else:  # attachments of an object store are finished where most of their segments are
                firsts = first_segments(run, batch.last_segment, _most_shares(self._spark))
                place = partial(outcomes_by_place, firsts=firsts, known=batch.known)
                finish_them = partial(finish_all, known=batch.known, checked=checked)
                found = (
                    rows.mapInArrow(in_task(run.job, place), from_arrow_schema(PLACED))
                    .repartitionById(len(firsts), "share")
                    .sortWithinPartitions("position")
                    .mapInArrow(in_task(run.job, finish_them), _RESULTS)
                )
            with kept(found) as findings:
                yield findings

    def write_tables(self, opened: OpenJob, tasks: Sequence[TableTask]) -> Iterable[Written]:
        if len(tasks) <= TABLE_TASKS_HERE:
            return write_in_process(opened, tasks)
        parts = in_shares(tasks, _most_shares(self._spark))
        step = partial(write_shares, shares=[pickle.dumps([tasks[at] for at in part]) for part in parts])
        numbers = self._spark.range(0, len(parts), 1, len(parts))
        names = ", ".join(sorted({task.table for task in tasks}))[:_NAMES_SHOWN]
        with described(
            self._spark, f"write {len(tasks)} files of {len({task.table for task in tasks})} tables: {names}"
        ):
            rows = numbers.mapInArrow(in_task(opened.job, step), from_arrow_schema(WRITTEN)).toArrow().sort_by("share")
        found = (pickle.loads(each) for each in rows.column("written").to_pylist())  # noqa: S301 - of this job
        by_task = dict(zip(chain(*parts), chain(*found), strict=True))
        return [by_task[at] for at in range(len(tasks))]


@contextmanager
def kept(rows: DataFrame) -> Iterator[Findings]:
    """Make rows of `app.pipeline.commit.packages.RESULTS`, and provide them for the block as the driver reads them.

    In each pass the driver fetches one partition after the other, a column of it. Rows that are small it fetches once:
    then no pass needs a job.
    """
    with on_disk(rows) as made:
        sums = functions.max("reached"), functions.max("damaged"), functions.sum("state"), functions.sum("size")
        (found,) = made.agg(*sums).collect()
        reached, damaged, state, size = found
        if size is None or size <= HELD_BYTES:
            yield held(made.toArrow())
            return

        def of(part: str) -> Iterator[bytes]:
            return (row[0] for row in made.select(part).where(made[part].isNotNull()).toLocalIterator())

        yield Findings(reached, damaged, state, of)


@contextmanager
def on_disk(rows: DataFrame) -> Iterator[DataFrame]:
    """Have rows that are read more than once kept by Spark for the block: on disks, so that Java's heap has none."""
    rows = rows.persist(StorageLevel.DISK_ONLY)
    try:
        yield rows
    finally:
        rows.unpersist()


def _shuffle_partitions(spark: SparkSession) -> int:
    return int(spark.conf.get("spark.sql.shuffle.partitions") or "1")


def _most_shares(spark: SparkSession) -> int:
    """Return the number of tasks that keep all cores busy. The cores of a Spark Connect server are not known."""
    if is_connected(spark):
        return _shuffle_partitions(spark)
    return SHARES_PER_CORE * spark.sparkContext.defaultParallelism


# --- references and headers -------------------------------------------------------------------------------------------


def read_references(
    opened: OpenJob, batches: Iterable[pa.RecordBatch], *, planned: Sequence[Share], read: Rows, partitions: int
) -> Iterator[pa.RecordBatch]:
    """Yield the references, packed, of the messages in some shares of the segments, which come by their numbers."""
    numbers = chain.from_iterable(batch.column("id").to_pylist() for batch in batches)
    found = (read_share(opened.archive, opened.job.journal, planned[number], read, lost_batch) for number in numbers)
    described, configured = opened.stores.described, opened.job.configured_dialects
    return packed(with_keys(chain.from_iterable(found), described, configured), partitions)


def references_again(
    archive: JournalArchive, places: Sequence[Position], *, earlier: EarlierState
) -> pa.RecordBatch | None:
    """Return the references to sought keys among the messages of batches that an earlier one has committed."""
    found = references_between(archive, places, until=earlier.known, checked=False)
    if found is None:
        return None
    keys = zip(found.column("source").to_pylist(), found.column("key").to_pylist(), strict=True)
    return found.filter(pa.array([key in earlier.sought for key in keys], pa.bool_()))


# --- attachments ------------------------------------------------------------------------------------------------------


def assemble_and_finish(
    opened: OpenJob, batches: Iterable[pa.RecordBatch], *, known: int | None = None, checked: bool = True
) -> Iterator[pa.RecordBatch]:
    """Return the results of packed references after the packed position `known`. `checked` is as in
    `app.pipeline.finish.finish_outcomes.finish`."""
    outcomes = columnar_assembly.outcomes(unpacked(batches), known, opened.job.limits)
    return rows_of(finish(outcomes, opened.stores, opened.archive, checked=checked), opened.job, known)


def outcomes_by_place(
    opened: OpenJob, batches: Iterable[pa.RecordBatch], *, firsts: Sequence[int], known: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the outcomes of packed references, as rows of `PLACED`.

    `firsts` are the first segments of the shares of the journal, in order.
    """
    found = columnar_assembly.outcomes(unpacked(batches), known, opened.job.limits)
    while some := list(islice(found, OUTCOMES_A_BATCH)):
        segments = [Position.unpack(outcome.position).segment for outcome in some]
        numbers = [len(firsts) - max(bisect_right(firsts, segment), 1) for segment in segments]
        values = (numbers, [outcome.position for outcome in some], [pack(outcome) for outcome in some])
        yield pa.RecordBatch.from_pydict(dict(zip(PLACED.names, values, strict=True)), PLACED)


def finish_all(
    opened: OpenJob, batches: Iterable[pa.RecordBatch], *, known: int | None = None, checked: bool = True
) -> Iterator[pa.RecordBatch]:
    """Return the results of outcomes. The catalog has the messages up to the packed position `known`. `checked` is as
    in `app.pipeline.finish.finish_outcomes.finish`."""
    outcomes = (unpack(outcome) for batch in batches for outcome in batch.column("outcome").to_pylist())
    return rows_of(finish(outcomes, opened.stores, opened.archive, checked=checked), opened.job, known)


def first_segments(opened: OpenJob, last_segment: int, most: int) -> list[int]:
    """Return the first segments of at most `most` shares of an archive, by which its attachments are finished.

    A segment of an object store is fetched as a whole. So attachments that begin in the same segments are finished by
    the same task, in their order. The more shares, the more segments are fetched by two tasks: attachments reach into
    the segments of the next share.
    """
    numbers = [segment.number for segment in opened.archive.segments() if segment.number <= last_segment]
    return numbers[:: ceil(len(numbers) / most)] if numbers else [0]


def pack(value: KeyOutcome) -> bytes:
    return pickle.dumps(value)


def unpack(packed: bytes) -> Any:
    return pickle.loads(packed)  # noqa: S301 - written by the same job


# --- messages that are processed again --------------------------------------------------------------------------------


def process_again(
    opened: OpenJob, batches: Iterable[pa.RecordBatch], *, window: ReprocessingWindow
) -> Iterator[pa.RecordBatch]:
    """Yield the results of those packed references that are in a window.

    Content is written beside content that exists. Of everything else only the quality is returned, summed by hour.
    """
    store = StagingStore(opened.stores.store)
    stores = replace(opened.stores, store=store)
    rows = (row for batch in unpacked(batches) for row in from_batch(batch))
    outcomes = (each for key, some in by_key(rows) for each in assemble(key, some, KeyState(), opened.job.limits)[0])
    asked = (
        each if is_in(window, each) else KeyOutcome(each.position, ELSEWHERE, each.quality, repeated=each.repeated)
        for each in outcomes
    )
    rest: list[Increment] = []

    def in_window() -> Iterator[Result]:
        for result in finish(asked, stores, opened.archive):
            if result.reached == ELSEWHERE:
                rest.append(result.quality)
                if len(rest) > QUALITIES_AT_ONCE:
                    rest[:] = increments(quality_rows(rest))
            else:
                name = result.finished and result.finished.object_name
                yield result._replace(staged_object=store.staged_name(name) if name else None)

    yield from rows_again(in_window())
    yield from rows_again(Result(ELSEWHERE, quality) for quality in increments(quality_rows(rest)))


def is_in(window: ReprocessingWindow, outcome: KeyOutcome) -> bool:
    """Tell whether an outcome has messages of a window. Messages that cannot be read back belong to every source."""
    is_of_source = window.source is None or outcome.quality.source in (window.source, "")
    return is_of_source and Position.unpack(outcome.reached).segment >= window.first_segment


# --- files of tables --------------------------------------------------------------------------------------------------


def in_shares(tasks: Sequence[TableTask], shares: int) -> list[list[int]]:
    """Return the numbers of the tasks in at most `shares` shares of about the same size."""
    made: list[list[int]] = [[] for _ in range(min(shares, len(tasks)))]
    loads = [(0, number) for number in range(len(made))]
    for at in sorted(range(len(tasks)), key=lambda at: tasks[at].size, reverse=True):
        load, number = loads[0]
        made[number].append(at)
        heapreplace(loads, (load + tasks[at].size + TABLE_TASK_COST, number))
    return made


def write_shares(
    opened: OpenJob, batches: Iterable[pa.RecordBatch], *, shares: Sequence[bytes]
) -> Iterator[pa.RecordBatch]:
    """Write the files of the pickled shares of tasks that come by their numbers. Yield rows of `WRITTEN`."""
    for number in chain.from_iterable(batch.column("id").to_pylist() for batch in batches):
        written = write_in_process(opened, pickle.loads(shares[number]))  # noqa: S301 - of this job
        yield pa.RecordBatch.from_pylist([{"share": number, "written": pickle.dumps(written)}], WRITTEN)


def write_in_process(opened: OpenJob, tasks: Sequence[TableTask]) -> list[Written]:
    """Write files in this process: large ones one after the other, and small ones many at a time."""
    assert opened.tables is not None
    run = partial(tables.write, tables=opened.tables, content=opened.stores.store)
    small = [task for task in tasks if task.size <= SMALL_TABLE]
    done = iter(together(run, small))
    return [next(done) if task.size <= SMALL_TABLE else run(task) for task in tasks]
