"""A batch over an archive that grows, and one that was killed, come to what one batch over all of it comes to."""

from contextlib import closing
from pathlib import Path
from random import Random

import orjson
import pytest
from pyspark.sql import SparkSession

from adapters.arrow_journal import ArrowJournal
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.model.message import PhysicalMessage
from app.pipeline.commit import commit, commit_intent, packages
from app.pipeline.commit.commit import CommittedBatch
from app.pipeline.job.job import Job, open_run
from app.pipeline.run import batch, spark_steps, streaming
from app.pipeline.run.spark_steps import SparkSteps
from app.testing.host_results import assert_same, in_folder, settings, tables
from tests.support import mixed_journal
from tests.support.header_apart import HeaderApart
from tests.support.local_steps import run_batch


def test_an_archive_that_grows_is_committed_once(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver holds no results between its passes: it fetches them from the workers each time."""
    monkeypatch.setattr(spark_steps, "HELD_BYTES", 0)
    monkeypatch.setattr(commit, "AT_ONCE", 3)
    monkeypatch.setattr(packages, "AT_ONCE", 16)
    monkeypatch.setattr(packages, "LEAST", 1)
    journal, grown, whole, streamed = (tmp_path / name for name in ("journal", "grown", "whole", "streamed"))
    sent = [
        each._replace(received_at=mixed_journal.BEGAN_AT + 1000 * place)
        for place, each in enumerate(mixed_journal.traffic(Random(5), 5, 300_000))
    ]
    _add(journal, sent[: len(sent) // 2])
    for folder in (grown, streamed):
        assert _run(spark, folder, journal) is not None
    begun = orjson.dumps({"journal": str(journal), "last_segment": _last_segment(journal)})
    _add(journal, sent[len(sent) // 2 :])
    with ObjectStore(settings(grown).content_url).create(
        commit_intent.NAME
    ) as target:  # killed right behind its commit
        target.write(begun)
    again = _run(spark, grown, journal)
    assert again is not None
    assert not again.was_known
    assert run_batch(whole, journal) is not None
    _stream(spark, streamed, journal)
    for folder in (grown, streamed):
        assert_same(in_folder(folder, journal), in_folder(whole, journal), settled=True)
        assert tables(folder) == tables(whole)
        assert _quarantine_events(folder) == _quarantine_events(whole)


def test_a_batch_needs_no_header_that_was_retired(tmp_path: Path, spark: SparkSession) -> None:
    whole, begun = (HeaderApart.written(tmp_path / name) for name in ("whole", "begun"))
    assert _run(spark, whole.out, whole.journal) is not None
    held = [begun.journal / f"{number:010}.arrows" for number in (3, 4)]
    for segment in held:
        segment.rename(tmp_path / segment.name)
    assert _run(spark, begun.out, begun.journal) is not None
    for segment in held:
        (tmp_path / segment.name).rename(segment)
    begun.retire_header()
    assert _run(spark, begun.out, begun.journal) is not None
    begun.assert_same_as(whole)


def _add(journal: Path, messages: list[PhysicalMessage]) -> None:
    with closing(ArrowJournal(journal, segment_bytes=1 << 20)) as opened:
        for start in range(0, len(messages), mixed_journal.BATCH):
            opened.append(messages[start : start + mixed_journal.BATCH])
        opened.seal()


def _last_segment(journal: Path) -> int:
    with closing(ArrowJournal(journal)) as opened:
        return max(segment.number for segment in opened.segments() if segment.sealed_at is not None)


def _run(spark: SparkSession, folder: Path, journal: Path) -> CommittedBatch | None:
    with closing(SqlCatalog(settings(folder).catalog_url)) as catalog:
        return batch.run(SparkSteps(spark), open_run(_job(folder, journal), catalog, SystemClock()))


def _stream(spark: SparkSession, folder: Path, journal: Path) -> None:
    with closing(SqlCatalog(settings(folder).catalog_url)) as catalog:
        query = streaming.start(
            spark,
            open_run(_job(folder, journal), catalog, SystemClock()),
            checkpoint=str(folder / "checkpoint"),
            bytes_per_trigger=1 << 30,
            every=None,
        )
        assert query.awaitTermination(120)


def _job(folder: Path, journal: Path) -> Job:
    return Job.of(settings(folder), str(journal), in_place=False)


def _quarantine_events(folder: Path) -> list[str]:
    with closing(SqlCatalog(settings(folder).catalog_url)) as catalog:
        return sorted(
            event.subject for event in catalog.events_after(0, 100_000) if event.type == "message.quarantined"
        )
