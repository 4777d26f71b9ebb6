"""The steps of a batch in this process: all of it but Spark."""

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.model.message import Position
from app.pipeline.assemble.earlier_state import NOTHING_EARLIER, EarlierState, Keys
from app.pipeline.commit import packages
from app.pipeline.commit import tables as building
from app.pipeline.commit.commit import CommittedBatch, Committer
from app.pipeline.commit.commit_intent import IntendedBatch
from app.pipeline.commit.packages import Findings
from app.pipeline.commit.tables import TableTask, Written
from app.pipeline.finish.finish_outcomes import Result
from app.pipeline.job.job import Job, OpenJob, OpenRun, open_run
from app.pipeline.read.segment_shares import Rows, shares
from app.pipeline.references.header_plan import POSITIONS, SEGMENTS, HeaderPlan
from app.pipeline.references.message_references import SCHEMA, ReferenceKind, references_between, to_batch
from app.pipeline.references.shuffle import packed
from app.pipeline.run import batch, header_steps, spark_steps
from app.pipeline.run.batch import ReprocessingScope, earlier_state
from app.testing.host_results import settings


def read_headers(opened: OpenJob, rows: pa.Table, earlier: EarlierState, partitions: int) -> Iterator[pa.RecordBatch]:
    """Read the rows of headers: those that need no order one way, all others another."""
    headers = rows.to_batches()
    segments = pa.Table.from_batches(header_steps.segments_of_headers(opened, headers), SEGMENTS)
    keys = [*header_steps.keys_of_headers(opened, headers, partitions=1)]
    contested = pa.Table.from_batches(header_steps.contested_positions(opened, keys, known=earlier.keys), POSITIONS)
    plan = HeaderPlan.of(segments, earlier.dialects, frozenset(contested.column("position").to_pylist()))
    yield from header_steps.read_headers(opened, headers, plan=plan, partitions=partitions)
    chosen = pa.Table.from_batches(header_steps.headers_in_order(opened, headers, plan=plan), SCHEMA)
    in_order = chosen.sort_by([("source", "ascending"), ("position", "ascending")]).to_batches()
    yield from header_steps.read_in_order(opened, in_order, earlier=earlier, partitions=partitions)


class LocalSteps:
    """`app.pipeline.run.batch.Steps` in this process. All references are packed for one task."""

    @contextmanager
    def read_references(self, run: OpenRun, batch: IntendedBatch, *, checked: bool) -> Iterator[list[pa.RecordBatch]]:
        known = -1 if batch.known is None else batch.known
        numbers = range(max(Position.unpack(known).segment, 0), batch.last_segment + 1)
        read = partial(references_between, after=known, checked=checked)
        yield self._read(run, numbers, read)

    def _read(self, run: OpenRun, numbers: Container[int], read: Rows) -> list[pa.RecordBatch]:
        planned = shares((each for each in run.archive.segments() if each.number in numbers), 1 << 20, cut=True)
        wanted = pa.RecordBatch.from_pydict({"id": range(len(planned))})
        return [*spark_steps.read_references(run, [wanted], planned=planned, read=read, partitions=1)]

    def keys(self, run: OpenRun, references: list[pa.RecordBatch]) -> Keys:
        for rows in header_steps.keys_of(run, references):
            for source, key in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                yield source, [key]

    def read_headers(
        self, run: OpenRun, references: list[pa.RecordBatch], earlier: EarlierState = NOTHING_EARLIER
    ) -> list[pa.RecordBatch]:
        rows = pa.Table.from_batches(references, SCHEMA).filter(pc.field("kind") == int(ReferenceKind.HEADER))
        known = packed([to_batch(earlier.references)], 1) if earlier.references else ()
        again = self._read(run, earlier.segments, partial(spark_steps.references_again, earlier=earlier))
        return [*read_headers(run, rows, earlier, 1), *known, *again]

    @contextmanager
    def assemble_and_finish(
        self,
        run: OpenRun,
        references: list[pa.RecordBatch],
        headers: list[pa.RecordBatch],
        batch: IntendedBatch,
        *,
        checked: bool,
    ) -> Iterator[Findings]:
        rows = pa.Table.from_batches([*references, *headers], SCHEMA).filter(
            pc.field("kind") == int(ReferenceKind.PACKED)
        )
        if batch.again is not None:
            results = spark_steps.process_again(run, rows.to_batches(), window=batch.again)
        else:
            results = spark_steps.assemble_and_finish(run, rows.to_batches(), known=batch.known, checked=checked)
        yield packages.held(pa.Table.from_batches(results, packages.RESULTS))

    def write_tables(self, opened: OpenJob, tasks: Sequence[TableTask]) -> Iterable[Written]:
        assert opened.tables is not None
        return [building.write(task, opened.tables, opened.stores.store) for task in tasks]


def committer_of(run: OpenRun) -> Committer:
    return Committer(run, partial(LocalSteps().write_tables, run))


def found_up_to(run: OpenRun, last_segment: int, known: int | None) -> Findings:
    """Return the results of the messages after the packed position `known` up to a segment."""
    steps, intended = LocalSteps(), IntendedBatch("", last_segment, known)
    with steps.read_references(run, intended, checked=False) as references:
        headers = steps.read_headers(
            run, references, earlier_state(run, intended, partial(steps.keys, run, references))
        )
        with steps.assemble_and_finish(run, references, headers, intended, checked=False) as found:
            return found


def findings_of(results: Iterable[Result], job: Job) -> Findings:
    """Return results as tasks would hand them over."""
    return packages.held(pa.Table.from_batches(packages.rows_of(results, job, None), packages.RESULTS))


Places = Path | str | Sequence[Path | str]
"""The place of an archive, or the places of several."""


def run_batch(
    folder: Path, journal: Places, again: ReprocessingScope | None = None, *, in_place: bool = False
) -> CommittedBatch | None:
    """Run a batch over an archive, or over several, with its results in a folder."""
    with opened_run(folder, journal, in_place=in_place) as run:
        return batch.run(LocalSteps(), run, again)


@contextmanager
def opened_run(folder: Path, journal: Places, *, in_place: bool = False) -> Iterator[OpenRun]:
    """Provide an open run over an archive, or over several, with its results in a folder."""
    with closing(SqlCatalog(settings(folder).catalog_url)) as catalog:
        yield open_run(job_of(folder, journal, in_place=in_place), catalog, SystemClock())


def job_of(folder: Path, journal: Places, *, in_place: bool = False) -> Job:
    places = [journal] if isinstance(journal, Path | str) else journal
    return Job.of(settings(folder), *map(str, places), in_place=in_place)
