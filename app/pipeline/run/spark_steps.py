"""The steps of a job for Spark: functions from Arrow batches to Arrow batches, for `mapInArrow`.

They do not depend on Spark. A step gets the job and opens what it needs in the worker.
"""

import pickle
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Any

import pyarrow as pa

from app.model.errors import GatewayError
from app.model.message import PhysicalMessage, Position
from app.pipeline.assemble import columnar_assembly
from app.pipeline.assemble.assemble_key import KeyOutcome, KeyState, assemble, by_key
from app.pipeline.commit.commit_intent import ReprocessingWindow
from app.pipeline.commit.packages import rows_of
from app.pipeline.finish.finish_outcomes import Result, finish
from app.pipeline.finish.staging_store import StagingStore
from app.pipeline.job.job import Job, Opened, open_job
from app.pipeline.job.workers import Step
from app.pipeline.references.header_pass import HeaderPass, Memory
from app.pipeline.references.message_references import Reference, from_batch, to_batch
from app.pipeline.references.retired_headers import NOTHING_RETIRED, Retired
from app.service.finishing.stored_parts import messages_at
from app.tables.quality import Increment, increments, quality_rows

HEADERS_AT_ONCE = 1024
"""The number of headers whose messages are fetched together."""

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


def headers(job: Job, retired: Retired = NOTHING_RETIRED) -> Step:
    """Return the step from header references, sorted by source and position, to references to the headers' content."""

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        described = open_job(job).stores.described
        rows = (row for batch in batches for row in from_batch(batch))
        for source, together in groupby(rows, attrgetter("source")):
            header_pass = _header_pass(job, described, source, retired.remembered(source))
            found = chain.from_iterable(header_pass.read(row.position, row.detail) for row in together)
            while some := list(islice(found, HEADERS_AT_ONCE)):
                yield to_batch(some)

    return step


def read_headers(
    job: Job, opened: Opened, source: str, positions: Iterable[int], memory: Memory
) -> Iterator[Reference]:
    """Yield references to the content of a source's headers at these packed positions, which ascend.

    Raises GatewayError when a header is no longer in the journal: without it, attachments would be assembled wrongly
    and the fault would stay unknown.
    """
    header_pass = _header_pass(job, opened.stores.described, source, memory)
    coming = iter(positions)
    while some := list(islice(coming, HEADERS_AT_ONCE)):
        fetched = messages_at(opened.archive, some)
        for position in some:
            if (message := fetched.get(position)) is None:
                raise GatewayError(f"journal segment {Position.unpack(position).segment} of {job.journal} is gone")
            yield from header_pass.read(position, message)


def _header_pass(
    job: Job, described: Callable[[PhysicalMessage], PhysicalMessage], source: str, memory: Memory
) -> HeaderPass:
    return HeaderPass(memory, described, job.limits.attachments, job.configured_dialects(source))


def assemble_all(job: Job, known: int | None = None, *, checked: bool = True) -> Step:
    """Return the step from all references, sorted by source and key, to results of those after the packed position
    `known`. `checked` is as in `app.pipeline.finish.finish_outcomes.finish`."""

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _results(columnar_assembly.outcomes(batches, known, job.limits), job, known, checked)

    return step


def outcomes_by_place(job: Job, shares: Sequence[int], known: int | None = None) -> Step:
    """Return the step from all references, sorted by source and key, to outcomes, as rows of `PLACED`.

    `shares` are the first segments of the shares of the journal, in order.
    """

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = columnar_assembly.outcomes(batches, known, job.limits)
        while some := list(islice(found, OUTCOMES_A_BATCH)):
            segments = [Position.unpack(outcome.position).segment for outcome in some]
            numbers = [len(shares) - max(bisect_right(shares, segment), 1) for segment in segments]
            values = (numbers, [outcome.position for outcome in some], [pack(outcome) for outcome in some])
            columns = [pa.array(column, field.type) for column, field in zip(values, PLACED, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=PLACED)

    return step


def assemble_again(job: Job, window: ReprocessingWindow) -> Step:
    """Return the step from all references, sorted by source and key, to results of those in a window.

    Content that exists is not overwritten. Of everything else only the quality is returned, summed by hour.
    """

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        opened = open_job(job)
        store = StagingStore(opened.stores.store)
        staging = opened._replace(stores=replace(opened.stores, store=store))
        rows = (row for batch in batches for row in from_batch(batch))
        limits = job.limits
        outcomes = (outcome for key, some in by_key(rows) for outcome in assemble(key, some, KeyState(), limits)[0])
        rest: list[Increment] = []
        one_by_one = replace(job, packing=None)
        yield from rows_of(_again(outcomes, window, staging, store, rest), one_by_one, None)
        if rest:
            yield from rows_of(_qualities(rest), one_by_one, None)

    return step


def _again(
    outcomes: Iterable[KeyOutcome],
    window: ReprocessingWindow,
    opened: Opened,
    store: StagingStore,
    rest: list[Increment],
) -> Iterator[Result]:
    """Yield the results in a window, and add the quality of all others to `rest`."""
    asked = (outcome if is_in(window, outcome) else _only_quality(outcome) for outcome in outcomes)
    for result in finish(asked, opened.stores, opened.archive):
        if result.reached == ELSEWHERE:
            rest.append(result.quality)
            if len(rest) > QUALITIES_AT_ONCE:
                rest[:] = increments(quality_rows(rest))
        else:
            name = result.finished and result.finished.object_name
            yield result._replace(staged_object=store.staged_name(name) if name else None)


def is_in(window: ReprocessingWindow, outcome: KeyOutcome) -> bool:
    """Tell whether an outcome has messages of a window. Messages that cannot be read back belong to every source."""
    is_of_source = window.source is None or outcome.quality.source in (window.source, "")
    return is_of_source and Position.unpack(outcome.reached).segment >= window.first_segment


def _only_quality(outcome: KeyOutcome) -> KeyOutcome:
    return KeyOutcome(outcome.position, ELSEWHERE, outcome.quality, repeated=outcome.repeated)


def _qualities(rest: Iterable[Increment]) -> Iterator[Result]:
    return (Result(ELSEWHERE, quality) for quality in increments(quality_rows(rest)))


def finish_all(job: Job, known: int | None = None, *, checked: bool = True) -> Step:
    """Return the step from outcomes to results. The catalog has the messages up to the packed position `known`.
    `checked` is as in `app.pipeline.finish.finish_outcomes.finish`."""

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        outcomes = (unpack(outcome) for batch in batches for outcome in batch.column("outcome").to_pylist())
        return _results(outcomes, job, known, checked)

    return step


def pack(value: KeyOutcome) -> bytes:
    return pickle.dumps(value)


def unpack(packed: bytes) -> Any:
    return pickle.loads(packed)  # noqa: S301 - written by the same job


def _results(outcomes: Iterable[KeyOutcome], job: Job, known: int | None, checked: bool) -> Iterator[pa.RecordBatch]:
    opened = open_job(job)
    return rows_of(finish(outcomes, opened.stores, opened.archive, checked=checked), job, known)
