"""The job beside a gateway that does not assemble: the pipeline's passes and its commit, without Spark."""

from operator import attrgetter
from pathlib import Path

from adapters.arrow_journal.archive import ArrowArchive
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.assembly.collecting import Key
from app.assembly.machine import AssemblyLimits
from app.pipeline.assemble.assemble_key import KeyState, assemble, by_key
from app.pipeline.commit.commit import CommittedBatch, Committer
from app.pipeline.finish.finish_outcomes import finish
from app.pipeline.job.job import Job, OpenRun
from app.pipeline.references.message_references import from_batch, references
from app.ports import Clock
from app.service.context import Stores
from app.settings import Settings
from app.testing.reference_passes import LIMIT, Announcing, batches, positioned
from tests.support.local_steps import findings_of


class JobWithoutSpark:
    """A job that reads the sealed segments of a folder and writes a catalog that it opens for itself."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._archive = ArrowArchive(settings.journal_folder)
        self._catalog = SqlCatalog(settings.catalog_url)
        self._stores = Stores(settings=settings, journal=self._archive, store=ObjectStore(settings.content_url))
        self._announcing = Announcing(self._archive, self._stores.described)
        self._held: dict[Key, KeyState] = {}
        self._reached = -1
        self._job = Job.of(settings, str(settings.journal_folder), in_place=True, tables=False)
        run = OpenRun(self._job, self._stores, self._archive, None, self._catalog, clock)
        self._committer = Committer(run, lambda _tasks: [])

    def run(self) -> CommittedBatch | None:
        """Run one batch over all segments that were sealed since the last one."""
        new = [each for each in batches(self._archive) if each.positions[0] > self._reached]
        self._reached = max([self._reached, *(each.positions[-1].item() for each in new)])
        found = [each for batch in new for each in from_batch(references(batch))]
        coming = sorted(self._announcing.references(found), key=attrgetter("source", "key", "position"))
        outcomes = []
        for key, together in by_key(coming):
            made, self._held[key] = assemble(
                key, together, self._held.get(key, KeyState()), AssemblyLimits(1_000_000, LIMIT)
            )
            outcomes += made
        return self._committer.commit(findings_of(finish(outcomes, self._stores, self._archive), self._job))

    def close(self) -> None:
        self._catalog.close()


def journal_in(folder: Path) -> list[bytes]:
    """Return the bodies in all sealed segments of a folder, in order."""
    archive = ArrowArchive(folder)
    return [bytes(message.body) for _, message in positioned(archive)]
