"""The session's settings, and what it says while it works."""

import io
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from rich.console import Console

from app.cli.pipeline_command import spark_settings
from app.model.errors import GatewayError
from app.pipeline.job import jvm
from app.pipeline.job.spark_session import BRIEF_JAVA, SparkSettings, _for_java, pairs, session
from app.pipeline.watch.progress_bars import progress
from app.testing.waiting import until


def test_settings_are_those_chosen_unless_somebody_set_them(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.app.name") == "tests"
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert "RocksDB" in str(spark.conf.get("spark.sql.streaming.stateStore.providerClass"))
    assert conf.get("spark.python.unix.domain.socket.enabled") == str(hasattr(socket, "AF_UNIX")).lower()
    assert os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] == "60"  # which workers inherit
    assert spark.sparkContext.uiWebUrl is None


def test_an_active_session_is_used_as_it_is(spark: SparkSession) -> None:
    assert session("another", SparkSettings(master="local[7]", conf={"spark.ui.enabled": "true"})) is spark


def test_a_master_that_is_said_as_a_setting_is_known() -> None:
    assert SparkSettings().local
    assert SparkSettings(conf={"spark.master": "local[2]"}).local
    assert not SparkSettings(conf={"spark.master": "spark://spark.example:7077"}).local


def test_workers_run_this_interpreter_and_have_this_package(spark: SparkSession) -> None:
    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import app.model.message  # noqa: PLC0415 - on the worker

        for batch in batches:
            here = {"python": [sys.executable], "app": [app.model.message.__file__]}
            yield pa.record_batch({name: value * batch.num_rows for name, value in here.items()})

    found = spark.range(2).mapInArrow(where, "python string, app string").distinct().collect()
    assert [(row.python, Path(row.app).parents[2]) for row in found] == [(sys.executable, Path(__file__).parents[2])]


class Daemons(DataSource, DataSourceReader):
    """The process that has forked the worker which reads it."""

    def __init__(self, options: dict[str, str]) -> None:
        """Take no options."""

    @classmethod
    def name(cls) -> str:
        return "daemons"

    def schema(self) -> str:
        return "daemon long"

    def reader(self, schema: Any) -> DataSourceReader:
        return self

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (os.getppid(),)


class Daemon(StatefulProcessor):
    """The process that has forked the worker which keeps state."""

    def init(self, handle: StatefulProcessorHandle) -> None: ...

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        yield Row(daemon=os.getppid())

    def close(self) -> None: ...


def test_workers_of_sources_and_of_steps_have_one_daemon(spark: SparkSession) -> None:
    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"daemon": [os.getppid()]})

    spark.dataSource.register(Daemons)
    of_source = spark.read.format("daemons").load().collect()
    one = spark.range(1, numPartitions=1)
    assert one.mapInArrow(step, "daemon long").collect() == of_source
    assert one.groupBy("id").transformWithState(Daemon(), "daemon long", "append", "none").collect() == of_source


@pytest.mark.process
def test_what_plans_a_stream_loads_neither_settings_nor_framings() -> None:
    """Spark starts a Python process for each processor, and one for each question to a source."""
    for name in ("processors", "segment_sources"):
        loaded = "import sys; print({'app.settings', 'app.service.context', 'app.framing.registry'} & {*sys.modules})"
        program = [sys.executable, "-c", f"import app.pipeline.run.{name}; {loaded}"]
        assert subprocess.run(program, check=True, capture_output=True, text=True).stdout == "set()\n"


class Counting(StatefulProcessor):
    """How many rows each key has had."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        (before,) = self._count.get() or (0,)
        count = before + sum(1 for _ in rows)
        self._count.update((count,))
        yield Row(key=key[0], count=count)

    def close(self) -> None: ...


def test_a_stream_with_state_ends_keeps_a_log_of_changes_and_is_quiet(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "abc":
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{name}.json").write_text('{"key": 1}\n{"key": 2}\n{"key": 1}\n')
    counts: dict[int, int] = {}
    lines = spark.readStream.schema("key long").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    query = (
        lines.groupBy("key")
        .transformWithState(Counting(), "key long, count long", "update", "processingTime")
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(lambda batch, _: counts.update(batch.collect()))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert counts == {1: 6, 2: 3}
    assert list((tmp_path / "checkpoint" / "state").rglob("*.changelog"))
    assert capsys.readouterr() == ("", "")


def test_what_goes_wrong_is_raised_and_not_logged(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AnalysisException, match="no_such_column"):
        spark.range(1).select("no_such_column")
    with pytest.raises(AnalysisException, match="NO_SUCH"):
        spark.sql("SELECT NO_SUCH(1)")
    assert capfd.readouterr() == ("", "")


def test_what_spark_works_on_is_shown_on_a_terminal_only(spark: SparkSession, tmp_path: Path) -> None:
    seen = tmp_path / "seen"

    class Screen(io.StringIO):
        def write(self, text: str) -> int:
            if "0/2 tasks" in text:
                seen.touch()
            return super().write(text)

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        until(seen.exists)
        yield from batches

    screen = Screen()
    with progress(spark, "reading", Console(file=screen, force_terminal=True, color_system=None, width=100)):
        assert spark.range(6, numPartitions=2).mapInArrow(wait, "id long").count() == 6
    assert "reading, stage " in screen.getvalue()
    file = io.StringIO()
    with progress(spark, "reading", Console(file=file)):
        assert spark.range(6).count() == 6
    assert file.getvalue() == ""


def test_without_pyspark_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(GatewayError, match=r"pip install .*'pyspark<"):
        session("without")


@pytest.mark.process
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # PySpark leaves a pipe to it open.
def test_a_java_that_does_not_start_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)
    with pytest.raises(GatewayError, match="Invalid maximum heap size: -Xmxplenty"):
        jvm.start({"spark.driver.memory": "plenty"})


def test_settings_are_written_as_pairs() -> None:
    assert pairs(["spark.a=1", "spark.b = x=y"]) == {"spark.a": "1", "spark.b": "x=y"}
    for wrong in ("spark.a", "=1"):
        with pytest.raises(ValueError, match="key=value"):
            pairs([wrong])


def test_java_leaves_nothing_in_the_temporary_folder(spark: SparkSession) -> None:
    """Its own temporary folder is within one that goes with this process, and that TMPDIR chooses."""
    java: Any = spark.sparkContext._jvm
    folder = Path(java.java.lang.System.getProperty("java.io.tmpdir"))
    assert folder.parent == Path(tempfile.gettempdir())
    assert folder.name.startswith("spark-")
    own = _for_java(SparkSettings("local[2]", java_options="-Djava.io.tmpdir=/own"), "own")
    assert own["spark.driver.extraJavaOptions"].count("java.io.tmpdir") == 1
    cluster = _for_java(SparkSettings("spark://spark.example:7077"), "cluster")
    assert "java.io.tmpdir" not in cluster["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(
    ("settings", "variable", "expected"),
    [
        (SparkSettings("local[2]"), "", ["-XX:+UseParallelGC"]),
        (SparkSettings("local[2]", java_options="-XX:+UseZGC -Xss4m"), "", ["-XX:+UseZGC"]),
        (SparkSettings("local", conf={"spark.driver.extraJavaOptions": "-XX:+UseG1GC"}), "", ["-XX:+UseG1GC"]),
        (SparkSettings("local[2]"), "-XX:+UseSerialGC", []),
        (SparkSettings("spark://spark.example:7077"), "", []),
    ],
    ids=["chosen", "by the program", "by the user", "by a variable", "on a cluster"],
)
def test_java_on_this_machine_has_one_collector(
    monkeypatch: pytest.MonkeyPatch, settings: SparkSettings, variable: str, expected: list[str]
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", variable)
    options = _for_java(settings, "name")["spark.driver.extraJavaOptions"].split()
    assert [option for option in options if option.startswith("-XX:+Use")] == expected


def test_a_command_of_one_batch_has_a_java_for_it_that_the_user_can_change() -> None:
    brief = _for_java(spark_settings("local[2]", None, None, None, brief=True), "brief")
    assert BRIEF_JAVA in brief["spark.driver.extraJavaOptions"].split()
    own = spark_settings("local[2]", None, None, ["spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=4"], brief=True)
    assert _for_java(own, "own")["spark.driver.extraJavaOptions"].split()[-1] == "-XX:TieredStopAtLevel=4"
    stream = _for_java(spark_settings("local[2]", None, None, None), "stream")
    assert BRIEF_JAVA not in stream["spark.driver.extraJavaOptions"]
