"""The queue manager's log: whatever it is cut off at, whole units of work are left."""

from pathlib import Path

import pytest

from tests.queue_manager.server.log import BackedOut, Defined, Deleted, Entry, Got, MessageLog, Put
from tests.queue_manager.server.structures import MQMD_LENGTH_2

DESCRIPTOR = bytes(range(256)) + bytes(MQMD_LENGTH_2 - 256)
UNITS: list[list[Entry]] = [
    [Defined("QUEUE", {"maxdepth": 5})],
    [Put(1, "QUEUE", DESCRIPTOR, None, b"first"), Put(2, "QUEUE", DESCRIPTOR, 12.5, b"")],
    [BackedOut(1, 1), BackedOut(2, 1)],
    [Got(1), Put(3, "QUEUE", DESCRIPTOR, None, bytes(100))],
    [Deleted("QUEUE")],
]


def written(path: Path) -> list[int]:
    """Writes the units of work; returns how long the log is after each."""
    log = MessageLog(path)
    assert list(log.open()) == []
    lengths = []
    for unit in UNITS:
        log.write(unit)
        lengths.append(path.stat().st_size)
    log.close()
    return lengths


def read(path: Path) -> list[Entry]:
    """What a queue manager that starts now finds."""
    log = MessageLog(path)
    entries = list(log.open())
    log.close()
    return entries


def test_whatever_is_cut_off_whole_units_are_left(tmp_path: Path) -> None:
    lengths = written(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    for cut in range(len(content) + 1):
        path = tmp_path / "cut"
        path.write_bytes(content[:cut])
        left = sum(length <= cut for length in lengths)
        assert read(path) == [entry for unit in UNITS[:left] for entry in unit]
        assert path.stat().st_size == max((length for length in lengths if length <= cut), default=0)


def test_it_goes_on_after_what_was_cut_off(tmp_path: Path) -> None:
    lengths = written(tmp_path / "log")
    with (tmp_path / "log").open("ab") as torn:
        torn.truncate(lengths[1] + 3)
    log = MessageLog(tmp_path / "log")
    assert len(list(log.open())) == 3
    log.write([Got(2)])
    log.close()
    assert read(tmp_path / "log")[-1] == Got(2)


@pytest.mark.parametrize("sync", [False, True])
def test_a_log_written_anew_says_what_it_is_given(tmp_path: Path, sync: bool) -> None:
    written(tmp_path / "log")
    log = MessageLog(tmp_path / "log", sync=sync)
    list(log.open())
    log.rewrite(UNITS[1])
    log.write([Got(1)])
    log.close()
    assert read(tmp_path / "log") == [*UNITS[1], Got(1)]
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
