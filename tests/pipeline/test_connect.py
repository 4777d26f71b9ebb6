"""A batch on a Spark Connect server comes to what one in this process comes to."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from app.cli.pipeline_command import stream
from app.cli.terminal import Failure
from app.pipeline.job.spark_session import SparkSettings
from app.testing.host_results import assert_same, by_the_gateway, in_folder
from tests.support import mixed_journal
from tests.support.connect_server import connect_server

pytestmark = pytest.mark.process

PROGRAM = Path(sys.executable).with_name("attachment-gateway")


def test_a_batch_runs_on_a_server(tmp_path: Path) -> None:
    journal, folder = tmp_path / "journal", tmp_path / "result"
    mixed_journal.write(journal, mixed_journal.traffic(Random(11), 12, 50_000))
    with connect_server(tmp_path) as address:
        command = [str(PROGRAM), "pipeline", "batch", str(journal), "--out", str(folder), "--master", address, "--json"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert len(told["tables"]) > 3, "enough tables for tasks of their own"
    assert_same(in_folder(folder, journal), by_the_gateway(tmp_path / "embedded", journal), settled=True)


def test_a_stream_is_refused(tmp_path: Path) -> None:
    configuration = tmp_path / "gateway.toml"
    configuration.write_text(f'data = "{tmp_path}"\nassembler = "spark"\n')
    with pytest.raises(Failure, match="a stream does not run on Spark Connect"):
        stream(path=configuration, master="sc://spark.example:15002")


def test_addresses_of_servers_are_known() -> None:
    assert SparkSettings("sc://spark.example").connect == "sc://spark.example"
    assert SparkSettings(conf={"spark.master": "sc://spark.example"}).connect == "sc://spark.example"
    assert SparkSettings("spark://spark.example:7077").connect is None
    assert not SparkSettings("sc://spark.example").local
