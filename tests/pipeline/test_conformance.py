"""The hosts of assembly over one journal: in the gateway's process, a batch on Spark, a stream on Spark."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.model.attachment import AttachmentState
from app.model.pipeline_run import RunState
from app.pipeline.job.job import Job, open_run
from app.pipeline.run import batch, streaming
from app.pipeline.run.spark_steps import SparkSteps
from app.testing.host_results import HostResults, assert_same, by_the_gateway, in_folder, settings, tables
from tests.support import mixed_journal
from tests.support.length import IS_LONG
from tests.support.mixed_journal import MIB
from tests.support.stream_driver import MOMENTS

pytestmark = pytest.mark.process

LARGEST = 66 * MIB
"""More than a partition and than several micro-batches have."""
ROOT = Path(__file__).parents[2]
KILLS = dict(zip(MOMENTS, (1, 0, 0, -1, -1), strict=True))
"""The moments at which a driver is killed, each with the micro-batch of its process. The second micro-batch comes
first, since the first leaves state behind. Once it has written to a table, the next process ends its commit before the
stream begins, and is killed then."""


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed") / "journal"
    mixed_journal.write(folder, mixed_journal.traffic(Random(2024), 12, LARGEST))
    return folder


@pytest.fixture(scope="module")
def embedded(journal: Path, tmp_path_factory: pytest.TempPathFactory) -> HostResults:
    return by_the_gateway(tmp_path_factory.mktemp("embedded"), journal)


@pytest.fixture(scope="module")
def batched(journal: Path, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a batch has left."""
    folder = tmp_path_factory.mktemp("batch")
    with _catalog(folder) as catalog:
        assert batch.run(SparkSteps(spark), open_run(_job(folder, journal), catalog, SystemClock())) is not None
    return folder


def test_traffic_has_what_hosts_might_differ_in(embedded: HostResults) -> None:
    states = {item["state"] for item in embedded.attachments.values()}
    assert states == {AttachmentState.RECEIVING, AttachmentState.FINISHED, AttachmentState.QUARANTINED}
    assert {"conflicting-part", "bad-header", "unknown-message-type", "unknown-framing", "bad-envelope"} <= {
        entry.code for entry in embedded.quarantine
    }
    assert {item["size"] for item in embedded.attachments.values()} >= {0, LARGEST}
    assert any(item["duplicates"] for item in embedded.attachments.values())
    assert any(item["missing"] for item in embedded.attachments.values())
    assert any(message["application_body"] is None for message in embedded.messages.values())


def test_a_batch_finds_the_same(journal: Path, embedded: HostResults, batched: Path) -> None:
    assert_same(in_folder(batched, journal), embedded, settled=True)


def test_a_batch_again_changes_nothing(
    journal: Path, embedded: HostResults, batched: Path, spark: SparkSession
) -> None:
    before = tables(batched)
    with _catalog(batched) as catalog:
        again = batch.run(SparkSteps(spark), open_run(_job(batched, journal), catalog, SystemClock()))
    assert again is not None
    assert again.was_known
    assert_same(in_folder(batched, journal), embedded, settled=True)
    assert tables(batched) == before


def test_a_stream_finds_the_same(
    journal: Path, embedded: HostResults, batched: Path, spark: SparkSession, tmp_path: Path
) -> None:
    batches: list[int] = []
    with _catalog(tmp_path) as catalog:
        query = streaming.start(
            spark,
            open_run(_job(tmp_path, journal), catalog, SystemClock()),
            checkpoint=str(tmp_path / "checkpoint"),
            bytes_per_trigger=20 * MIB,
            every=None,
            watch=lambda number, _results, _committed: batches.append(number),
        )
        assert query.awaitTermination(240)
        runs = catalog.pipeline_runs(None, 500).items
    assert len(batches) > 3
    assert [(run.kind, run.state) for run in runs] == [("stream", RunState.COMMITTED)] * len(batches)
    assert sum(run.messages for run in runs) > sum(run.attachments for run in runs) > 0
    assert_same(in_folder(tmp_path, journal), embedded, settled=True)
    assert tables(tmp_path) == tables(batched)


@pytest.mark.skipif(not IS_LONG, reason="each kill takes a new Java; tests/faults kills a driver in its commit")
def test_a_driver_killed_at_any_moment_loses_nothing_and_does_nothing_twice(
    tmp_path: Path, spark: SparkSession
) -> None:
    journal, streamed, whole = tmp_path / "journal", tmp_path / "stream", tmp_path / "batch"
    mixed_journal.write(journal, mixed_journal.traffic(Random(7), 8, 20 * MIB))
    for moment, number in KILLS.items():
        died = _drive(streamed, journal, moment, str(number))
        assert died.returncode == -signal.SIGKILL, died.stderr[-4000:]
    shutil.rmtree(streamed / "checkpoint")
    ended = _drive(streamed, journal)
    assert ended.returncode == 0, ended.stderr[-4000:]
    with _catalog(whole) as catalog:
        batch.run(SparkSteps(spark), open_run(_job(whole, journal), catalog, SystemClock()))
    expected = by_the_gateway(tmp_path / "embedded", journal)
    assert_same(in_folder(streamed, journal), expected, settled=False)
    assert_same(in_folder(whole, journal), expected, settled=True)
    assert tables(streamed) == tables(whole)


def _drive(folder: Path, journal: Path, *moment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.support.stream_driver", str(folder), str(journal), *moment]
    return subprocess.run(
        command, cwd=ROOT, start_new_session=True, capture_output=True, text=True, timeout=240, check=False
    )


def _job(folder: Path, journal: Path) -> Job:
    return Job.of(settings(folder), str(journal), in_place=False)


@contextmanager
def _catalog(folder: Path) -> Iterator[SqlCatalog]:
    with closing(SqlCatalog(settings(folder).catalog_url)) as catalog:
        yield catalog
