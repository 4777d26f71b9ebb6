"""The demo, as `make run` starts it."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.executable).parent / "attachment-gateway"


def test_what_goes_through_the_broker_comes_out_of_rest(tmp_path: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "demo", "--once", "--data", tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"COLUMNS": "150", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("equal, ") == 3
    assert "different" not in done.stdout
    assert "/docs" in done.stdout
    assert done.stderr == ""
    assert {path.name for path in tmp_path.iterdir()} >= {"journal", "catalog.sqlite", "content"}
