"""Run a program of this folder as its users do, and keep what it printed: `python -m bench.record rest --rounds 6`.

The record is bench/results/NAME.json, from which `python -m docs.generate` makes the pages of performance. A program
that fails, or whose last line has no ratios, leaves no record.
"""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from socket import gethostname
from time import perf_counter
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).with_name("results")
RATIOS = "ratios: "
MEASURED = ("app", "adapters", "bench", ":!bench/results")
"""The code that a run measures, as paths of git."""


class Record(NamedTuple):
    """One run of a program. `machine` says what is known of where it ran, `commit` which code it was."""

    program: str
    arguments: list[str]
    date: str
    seconds: int | None
    commit: str
    machine: dict[str, Any]
    output: list[str]

    @property
    def ratios(self) -> dict[str, str]:
        """The values of the last line by their names, as they were printed."""
        pairs = (each.partition("=") for each in self.output[-1].removeprefix(RATIOS).split())
        return {name: value for name, _, value in pairs}


def records() -> dict[str, Record]:
    """Return all records by the names of their programs."""
    return {path.stem: Record(path.stem, **json.loads(path.read_text())) for path in sorted(RESULTS.glob("*.json"))}


def kept(record: Record) -> str:
    """Return a record as its file has it. An error is raised if it names the machine or a place on it."""
    if not record.output or not record.output[-1].startswith(RATIOS):
        raise ValueError(f"the last line of bench.{record.program} does not begin with {RATIOS!r}")
    text = "\n".join((*record.arguments, *record.output))
    places = (each for each in re.findall(r"(?<![\w.])/\w[\w.-]*", text) if Path(each).is_dir())
    hosts = re.findall(rf"\b{re.escape(gethostname())}\b", text)
    if named := [*places, *hosts]:
        raise ValueError(f"a record names no place and no machine, and this one has {named[0]!r}")
    fields = {name: value for name, value in record._asdict().items() if name != "program"}
    return json.dumps(fields, indent=1, ensure_ascii=False) + "\n"


def machine() -> dict[str, Any]:
    """Return what decides how fast this machine is, as far as it tells."""
    lines = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "processor": next((value.strip() for name, _, value in lines if name.strip() == "model name"), ""),
        "memory_gib": round(memory / 2**30),
        "system": platform.freedesktop_os_release()["PRETTY_NAME"],
        "python": platform.python_version(),
    }


def commit() -> str:
    """Return the commit that was measured, and whether its code was changed since."""
    name = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", *MEASURED], cwd=ROOT, check=False).returncode
    return name.stdout.strip() + " with changes" * bool(changed)


def printed(lines: Iterable[str]) -> list[str]:
    """Print lines as they come, and return them."""
    found = []
    for line in lines:
        print(line, end="", flush=True)
        found.append(line.rstrip())
    return found


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m bench.record PROGRAM [ARGUMENTS OF THE PROGRAM]")
    program, *arguments = sys.argv[1:]
    found, begun = commit(), perf_counter()
    command = [sys.executable, "-m", f"bench.{program}", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = printed(process.stdout)
    if process.returncode:
        sys.exit(f"bench.{program} ended with {process.returncode}: there is no record of it")
    seconds, today = round(perf_counter() - begun), f"{datetime.now(UTC):%Y-%m-%d}"
    try:
        text = kept(Record(program, arguments, today, seconds, found, machine(), output))
    except ValueError as error:
        sys.exit(f"{error}: there is no record of it")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{program}.json").write_text(text)


if __name__ == "__main__":
    main()
