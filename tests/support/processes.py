"""Linux's data on a process and its descendants."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from time import sleep

_PROC = Path("/proc")


def family(process: int) -> list[int]:
    """Return a process and all its descendants."""
    parents = dict(_parents())
    found = [process]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for folder in _PROC.glob("[0-9]*"):
        fields = _stat(int(folder.name))
        if fields:
            yield int(folder.name), int(fields[1])


def _stat(process: int) -> list[str]:
    """Return the fields of `stat` after the name; an empty list for a process that has ended."""
    try:
        return (_PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def memory(process: int) -> int:
    """Return the bytes of a process, with its proportion of shared ones."""
    try:
        found = re.search(r"^Pss:\s+(\d+) kB", (_PROC / str(process) / "smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def processor_seconds(process: int, *, with_ended: bool = False) -> float:
    """Return the processor time of a process; on demand with that of its children which have ended."""
    fields = _stat(process)[11 : 15 if with_ended else 13]
    return sum(map(int, fields)) / os.sysconf("SC_CLK_TCK")


def is_computing(process: int, seconds: float) -> bool:
    """Tell whether a process that this one has started takes so much processor time in three tenths of a second."""
    children = family(process)[1:]
    before = [processor_seconds(each) for each in children]
    sleep(0.3)
    return any(processor_seconds(each) - then >= seconds for each, then in zip(children, before, strict=True))


def sockets(process: int) -> int:
    """Return the number of open sockets of a process."""
    count = 0
    for each in (_PROC / str(process) / "fd").iterdir():
        try:
            count += str(each.readlink()).startswith("socket:")
        except OSError:
            continue
    return count
