"""The pipeline's passes over an archive in this process: all of a batch but Spark."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from operator import attrgetter
from pathlib import Path

import pyarrow as pa

from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.pipeline.commit import packages
from app.pipeline.commit import tables as building
from app.pipeline.commit.commit import CommittedBatch, WriteTables
from app.pipeline.commit.commit_intent import ReprocessingWindow
from app.pipeline.commit.packages import TaskResults
from app.pipeline.commit.tables import TableTask, Written
from app.pipeline.finish.finish_outcomes import Result
from app.pipeline.job.job import Job, open_job
from app.pipeline.job.workers import Step
from app.pipeline.references.message_references import SCHEMA, Reference, What, from_batch, to_batch
from app.pipeline.references.retired_headers import NOTHING_RETIRED, Retired
from app.pipeline.run import runs, spark_steps
from app.pipeline.run.runs import ReprocessingScope
from app.pipeline.run.segment_sources import BatchReader, ReferenceSource, cache_options
from app.testing.host_results import settings


class LocalPasses:
    """`app.pipeline.run.runs.Passes` in this process."""

    def news(
        self, job: Job, last: int, known: int | None, retired: Retired = NOTHING_RETIRED, *, checked: bool = False
    ) -> TaskResults:
        return self._found(job, last, spark_steps.assemble_all(job, known, checked=checked), retired, checked)

    def again(
        self, job: Job, last: int, window: ReprocessingWindow, retired: Retired = NOTHING_RETIRED
    ) -> Sequence[Result]:
        return self._found(job, last, spark_steps.assemble_again(job, window), retired, checked=True).results

    def table_writer(self, job: Job) -> WriteTables:
        def write(tasks: Sequence[TableTask]) -> Iterable[Written]:
            opened = open_job(job)
            assert opened.tables is not None
            return [building.write(task, opened.tables, opened.stores.store) for task in tasks]

        return write

    def _found(self, job: Job, last: int, step: Step, retired: Retired, checked: bool) -> TaskResults:
        read = self._read(job, last, checked)
        headers = sorted((each for each in read if each.what == What.HEADER), key=attrgetter("source", "position"))
        announced = [
            found for batch in spark_steps.headers(job, retired)([to_batch(headers)]) for found in from_batch(batch)
        ]
        everything = [*(each for each in read if each.what != What.HEADER), *announced, *retired.references]
        rows = to_batch(sorted(everything, key=attrgetter("source", "key")))
        return packages.found_in(pa.Table.from_batches(step([rows]), packages.RESULTS))

    def _read(self, job: Job, last: int, checked: bool) -> list[Reference]:
        options = {"last_segment": str(last), "all_bodies": str(checked)}
        source = ReferenceSource({"path": job.journal, **options, **cache_options(job)})
        reader = source.reader(source.schema())
        assert isinstance(reader, BatchReader)
        batches = (batch for share in reader.partitions() for batch in reader.read(share))
        return [found for batch in batches for found in from_batch(batch.cast(SCHEMA))]


def run_batch(
    folder: Path, journal: Path | str, again: ReprocessingScope | None = None, *, in_place: bool = False
) -> CommittedBatch | None:
    """Run a batch over an archive, with its results in a folder."""
    with closing(SqlCatalog(settings(folder).catalog_url)) as catalog:
        return runs.run(LocalPasses(), job_of(folder, journal, in_place=in_place), catalog, SystemClock(), again)


def job_of(folder: Path, journal: Path | str, *, in_place: bool = False) -> Job:
    return Job.of(settings(folder), str(journal), in_place=in_place)
