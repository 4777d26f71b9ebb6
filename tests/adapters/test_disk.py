"""Reading files from a disk that fails for a moment, or for good."""

import errno
import os
from pathlib import Path

import pytest

from adapters.disk import ReadFile, UnreadableError


@pytest.fixture
def file(tmp_path: Path) -> ReadFile:
    path = tmp_path / "bytes"
    path.write_bytes(b"0123456789")
    return ReadFile(path)


def failing(monkeypatch: pytest.MonkeyPatch, times: int, number: int = errno.EIO) -> list[int]:
    """Let so many reads fail; returns the first byte of each that was tried."""
    pread, tried = os.pread, list[int]()

    def read(descriptor: int, size: int, start: int) -> bytes:
        tried.append(start)
        if len(tried) <= times:
            raise OSError(number, os.strerror(number))
        return pread(descriptor, size, start)

    monkeypatch.setattr(os, "pread", read)
    return tried


def test_a_read_that_fails_for_a_moment_is_tried_again(file: ReadFile, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = failing(monkeypatch, 2)
    assert file.read(2, 7) == b"23456"
    assert tried == [2, 2, 2]


def test_a_read_that_goes_on_failing_is_an_error(file: ReadFile, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, 1_000)
    with pytest.raises(UnreadableError, match="bytes 2 to 7 cannot be read: Input/output error"):
        file.read(2, 7)


@pytest.mark.parametrize(("times", "number", "tries"), [(2, errno.EIO, 3), (9, errno.EIO, 3), (9, errno.ENOENT, 1)])
def test_a_file_that_fails_to_open_for_a_moment_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, number: int, tries: int
) -> None:
    (tmp_path / "bytes").write_bytes(b"0123456789")
    opened, tried = os.open, list[Path]()

    def fails(path: Path, flags: int) -> int:
        tried.append(path)
        if len(tried) <= times:
            raise OSError(number, os.strerror(number))
        return opened(path, flags)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fails)
        if times < tries:
            assert ReadFile(tmp_path / "bytes").read(0, 10) == b"0123456789"
        else:
            with pytest.raises(OSError, match=os.strerror(number)):
                ReadFile(tmp_path / "bytes")
    assert len(tried) == tries


def test_only_failures_of_the_disk_are_tried_again(file: ReadFile, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = failing(monkeypatch, 1_000, errno.EBADF)
    with pytest.raises(UnreadableError, match="Bad file descriptor"):
        file.read(0, 10)
    assert len(tried) == 1


def test_bytes_behind_the_end_are_an_error(file: ReadFile) -> None:
    with pytest.raises(UnreadableError, match="the file ends at byte 10, before byte 11"):
        file.read(5, 11)


def test_what_cannot_be_read_is_zeros_as_it_is(file: ReadFile, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = failing(monkeypatch, 1_000)
    assert file.read_as_is(0, 10) == bytes(10)
    assert len(tried) == 1
