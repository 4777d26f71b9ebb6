"""Disks for tests that need a real one to misbehave."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

SMALL_DISK = 16 << 20


@contextmanager
def mounted(folder: Path, size: int) -> Iterator[None]:
    """A file system of its own in a folder, where this user may mount one. Raises OSError where not."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PermissionError(f"a disk of its own needs the right to mount one: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own of 16 MiB, where this user may mount one."""
    folder = tmp_path / "small_disk"
    folder.mkdir()
    with ExitStack() as ending:
        try:
            ending.enter_context(mounted(folder, SMALL_DISK))
        except OSError as error:
            pytest.skip(str(error))
        yield folder
