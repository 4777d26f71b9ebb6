"""Real disks with faults, for tests."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EIO
from pathlib import Path

import pytest

SMALL_DISK = 16 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a separate file system of 16 MiB, if this user may mount one."""
    with disk_of(tmp_path / "small_disk", SMALL_DISK) as folder:
        yield folder


@contextmanager
def disk_of(folder: Path, size: int) -> Iterator[Path]:
    """Mount a separate file system of so many bytes; skip the test if this user may not mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("a small disk needs the mount command")
    if done.returncode:
        pytest.skip(f"a small disk needs the right to mount one: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


BLOCK = 4096


def bad_blocks(monkeypatch: pytest.MonkeyPatch, *places: int) -> None:
    """Make reads of the blocks at these bytes of every file fail, as on a failing disk."""
    pread = os.pread

    def fail(descriptor: int, length: int, offset: int) -> bytes:
        if any(offset < place + BLOCK and place < offset + length for place in places):
            raise OSError(EIO, os.strerror(EIO))
        return pread(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", fail)
