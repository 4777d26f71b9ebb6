"""Failures as people read them: killed processes, full disks, too little memory; and what a retry mends."""

import os
import shutil
import signal
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from adapters.sql_catalog import SqlCatalog
from app.cli.pipeline_command import spark_session
from app.cli.terminal import Failure
from app.main import SystemClock
from app.model.errors import GatewayError, StoreFull
from app.pipeline.job.job import Job, open_run
from app.pipeline.job.jvm import JavaExit
from app.pipeline.job.spark_failures import LOG, explain, keep_traceback
from app.pipeline.job.spark_session import SparkSettings, _retrying
from app.pipeline.run import batch, streaming
from app.pipeline.run.spark_steps import SparkSteps
from app.settings import Settings
from tests.support import failing_pipeline, mixed_journal
from tests.support.disk import small_disk

__all__ = ["small_disk"]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("failures") / "journal"
    mixed_journal.write(folder, mixed_journal.traffic(Random(3), 2, 20_000))
    return folder


@pytest.mark.spark
def test_a_killed_java_is_named_with_what_to_do(journal: Path, tmp_path: Path) -> None:
    configuration = tmp_path / "gateway.toml"
    configuration.write_text(f'data = "{tmp_path / "data"}"\nassembler = "spark"\n')
    ended = failing_pipeline.run("batch", journal, "--config", configuration)
    assert (ended.code, ended.out) == (1, "")
    why, hint, where = ended.err.splitlines()[-3:]
    assert why == "error: Spark failed: Spark's Java process was killed (SIGKILL)"
    assert "memory" in hint
    log = tmp_path / "data" / LOG
    assert where == f"The whole traceback is in {log}"
    assert "Traceback (most recent call last)" in log.read_text()
    assert "Traceback" not in ended.err
    assert "Exception" not in ended.err


def kill(_: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def test_a_worker_that_is_killed_again_and_again_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Failure) as failed, spark_session(SparkSettings(), Settings(data=tmp_path)):
        spark.sparkContext.parallelize([1], 1).map(kill).collect()
    assert str(failed.value) == "Spark failed: a Python worker of Spark was killed or crashed"
    hint, where = failed.value.hint.splitlines()
    assert "spark.executor.memoryOverhead" in hint
    assert where == f"The whole traceback is in {tmp_path / LOG}"
    assert "failed 2 times" in (tmp_path / LOG).read_text()


LATE = "[STREAM_FAILED] ... org.apache.spark.SparkException: Python worker failed to connect back."


class Query:
    """A stream that fails for these reasons, each time when it is awaited, and then ends."""

    def __init__(self, reasons: list[str]) -> None:
        self._reasons, self.begun = reasons, 0

    def begin(self) -> Any:
        self.begun += 1
        return self

    def awaitTermination(self, _seconds: int) -> bool:
        if self._reasons:
            raise StreamingQueryException(self._reasons.pop(0))
        return True


@pytest.mark.parametrize(
    ("reasons", "begun"), [([], 1), ([LATE], 2), ([LATE] * 2, 3), ([LATE] * 3, 3), (["No space left"], 1)]
)
def test_a_stream_whose_worker_starts_late_is_begun_again(reasons: list[str], begun: int) -> None:
    fails, query = len(reasons) == 3 or reasons == ["No space left"], Query([*reasons])
    with pytest.raises(StreamingQueryException) if fails else nullcontext():
        streaming.run_until(lambda: False, query.begin)
    assert query.begun == begun
    if fails and LATE in reasons:
        explained = explain(StreamingQueryException(LATE), None, {})
        assert explained.why == "a Python worker of Spark did not start in time"


def test_a_worker_that_is_killed_once_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    marker = tmp_path / "killed"

    def kill_once(number: int) -> int:
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    assert spark.sparkContext.parallelize([7], 1).map(kill_once).collect() == [7]
    assert marker.exists()


def test_masters_of_this_machine_try_a_task_twice(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2,2]"
    masters = ("local", "local[*]", "local[4]", "local[4,1]", "local-cluster[2,1,1024]", "spark://a:7077")
    assert [_retrying(master) for master in masters] == [
        "local[1,2]",
        "local[*,2]",
        "local[4,2]",
        "local[4,1]",
        "local-cluster[2,1,1024]",
        "spark://a:7077",
    ]


def test_a_full_disk_of_the_catalog_is_named(
    spark: SparkSession, journal: Path, tmp_path: Path, small_disk: Path
) -> None:
    url = f"sqlite:///{small_disk}/catalog.sqlite"
    settings = Settings.model_validate({"data": tmp_path, "catalog": {"url": url}})
    with closing(SqlCatalog(url)) as catalog:
        _fill(small_disk)
        job = Job.of(settings, str(journal), in_place=False)
        with pytest.raises(Failure) as failed, spark_session(SparkSettings(), settings):
            batch.run(SparkSteps(spark), open_run(job, catalog, SystemClock()))
    assert str(failed.value).startswith("no space is left for the catalog")
    assert str(small_disk) in str(failed.value)
    assert failed.value.hint.startswith("Free space there, then run the command again")


def test_a_full_disk_of_the_checkpoint_is_named(
    spark: SparkSession, journal: Path, tmp_path: Path, small_disk: Path
) -> None:
    settings = Settings.model_validate({"data": tmp_path, "pipeline": {"checkpoint": str(small_disk / "checkpoint")}})
    _fill(small_disk)
    job = Job.of(settings, str(journal), in_place=True)
    with (
        closing(SqlCatalog(settings.catalog_url)) as catalog,
        pytest.raises(Failure) as failed,
        spark_session(SparkSettings(), settings),
    ):
        _stream(spark, settings, job, catalog)
    assert str(failed.value) == f"Spark failed: no space is left for the checkpoint ({small_disk / 'checkpoint'})"
    assert failed.value.hint.startswith("Free space there, then run the command again")


def test_too_little_memory_of_a_worker_is_named(spark: SparkSession, tmp_path: Path) -> None:
    def take(_: int) -> int:
        import resource  # noqa: PLC0415 - in the worker

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, most))
        try:
            return len(bytearray(4 << 30))
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (most, most))

    with pytest.raises(Failure) as failed, spark_session(SparkSettings(), Settings(data=tmp_path)):
        spark.sparkContext.parallelize([1], 1).map(take).collect()
    assert str(failed.value) == "Spark failed: a Python worker has too little memory"
    assert "--master 'local[2]'" in failed.value.hint


def test_what_java_and_a_cluster_say_is_recognised() -> None:
    for said, why, hint in (
        ("java.lang.OutOfMemoryError: Java heap space", "Java has too little memory", "--memory"),
        (
            "Total size of serialized results (1 GiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)",
            "the results of this batch are larger than spark.driver.maxResultSize",
            "maxResultSize=4g",
        ),
        (
            "Job aborted: ExecutorLostFailure (executor 1 exited caused by one of the running tasks) exit code 137",
            "Spark lost an executor",
            "memoryOverhead",
        ),
    ):
        found = explain(Py4JError(said), None, {})
        assert found.why == why
        assert hint in found.hint
    assert explain(Py4JError("An error occurred while calling o1.x.\n: java.lang.X: y\n\tat z"), None, {}) == (
        "java.lang.X: y",
        "",
    )
    assert explain(
        Py4JError("Traceback\n  File\napp.model.errors.CatalogError: the catalog is full"), None, {}
    ).why == ("the catalog is full")
    assert explain(StoreFull("no space left for objects"), None, {}).hint.startswith("Free space")
    assert explain(GatewayError("another process commits"), JavaExit(-9, ""), {}) == ("another process commits", "")


def test_how_java_ended_is_said() -> None:
    error = ConnectionRefusedError(111, "Connection refused")
    assert explain(error, JavaExit(-9, ""), {}).why == "Spark's Java process was killed (SIGKILL)"
    assert explain(error, JavaExit(3, "java.lang.OutOfMemoryError: x"), {}).why == (
        "Spark's Java process ended with status 3: it had too little memory"
    )
    assert explain(error, JavaExit(134, "# SIGSEGV"), {}).why == "Spark's Java process ended with status 134"


def test_the_traceback_replaces_the_last_one_and_goes_elsewhere_from_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, temporary, broken = tmp_path / "data", tmp_path / "temporary", tmp_path / "file"
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temporary))
    for text in ("first", "second"):
        assert keep_traceback(KeyError(text), JavaExit(-9, "its last words\n"), data) == data / LOG
    written = (data / LOG).read_text()
    assert "KeyError: 'second'" in written
    assert "first" not in written
    assert "its last words" in written
    broken.touch()
    assert keep_traceback(KeyError("third"), None, broken) == temporary / LOG
    temporary.joinpath(LOG).unlink()
    temporary.rmdir()
    temporary.touch()
    assert keep_traceback(KeyError("fourth"), None, broken) is None


def _stream(spark: SparkSession, settings: Settings, job: Job, catalog: SqlCatalog) -> None:
    place, most = settings.pipeline_checkpoint, 1 << 30
    query = streaming.start(
        spark, open_run(job, catalog, SystemClock()), checkpoint=place, bytes_per_trigger=most, every=None
    )
    query.awaitTermination(120)


def _fill(folder: Path) -> None:
    with (folder / "filling").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    assert shutil.disk_usage(folder).free < 4096
