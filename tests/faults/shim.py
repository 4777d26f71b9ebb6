"""The library that makes the gateway's system calls fail (`shim.c`).

This module builds it and puts it into an environment. It controls it by a file that both map.
"""

import fcntl
import mmap
import os
import shutil
import subprocess
import sys
from enum import IntEnum
from errno import EIO
from hashlib import sha256
from pathlib import Path
from struct import Struct

SOURCE = Path(__file__).with_name("shim.c")
BUILDS = Path(sys.prefix) / "faults"
SHORT = 0
"""A value instead of an errno: the call processes only half of its bytes."""
ALWAYS = -1

_OFFSET = Struct("<q")
_RULE = Struct("<iiiiqqiI216s")
_RULES = 16
_FIRST_RULE = 256
_FIRED_AT = 32


class Call(IntEnum):
    """The operation of a system call; several calls may have the same one."""

    NONE, OPEN, READ, WRITE, SYNC, RENAME, UNLINK, TRUNCATE, MAP = range(9)


def build() -> Path:
    """Return the library's path; compile it if it is missing or older than its source."""
    if shutil.which("gcc") is None:
        raise RuntimeError("the fault campaign compiles a library: gcc is missing")
    finished = BUILDS / f"shim-{sha256(SOURCE.read_bytes()).hexdigest()[:16]}.so"
    BUILDS.mkdir(exist_ok=True)
    with (BUILDS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            unfinished = finished.with_suffix(".unfinished")
            flags = ("-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
            subprocess.run(["gcc", *flags, "-o", str(unfinished), str(SOURCE)], check=True)
            unfinished.rename(finished)
    return finished


class Shim:
    """The library's effect on the processes that are started with `environment`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "faults.control"
        self._path.write_bytes(bytes(_FIRST_RULE + _RULES * _RULE.size))
        with self._path.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), 0)
        self._library = build()
        self._used = 0

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "LD_PRELOAD": str(self._library), "FAULTS_CONTROL": str(self._path)}

    def fail(
        self,
        call: Call,
        path: str,
        error: int = EIO,
        *,
        skip: int = 0,
        times: int = ALWAYS,
        block: tuple[int, int] = (0, 0),
        inode: int = 0,
    ) -> None:
        """Let calls on a path that contains `path` fail: `times` of them after the first `skip`.

        With `block`, only calls that touch these bytes fail; with `inode`, only calls on an open file with this number.
        """
        if self._used == _RULES:
            raise ValueError("the shim has no room for another rule")
        at = _FIRST_RULE + self._used * _RULE.size
        rule = _RULE.pack(call, error, skip, times, *block, 0, inode & 0xFFFFFFFF, path.encode())
        self._mapped[at + 4 : at + _RULE.size] = rule[4:]
        self._mapped[at : at + 4] = rule[:4]  # which arms it
        self._used += 1

    def fired(self) -> int:
        """Return the number of calls that have failed since the last `clear`."""
        starts = range(_FIRST_RULE, _FIRST_RULE + self._used * _RULE.size, _RULE.size)
        return sum(int.from_bytes(self._mapped[at + _FIRED_AT : at + _FIRED_AT + 4], "little") for at in starts)

    def clear(self) -> None:
        """Let all calls succeed again; the clock does not change."""
        for at in range(_FIRST_RULE, _FIRST_RULE + _RULES * _RULE.size, _RULE.size):
            self._mapped[at : at + 4] = bytes(4)
        self._used = 0

    def reset(self) -> None:
        """Let all calls succeed and the clock be right again."""
        self.clear()
        self.clock = 0

    @property
    def clock(self) -> float:
        """The seconds by which the clock is ahead."""
        (offset,) = _OFFSET.unpack_from(self._mapped)
        return float(offset / 1e9)

    @clock.setter
    def clock(self, seconds: float) -> None:
        _OFFSET.pack_into(self._mapped, 0, int(seconds * 1e9))

    def close(self) -> None:
        self._mapped.close()
