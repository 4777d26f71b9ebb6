"""Disks for tests that need a real one to misbehave."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SMALL_DISK = 16 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own of 16 MiB, where this user may mount one."""
    folder = tmp_path / "small_disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("a small disk needs the mount command")
    if done.returncode:
        pytest.skip(f"a small disk needs the right to mount one: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
