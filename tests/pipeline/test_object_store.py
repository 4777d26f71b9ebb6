"""Archives and content in an object store: what a batch fetches from it, and that its results are the same."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from random import Random

import obstore
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from obstore.store import from_url
from pyspark.sql import SparkSession

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.model.message import PhysicalMessage, Position, segment_name
from app.pipeline.assemble.earlier_state import NOTHING_EARLIER
from app.pipeline.commit import packages
from app.pipeline.commit.tables import FILES, QUALITY
from app.pipeline.finish.finish_outcomes import Result
from app.pipeline.job.job import Job, OpenJob, open_job, open_run
from app.pipeline.read.segment_shares import shares
from app.pipeline.references.lazy_bodies import JournalBatch
from app.pipeline.references.message_references import ReferenceKind, references
from app.pipeline.references.shuffle import packed
from app.pipeline.run import batch, spark_steps
from app.pipeline.run.spark_steps import SparkSteps
from app.ports import JournalArchive
from app.settings import Settings
from app.testing.host_results import PATIENT, assert_same, settings, tables_at, where_configured
from tests.support import mixed_journal
from tests.support.local_steps import read_headers
from tests.support.object_server import Bucket
from tests.support.sas_client import Program, binary_file, message

SEGMENT_BYTES = 256 << 10
PARTITIONS = SHARES = 4


def archived(url: str, folder: Path, messages: list[PhysicalMessage]) -> str:
    """Write messages to a journal, and copy its segments to an object store. Return their URL."""
    written(folder, messages)
    return copied(folder, url)


def written(folder: Path, messages: list[PhysicalMessage]) -> None:
    with closing(ArrowJournal(folder, segment_bytes=SEGMENT_BYTES)) as journal:
        for at in range(0, len(messages), 16):
            journal.append(messages[at : at + 16])
        journal.seal()


def copied(folder: Path, url: str) -> str:
    store = from_url(f"{url}/journal")
    for path in folder.glob("*.arrows"):
        obstore.put(store, path.name, path.read_bytes())
    return f"{url}/journal"


def sent_by_two(attachments: int) -> list[PhysicalMessage]:
    """The messages of files of 20 to 60 KiB, of two interleaved senders."""
    made = []
    for sender in range(2):
        random = Random(sender)
        program = Program(random, body_limit=16_000)
        files = [
            binary_file(program, f"{n}", random.randbytes(random.randint(20_000, 60_000))) for n in range(attachments)
        ]
        sent = [each for at in range(0, attachments, 2) for each in message(program, files[at : at + 2])]
        made.append([each._replace(source=f"sender-{sender}") for each in sent])
    return [each for pair in zip_longest(*made) for each in pair if each is not None]


def test_a_batch_fetches_each_segment_less_than_twice(bucket: Bucket, tmp_path: Path) -> None:
    url = archived(bucket.url, tmp_path / "journal", sent_by_two(150))
    segments = ArrowArchive(url, tmp_path / "none").segments()
    assert len(segments) >= 35
    archive = ArrowArchive(url, tmp_path / "cache", sum(segment.size for segment in segments) // 10)
    job = Job.of(Settings.model_validate({"data": tmp_path}), url, in_place=False)
    opened = open_job(job)
    small = replace(opened, stores=replace(opened.stores, journal=archive), archive=archive)
    results = list(_as_spark_does(small))
    assert sum(result.finished is not None for result in results) == 300
    fetched = bucket.counts("GET", "journal")
    assert fetched.keys() == {segment_name(segment.number) for segment in segments}
    assert fetched.total() < 2 * len(segments)


def _as_spark_does(opened: OpenJob) -> Iterator[Result]:
    """Run the steps of a batch one task after the other, with partitions like Spark's between them."""
    archive = opened.archive
    read = pa.Table.from_batches(list(packed(_read(archive), PARTITIONS)))
    is_header = pc.equal(read["kind"], int(ReferenceKind.HEADER))
    step = read_headers(opened, read.filter(is_header), NOTHING_EARLIER, PARTITIONS)
    together = pa.concat_tables([read.filter(pc.invert(is_header)), pa.Table.from_batches(step)])
    starts = spark_steps.first_segments(opened, archive.segments()[-1].number, SHARES)
    outcomes = pa.Table.from_batches(
        [
            each
            for number in range(PARTITIONS)
            for each in spark_steps.outcomes_by_place(
                opened, together.filter(pc.equal(together["position"], number)).to_batches(), firsts=starts
            )
        ]
    )
    for share in range(len(starts)):
        mine = outcomes.filter(pc.equal(outcomes["share"], share)).sort_by("position")
        found = pa.Table.from_batches(spark_steps.finish_all(opened, mine.to_batches()), packages.RESULTS)
        yield from chain.from_iterable(packages.held(found).results())


def _read(archive: JournalArchive) -> Iterator[pa.RecordBatch]:
    """Yield the references of all segments, share by share, each from its newest segment to its oldest."""
    segments = archive.segments()
    for share in shares(segments, sum(segment.size for segment in segments) // SHARES, cut=False):
        for piece in reversed(share.pieces):
            for number in range(len(archive.batch_sizes(piece.segment))):
                yield references(JournalBatch.at(archive, [Position(piece.segment, number, 0)]))


@pytest.fixture(scope="module")
def near(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a journal, and what a batch has left there."""
    folder = tmp_path_factory.mktemp("near")
    written(folder / "journal", mixed_journal.traffic(Random(5), 6, 300_000))
    run(spark, settings(folder), str(folder / "journal"))
    return folder


@pytest.fixture(params=["bucket", "container"], ids=["Amazon S3", "Azure Blob Storage"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty bucket or container."""
    found: Bucket = request.getfixturevalue(request.param)
    return found.url


def run(spark: SparkSession, chosen: Settings, journal: str) -> None:
    with closing(SqlCatalog(chosen.catalog_url)) as catalog:
        assert (
            batch.run(SparkSteps(spark), open_run(Job.of(chosen, journal, in_place=False), catalog, SystemClock()))
            is not None
        )


def test_a_batch_from_and_to_an_object_store_finds_the_same(
    url: str, near: Path, tmp_path: Path, spark: SparkSession
) -> None:
    places = {"data": tmp_path, "content": {"url": f"{url}/content"}, "tables": {"url": f"{url}/tables"}}
    chosen = Settings.model_validate({**PATIENT, **places})
    run(spark, chosen, copied(near / "journal", url))
    assert_same(*(where_configured(each, near / "journal") for each in (chosen, settings(near))), settled=True)
    found, expected = (tables_at(each.tables_url) for each in (chosen, settings(near)))
    assert expected.keys() > {FILES, QUALITY}
    assert found == expected
    there, here = (_objects(ObjectStore(each.content_url)) for each in (chosen, settings(near)))
    assert len(here) >= 6
    assert there == here


def _objects(store: ObjectStore) -> dict[str, bytes]:
    return {name: b"".join(store.read(name)) for name in store.names()}
