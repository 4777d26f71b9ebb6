"""The pipeline's commands as spark-submit starts them."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.pipeline import main

pytestmark = pytest.mark.process


def run(*command: str | Path) -> tuple[int, str]:
    ended = subprocess.run([sys.executable, *command], check=False, capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def test_as_a_file_it_is_the_command_line() -> None:
    as_command = run(Path(sys.executable).with_name("attachment-gateway"), "pipeline", "--help")
    assert run(Path(main.__file__), "--help") == as_command
