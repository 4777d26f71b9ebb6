"""`pipeline` at the command line: what a batch says of everything that can come, and of what it cannot do."""

import json
from contextlib import closing, nullcontext
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from adapters.arrow_journal import ArrowJournal
from app.cli import pipeline_command
from app.cli.pipeline_command import spark_session
from app.cli.terminal import Failure
from app.main import build
from app.model.attachment import AttachmentKind
from app.model.errors import GatewayError, StoreFull
from app.model.message import PhysicalMessage
from app.pipeline.commit.commit import CommittedBatch
from app.pipeline.job.spark_session import SparkSettings
from app.pipeline.run.batch import ReprocessingScope
from app.pipeline.watch.expectation_checks import Violation
from app.pipeline.watch.run_monitor import RunReport
from app.settings import JournalSettings, Role, Settings
from app.testing.host_results import HostResults, by_the_gateway, in_folder
from app.web.app import create_app
from tests.cli.conftest import Run
from tests.support import mixed_journal
from tests.web.stock import serving


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed") / "journal"
    mixed_journal.write(folder, mixed_journal.traffic(Random(11), 12, 100_000))
    return folder


@pytest.fixture(scope="module")
def embedded(journal: Path, tmp_path_factory: pytest.TempPathFactory) -> HostResults:
    """What the gateway makes of it by itself."""
    return by_the_gateway(tmp_path_factory.mktemp("embedded"), journal)


def test_a_batch_tells_what_the_gateway_finds_and_is_served(
    run: Run, spark: SparkSession, journal: Path, embedded: HostResults, tmp_path: Path
) -> None:
    folder = tmp_path / "result"
    done = run("pipeline", "batch", journal, "--out", folder, "--json")
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    announced = {key: item for key, item in embedded.attachments.items() if item["kind"] is not None}
    incomplete = {key: item for key, item in announced.items() if item["state"] == "receiving"}
    assert {item["id"]: item["missing"] for item in told["incomplete"]} == {
        key: [list(pair) for pair in item["missing"][:10]] for key, item in incomplete.items()
    }
    assert any(item["missing"] for item in told["incomplete"])
    assert sum(told["attachments"].values()) == len(announced)
    assert told["unannounced"] == len(embedded.attachments) - len(announced) > 0
    assert sum(told["quarantine"].values()) == len(embedded.quarantine)
    assert told["quarantine"]["conflicting-part"] == told["conflicts"] > 0
    repeated = sum(item["duplicates"] for item in embedded.attachments.values())
    assert told["duplicates"] + told["conflicts"] >= repeated > told["conflicts"]
    finished = [item for item in embedded.attachments.values() if item["state"] == "finished"]
    rows = {each["table"]: each["rows"] for each in told["tables"]}
    assert rows.pop("quality") > 0
    assert rows.pop("files") == sum(item["kind"] != AttachmentKind.DATA_SET for item in finished)
    assert sum(rows.values()) == sum(item["observations"] or 0 for item in finished) > 0
    assert not told["known_before"]
    assert in_folder(folder, journal).attachments == embedded.attachments

    again = run("pipeline", "batch", journal, "--out", folder)
    assert again.code == 0
    assert "all of it had been processed before" in again.out
    for state, count in told["attachments"].items():
        assert f"{count} {state}" in again.out
    assert f"{told['unannounced']} waiting for a header" in again.out
    for code, count in told["quarantine"].items():
        assert f"{count} {code}" in again.out
    for item in told["incomplete"][:20]:
        (line,) = [line for line in again.out.splitlines() if line.startswith(item["id"])]
        ranges = [f"{first}" if first == last else f"{first}-{last}" for first, last in item["missing"]]
        assert (", ".join(ranges) or "unknown") in line
        assert item["name"] in line

    assert spark.range(3).count() == 3, "a session that was there before is left as it was"
    assert served(folder, None) == 0, "all content is in the store"


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_nothing_to_do_is_said(run: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    open_one = ArrowJournal(tmp_path / "journal")
    open_one.append([PhysicalMessage("s", "sas_queue", body=b"?")])
    done = run("pipeline", "batch", tmp_path / "journal", "--out", tmp_path / "result", *options)
    open_one.close()
    assert (done.code, done.out) == (1, "")
    assert "no sealed segment" in done.err
    gone = run("pipeline", "batch", tmp_path / "gone", "--out", tmp_path / "result", *options)
    assert (gone.code, gone.out) == (1, "")
    assert f"{tmp_path / 'gone'}: no such folder" in gone.err


@pytest.mark.usefixtures("spark")
def test_a_damaged_segment_is_named(run: Run, journal: Path, tmp_path: Path) -> None:
    segment = tmp_path / "0000000001.arrows"
    segment.write_bytes((journal / segment.name).read_bytes()[:-100])
    done = run("pipeline", "batch", tmp_path, "--out", tmp_path / "result")
    assert (done.code, done.out) == (1, "")
    assert f"Spark failed: {segment} is incomplete" in done.err


def test_what_a_batch_made_in_place_is_served(run: Run, spark: SparkSession, journal: Path, tmp_path: Path) -> None:
    assert run("pipeline", "batch", journal, "--out", tmp_path, "--in-place").code == 0
    assert served(tmp_path, None) > 0
    assert served(tmp_path, journal) == 0


def served(folder: Path, archive: Path | None) -> int:
    """Read what a batch wrote into a folder, by a process with the role `serve` alone. Return how many contents it
    refuses because it does not know the archive."""
    refused = 0
    journal = JournalSettings(archive_url=None if archive is None else str(archive))
    gateway = build(Settings(data=folder, roles=frozenset({Role.SERVE}), journal=journal))
    gateway.start()
    with serving(create_app(gateway)) as address, httpx.Client(base_url=address, timeout=60) as client:
        finished = client.get("/v1/attachments", params={"state": "finished", "limit": 500}).json()["items"]
        assert finished
        for item in finished:
            content = client.get(f"/v1/attachments/{item['id']}/content")
            if archive is None and content.status_code == 503:
                assert "journal.archive_url" in content.json()["detail"]
                refused += 1
            else:
                assert content.status_code == 200
                assert sha256(content.content).hexdigest() == item["sha256"]
        assert client.get("/v1/tables").json()["items"]
        assert client.get("/health/ready").json()["ok"]
        assert client.get("/v1/summary").json()["journal"] is None
    gateway.stop()
    return refused


def test_what_tasks_and_java_raise_is_said_in_a_line(spark: SparkSession, tmp_path: Path) -> None:
    java: Any = spark.sparkContext._jvm

    def full(_: int) -> None:
        raise StoreFull("no space left for objects")

    def closed() -> None:
        raise GatewayError("the catalog cannot be opened")

    said = []
    for broken in (
        lambda: spark.sparkContext.parallelize([1]).map(full).collect(),
        lambda: java.java.util.ArrayDeque().removeFirst(),
        closed,
    ):
        with pytest.raises(Failure) as failed, spark_session(SparkSettings(), Settings(data=tmp_path)):
            broken()
        said.append(str(failed.value))
    assert said == [
        "Spark failed: no space left for objects",
        "Spark failed: java.util.NoSuchElementException",
        "the catalog cannot be opened",
    ]


def test_tables_are_left_out_where_nobody_wants_them_and_a_segment_that_is_still_written_is_named(
    run: Run, spark: SparkSession, tmp_path: Path
) -> None:
    mixed_journal.write(tmp_path / "journal", mixed_journal.traffic(Random(3), 3, 1000))
    with closing(ArrowJournal(tmp_path / "journal")) as writing:
        (position,) = writing.append([PhysicalMessage("s", "sas_queue", body=b"?")])
        done = run("pipeline", "batch", tmp_path / "journal", "--out", tmp_path / "result", "--no-tables", "--json")
    assert done.code == 0, done.err
    assert f"segment {position.segment} of {tmp_path / 'journal'} is still written" in done.err
    told = json.loads(done.out)
    assert told["attachments"]["finished"] > 0
    assert told["tables"] == []
    assert not (tmp_path / "result" / "tables").exists()


def test_no_stream_beside_a_gateway_that_assembles(run: Run, tmp_path: Path) -> None:
    configuration = tmp_path / "gateway.toml"
    configuration.write_text(f'data = "{tmp_path / "var"}"\n')
    done = run("pipeline", "stream", "--config", configuration)
    assert done.code == 1
    assert "assembles attachments itself" in done.err
    assert 'assembler = "spark"' in done.err


def test_a_batch_names_damaged_and_missing_segments_and_what_recovers_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ReprocessingScope | None] = []

    def run_batch(
        *_given: object, again: ReprocessingScope | None, **_named: object
    ) -> tuple[CommittedBatch, RunReport, list[Violation]]:
        asked.append(again)
        return (
            CommittedBatch(1, damaged=(3, 4), missing=((6, 6), (8, 9))),
            RunReport({}, 0, [], {"damaged-message": 2}),
            [],
        )

    monkeypatch.setattr(pipeline_command, "spark_session", lambda *_: nullcontext())
    monkeypatch.setattr(pipeline_command, "_run_batch", run_batch)
    command = ("pipeline", "batch", tmp_path, "--out", tmp_path / "out")
    done = run(*command)
    assert done.code == 1
    assert "missing segments: 6, 8-9" in done.err
    assert "put them back and run the same command with --again-from 6" in done.err
    assert "damaged segments: 3, 4" in done.err
    assert "put undamaged copies back and run the same command with --again-from 3" in done.err
    run(*command, "--again-from", 3, "--source", "orders", "--since", "2026-11-01T08:30")
    assert asked == [None, ReprocessingScope(3, 1_793_521_800_000_000, "orders")]
    assert json.loads(run(*command, "--json").out)["damaged_segments"] == [3, 4]
