"""Programs of package registries that tests run. Where they cannot be fetched, the test is skipped and says so."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.environment import with_proxies

UV = Path(sys.executable).parent / "uv"
_NOT_FETCHED = (
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ETIMEDOUT",
    "Failed to fetch",
    "No solution found",
    "dns error",
)


def ran(*command: str | Path, folder: Path, seconds: float = 240) -> str:
    """What a program that is fetched first says; it must succeed, within so many seconds."""
    done = subprocess.run(
        command, cwd=folder, env=with_proxies(), capture_output=True, text=True, timeout=seconds, check=False
    )
    said = done.stdout + done.stderr
    if done.returncode and any(word in said for word in _NOT_FETCHED):
        pytest.skip(f"{command} cannot be fetched: {said[-300:]}")
    assert done.returncode == 0, said
    return said
