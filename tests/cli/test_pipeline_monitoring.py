"""What a run of the pipeline tells others: metrics, expectations, names of Spark's jobs, OpenLineage events."""

import json
import socket
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from adapters.arrow_journal import ArrowJournal
from adapters.delta_tables import DeltaTables
from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.model.errors import GatewayError
from app.model.message import PhysicalMessage, Position
from app.pipeline.commit import tables
from app.pipeline.commit.commit import CommittedBatch
from app.pipeline.watch.expectation_checks import violations
from app.pipeline.watch.lineage import dataset_name
from app.pipeline.watch.pipeline_metrics import PipelineMetrics
from app.service.assembling.assembly_hosts import lag
from app.settings import Expectation, PipelineSettings
from app.tables.quality import HOUR, QUALITY, Increment, quality_rows
from tests.cli.conftest import Run
from tests.support import mixed_journal
from tests.support.lineage_receiver import event_of, receiving

PREFIX = "attachment_gateway_pipeline_"


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("monitored") / "journal"
    mixed_journal.write(folder, mixed_journal.traffic(Random(11), 12, 30_000))
    return folder


def configured(folder: Path, text: str) -> Path:
    path = folder / "gateway.toml"
    path.write_text(f'data = "{folder / "data"}"\nassembler = "spark"\n[pipeline]\n{text}')
    return path


def samples(text: str) -> dict[str, float]:
    """Return the sum of each metric over its labels, without the common beginning of the names."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removeprefix(PREFIX)
            found[name] = found.get(name, 0.0) + sample.value
    return found


def test_a_batch_has_metrics_lineage_and_warnings(run: Run, spark: SparkSession, journal: Path, tmp_path: Path) -> None:
    with receiving() as receiver:
        (tmp_path / "token").write_text("open-sesame\n")
        configuration = configured(
            tmp_path,
            f'metrics_file = "{tmp_path / "pipeline.prom"}"\n'
            f'lineage_url = "{receiver.url}"\nlineage_token_file = "{tmp_path / "token"}"\n'
            'expectations = [{ quantity = "conflicts", at_most = 0 }, { quantity = "messages", at_least = 1 }]\n',
        )
        done = run("pipeline", "batch", journal, "--config", configuration, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    written = samples((tmp_path / "pipeline.prom").read_text())
    with closing(ArrowJournal(journal)) as opened:
        everything = sum(len(messages) for _, messages in opened.replay(None))
    assert written["messages_total"] == everything
    assert written["conflicts_total"] == told["conflicts"]
    assert written["attachments_total"] == sum(told["attachments"][state] for state in ("finished", "quarantined"))
    assert written["table_rows_total"] == sum(each["rows"] for each in told["tables"])
    assert (written["batches_total"], written["batch_seconds_count"]) == (1, 1)
    assert (written["lag_segments"], written["lag_messages"], written["lag_seconds"]) == (0, 0, 0)
    assert {each["quantity"] for each in told["violations"]} == {"conflicts"}
    assert all(f"{each['source']}: conflicts is " in done.err for each in told["violations"])

    assert receiver.authorizations == ["Bearer open-sesame"] * 2
    start, complete = map(event_of, receiver.events)
    assert [start.eventType.name, complete.eventType.name] == ["START", "COMPLETE"]  # type: ignore[union-attr]
    assert start.run.runId == complete.run.runId
    assert [(each.namespace, each.name) for each in complete.inputs or []] == [("file", str(journal))]
    store = DeltaTables(tmp_path / "data" / "tables")
    outputs = {each.name: each for each in complete.outputs or []}
    assert outputs.keys() == {store.location(each["table"]) for each in told["tables"]}
    for each in told["tables"]:
        output: Any = outputs[store.location(each["table"])]
        assert output.outputFacets["outputStatistics"].rowCount == each["rows"]
        names = [field.name for field in output.facets["schema"].fields]
        assert names == store.schema(each["table"]).names

    descriptions = _descriptions(spark)
    assert any(str(journal) in each and each.startswith("assemble segments up to") for each in descriptions)
    assert any(each.startswith("write ") and "tables: " in each for each in descriptions)
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


def _descriptions(spark: SparkSession) -> list[str]:
    """Return the descriptions of Spark's jobs, as its web interface shows them."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [jobs.apply(at).description() for at in range(jobs.size())]
    return [each.get() for each in found if each.isDefined()]


def test_a_stream_has_metrics_of_its_state_and_an_event_for_each_batch(
    run: Run, spark: SparkSession, journal: Path, tmp_path: Path
) -> None:
    with receiving() as receiver:
        configuration = configured(
            tmp_path, f'metrics_file = "{tmp_path / "pipeline.prom"}"\nlineage_url = "{receiver.url}"\n'
        )
        done = run("pipeline", "stream", "--journal", journal, "--config", configuration, "--once")
    assert done.code == 0, done.err
    written = samples((tmp_path / "pipeline.prom").read_text())
    assert written["batch_seconds_count"] == written["batches_total"] >= 1
    assert written["state_rows"] > 0
    assert written["state_bytes"] > 0
    assert written["phase_seconds"] > 0
    assert written["lag_segments"] == 0
    # Several threads send them, so that they may arrive in another order.
    events = sorted(map(event_of, receiver.events), key=lambda event: event.eventTime)
    states = [event.eventType.name for event in events]  # type: ignore[union-attr]
    assert (states[0], states[-1], set(states[1:-1])) == ("START", "COMPLETE", {"RUNNING"})
    job_type: Any = events[0].job.facets["jobType"]  # type: ignore[index]
    assert (job_type.processingType, job_type.jobType) == ("STREAMING", "SERVICE")
    assert any(each.startswith("micro-batch 0: ") for each in _descriptions(spark))


@pytest.mark.usefixtures("spark")
def test_a_run_that_fails_says_so_and_its_expectations_come_after_the_commit(
    run: Run, journal: Path, tmp_path: Path
) -> None:
    segment = tmp_path / "damaged" / "0000000001.arrows"
    segment.parent.mkdir()
    segment.write_bytes((journal / segment.name).read_bytes()[:-100])
    with receiving() as receiver:
        configuration = configured(tmp_path, f'lineage_url = "{receiver.url}"\n')
        assert run("pipeline", "batch", segment.parent, "--config", configuration).code == 1
    start, failed = map(event_of, receiver.events)
    assert [start.eventType.name, failed.eventType.name] == ["START", "FAIL"]  # type: ignore[union-attr]
    said: Any = failed.run.facets["errorMessage"]  # type: ignore[index]
    assert "is incomplete" in said.message

    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    expected = '[{ quantity = "conflict_share", at_most = 0, action = "fail", source = "north" }]'
    configuration = configured(tmp_path, f'lineage_url = "http://127.0.0.1:{port}"\nexpectations = {expected}\n')
    done = run("pipeline", "batch", journal, "--config", configuration)
    assert done.code == 4
    assert "error: the quality is not as expected:\nnorth: conflict_share is 0." in done.err
    assert "What was received is committed" in done.err
    again = run("pipeline", "batch", journal, "--config", configuration)
    assert again.code == 0
    assert "processed before" in again.out


def test_expectations_hold_for_the_hours_of_a_run_in_the_table(tmp_path: Path) -> None:
    store = DeltaTables(tmp_path)

    def add(number: int, *increments: Increment) -> None:
        rows = quality_rows(increments)
        tables.append(store, QUALITY, rows.schema, rows.to_batches(), "test", number)

    add(1, Increment("a", 0, messages=100, missing_ranges=3), Increment("a", HOUR, messages=10, missing_ranges=2))
    come_late = Increment("a", HOUR, messages=10, missing_ranges=-2, longest_seconds=8)
    add(2, come_late, Increment("b", HOUR, messages=4, conflicts=1))
    added = [come_late, Increment("b", HOUR, messages=4, conflicts=1)]

    def check(**limits: Any) -> list[str]:
        return [str(each) for each in violations([Expectation(**limits)], added, store)]

    assert check(quantity="missing_ranges", at_most=0) == []
    assert check(quantity="messages", at_most=19) == ["a: messages is 20, expected at most 19"]
    assert check(quantity="messages", at_least=5, source="b") == ["b: messages is 4, expected at least 5"]
    assert check(quantity="messages", at_least=5, source="a") == []
    assert check(quantity="conflict_share", at_most=0.2) == ["b: conflict_share is 0.25, expected at most 0.2"]
    assert check(quantity="longest_seconds", at_most=7.5) == ["a: longest_seconds is 8, expected at most 7.5"]
    assert violations([Expectation(quantity="messages", at_most=0)], added, None)[0].value == 10
    assert violations([Expectation(quantity="messages", at_most=0)], [], store) == []
    wrongs: list[dict[str, Any]] = [{}, {"at_most": 1, "at_least": 1}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="either at_most or at_least"):
            Expectation(quantity="messages", **wrong)


def test_metrics_are_read_at_a_port_and_tell_the_lag(tmp_path: Path) -> None:
    clock = SystemClock()
    with (
        closing(ArrowJournal(tmp_path / "journal")) as opened,
        closing(SqlCatalog(f"sqlite:///{tmp_path}/catalog.sqlite")) as catalog,
    ):
        for _ in range(2):
            opened.append([PhysicalMessage("s", "sas_queue", body=b"x" * 100)] * 5)
            opened.seal()
        first, second = opened.segments()
        metrics = PipelineMetrics(PipelineSettings(metrics_port=0), opened, catalog, clock)
        metrics.batch(CommittedBatch(0, finished=3, received=(Increment("s", 0, messages=5),)), first.size)
        metrics.start()
        try:
            answer = httpx.get(f"http://127.0.0.1:{metrics.port}/metrics", timeout=60)
            with pytest.raises(GatewayError, match="cannot listen on 127"):
                PipelineMetrics(PipelineSettings(metrics_port=metrics.port), opened, catalog, clock).start()
        finally:
            metrics.stop()
        found = samples(answer.text)
        assert (found["lag_segments"], found["lag_bytes"]) == (2, first.size + second.size)
        assert found["lag_messages"] == round((first.size + second.size) / (first.size / 5))
        assert found["lag_seconds"] > 0
        assert found["attachments_total"] == 3
        assert lag(opened, Position(first.number, 0, 4).pack(), clock.now())[:2] == (1, second.size)
    full = PipelineMetrics(PipelineSettings(metrics_file=tmp_path / "gone" / "x.prom"), opened, catalog, clock)
    with pytest.raises(GatewayError, match="cannot write"):
        full.start()
    with capture_logs() as logs:
        full.write()
    assert [each["event"] for each in logs] == ["metrics_file_failed"], "no run ends for it"


def test_places_are_named_as_openlineage_names_them() -> None:
    assert dataset_name("/data/journal") == ("file", "/data/journal")
    assert dataset_name("file:///data/a%20b") == ("file", "/data/a b")
    assert dataset_name("s3a://bucket/some/journal/") == ("s3://bucket", "some/journal")
    assert dataset_name("gs://bucket") == ("gs://bucket", "/")
