"""The pipeline's commands as spark-submit starts them."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.pipeline.job import spark_submit

pytestmark = pytest.mark.process


def run(*command: str | Path) -> tuple[int, str]:
    ended = subprocess.run([sys.executable, *command], check=False, capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def test_as_a_file_it_is_the_command_line() -> None:
    as_command = run(Path(sys.executable).with_name("attachment-gateway"), "pipeline", "--help")
    assert run(Path(spark_submit.__file__), "--help") == as_command
