"""Each program of `bench` at its smallest: it measures something, and its last line has its ratios."""

import subprocess
import sys
from pathlib import Path

import pytest

import bench
from docs.performance import SUBJECTS
from tests.support.length import IS_LONG

pytestmark = pytest.mark.process

SMALL = {
    "dataset": "--rows 5000 --rounds 1",
    "journal": "--batches 2 --rounds 1 --megabytes 2",
    "order_packet": "--rows 500 --rounds 1",
    "rendezvous": "--rounds 1",
    "rest": "--rounds 1 --parts small_downloads upload",
}
"""Those that start no broker, database or Spark. Of `rest`, the parts whose peer the tests' system has."""
LARGE = {
    "archive_ack": "--delays 20 --seconds 1",
    "driver": "--attachments 20000",
    "headers": "--headers 2000",
    "incremental": "--batches 3 --attachments 10",
    "intake": "--total 8 --files 50 --data-sets 20 --rounds 1",
    "memory": "--large 8 --rows 20000 --unfinished 500",
    "mq": "--total 4 --attachment 1 --rounds 1",
    "pipeline": "--scale 0.01 --rounds 1",
    "pipeline_object_store": "--files 20 --delay 1 --rounds 1",
    "receivers": "--files 200 --warm-up 40 --rounds 1",
    "receipts": "--files 60 --total 8 --rounds 1",
    "scaling": "",
    "serving": "--rows 2000 --seconds 0.3 --times 3",
    "steps": "--messages 2048",
}
PARTS = {"pipeline_journals", "queues", "record", "scaling_costs"}
"""Modules that are no programs."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SMALL | LARGE if IS_LONG else SMALL)
def test_it_runs_and_prints_ratios(name: str) -> None:
    command = [sys.executable, "-m", f"bench.{name}", *(SMALL | LARGE)[name].split()]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    word, *ratios = ended.stdout.splitlines()[-1].split()
    assert word == "ratios:"
    assert ratios
    assert all(float(each.partition("=")[2]) > 0 for each in ratios)
    assert {each.partition("=")[0] for each in ratios} <= {*SUBJECTS[name].ratios}, (
        "explain it in docs/performance.toml"
    )


def test_all_are_here() -> None:
    (folder,) = bench.__path__
    modules = {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}
    assert modules - PARTS == {*SMALL, *LARGE}
