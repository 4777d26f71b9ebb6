"""Progress names the journal that it counts: results, checkpoints and tables of another one are refused, unchanged."""

import shutil
from contextlib import closing
from pathlib import Path
from random import Random

import orjson
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from structlog.testing import capture_logs

from adapters.arrow_journal.archive import ArrowArchive
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.model.data_formats import CHECKPOINT
from app.model.errors import GatewayError
from app.pipeline.commit import commit_intent
from app.pipeline.run import streaming
from app.pipeline.run.batch import unfinished
from app.pipeline.run.segment_sources import ReferenceSource, StreamReader
from app.testing.host_results import assert_same, in_folder, settings, tables
from tests.support.damaged_archive import Archive, objects
from tests.support.local_steps import committer_of, found_up_to, opened_run, run_batch


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    (tmp_path / "one").mkdir()
    return Archive(tmp_path / "one")


@pytest.fixture
def other(tmp_path: Path) -> Archive:
    """Another journal, with fewer attachments in as many segments."""
    (tmp_path / "other").mkdir()
    return Archive(tmp_path / "other", Random(6), 3)


def journal_of(archive: Archive) -> str:
    identity = ArrowArchive(archive.journal).identity()
    assert identity is not None
    return identity.id


def assert_as_if_alone(archive: Archive) -> None:
    """Assert that the results are those of one batch over the archive as it is now."""
    alone = archive.out.with_name("alone")
    assert run_batch(alone, archive.journal) is not None
    assert_same(in_folder(archive.out, archive.journal), in_folder(alone, archive.journal), settled=True)
    assert (tables(archive.out), objects(archive.out)) == (tables(alone), objects(alone))
    shutil.rmtree(alone)


def stream(spark: SparkSession, out: Path, journal: Path, checkpoint: Path) -> None:
    with opened_run(out, journal) as run:
        query = streaming.start(
            spark,
            run,
            checkpoint=str(checkpoint),
            bytes_per_trigger=1 << 30,
            every=None,
        )
        assert query.awaitTermination(300)


@pytest.mark.parametrize("is_longer", [False, True])
def test_a_second_archive_into_one_result_is_refused_by_batch_and_stream(
    archive: Archive, other: Archive, spark: SparkSession, tmp_path: Path, is_longer: bool
) -> None:
    """The other archive ends before the first one, or behind it: so nothing of it, or a part, would be new."""
    for number in (archive if is_longer else other).numbers[4:]:
        (archive if is_longer else other).segment(number).unlink()
    assert run_batch(archive.out, archive.journal) is not None
    before = in_folder(archive.out, archive.journal), tables(archive.out), objects(archive.out)
    both = f"{journal_of(archive)}.*{journal_of(other)}"
    with pytest.raises(GatewayError, match=both):
        run_batch(archive.out, other.journal)
    with pytest.raises(GatewayError, match=both):
        stream(spark, archive.out, other.journal, tmp_path / "checkpoint")
    assert (in_folder(archive.out, archive.journal), tables(archive.out), objects(archive.out)) == before
    again = run_batch(archive.out, archive.journal)
    assert again is not None
    assert again.was_known
    assert_as_if_alone(archive)
    assert run_batch(other.out, other.journal) is not None
    assert_as_if_alone(other)


def test_a_catalog_that_becomes_another_journals_meanwhile_takes_nothing(archive: Archive, other: Archive) -> None:
    with opened_run(archive.out, archive.journal) as run:
        assert list(unfinished(run)) == []
        committer = committer_of(run)
        with closing(SqlCatalog(settings(archive.out).catalog_url)) as taken:
            identity = ArrowArchive(other.journal).identity()
            assert identity is not None
            taken.bind(identity)
        with pytest.raises(GatewayError, match=f"{journal_of(other)}.*{journal_of(archive)}"):
            committer.commit(found_up_to(run, archive.numbers[-1], None))
        assert run.catalog.counts()["attachments"].get("finished", 0) == 0


def test_tables_and_an_interrupted_commit_of_another_journal_are_refused(archive: Archive, other: Archive) -> None:
    assert run_batch(archive.out, archive.journal) is not None
    shutil.copytree(archive.out / "tables", other.out / "tables")
    with pytest.raises(GatewayError, match=f"rows of journal {journal_of(archive)}.*is journal {journal_of(other)}"):
        run_batch(other.out, other.journal)
    shutil.rmtree(other.out / "tables")
    store = ObjectStore(settings(other.out).content_url)
    commit_intent.begin(store, commit_intent.IntendedBatch(journal_of(archive), 3))
    with pytest.raises(GatewayError, match=f"commit of journal {journal_of(archive)}.*is journal {journal_of(other)}"):
        run_batch(other.out, other.journal)
    commit_intent.end(store)
    assert run_batch(other.out, other.journal) is not None
    assert_as_if_alone(other)


def test_an_older_copy_of_the_tables_is_told_of(archive: Archive, tmp_path: Path) -> None:
    held = [archive.segment(number) for number in archive.numbers[6:]]
    for segment in held:
        segment.rename(tmp_path / segment.name)
    assert run_batch(archive.out, archive.journal) is not None
    shutil.copytree(archive.out / "tables", tmp_path / "tables")
    for segment in held:
        (tmp_path / segment.name).rename(segment)
    assert run_batch(archive.out, archive.journal) is not None
    shutil.rmtree(archive.out / "tables")
    (tmp_path / "tables").rename(archive.out / "tables")
    with capture_logs() as logs:
        assert run_batch(archive.out, archive.journal) is not None
    (told,) = (each for each in logs if each["event"] == "older_tables_found")
    assert told["from_segment"] == archive.numbers[6]


def test_a_checkpoint_that_is_ahead_of_the_catalog_is_refused(
    archive: Archive, spark: SparkSession, tmp_path: Path
) -> None:
    """The catalog is an older copy: what lies between would be left out."""
    for number in archive.numbers[4:]:
        archive.segment(number).unlink()
    held = archive.segment(archive.numbers[-1])
    held.rename(tmp_path / held.name)
    assert run_batch(archive.out, archive.journal) is not None
    shutil.copytree(archive.out, tmp_path / "older")
    (tmp_path / held.name).rename(held)
    checkpoint = tmp_path / "checkpoint"
    stream(spark, archive.out, archive.journal, checkpoint)
    shutil.rmtree(archive.out)
    (tmp_path / "older").rename(archive.out)
    *_, reached, last = archive.numbers
    with pytest.raises(StreamingQueryException, match=f"up to segment {last}.*results up to segment {reached}"):
        stream(spark, archive.out, archive.journal, checkpoint)
    stream(spark, archive.out, archive.journal, tmp_path / "new")
    assert_as_if_alone(archive)


def test_an_offset_names_its_journal_and_is_refused_by_another(archive: Archive, other: Archive) -> None:
    def reader(of: Archive, known: int) -> StreamReader:
        source = ReferenceSource({"path": str(of.journal), "known_segment": str(known)})
        return source.streamReader(source.schema())

    begun = reader(archive, 0)
    offsets = [begun.initialOffset(), begun.latestOffset(begun.initialOffset(), ReadAllAvailable())]
    assert offsets == [
        {"journal": journal_of(archive), "segment": number, "format": CHECKPOINT.number}
        for number in (0, archive.numbers[-1])
    ]
    begin, end = (orjson.loads(orjson.dumps(offset)) for offset in offsets)
    both = f"is of journal {journal_of(archive)}.*is journal {journal_of(other)}"
    for known in (0, 100):
        with pytest.raises(GatewayError, match=both):
            reader(other, known).latestOffset(end, ReadAllAvailable())
        with pytest.raises(GatewayError, match=both):
            reader(other, known).partitions(end, end)
    with pytest.raises(GatewayError, match="results up to segment 3: the catalog is an older copy"):
        reader(archive, 3).latestOffset(end, ReadAllAvailable())
    again = reader(archive, end["segment"])
    assert again.partitions(begin, end), "the last micro-batch of a killed driver"
    assert again.latestOffset(end, ReadAllAvailable()) == end
