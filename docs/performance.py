"""The pages of performance: what performance.toml says of the programs of bench, and what their records have.
`python -m docs.generate` writes them."""

import shlex
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.record import RATIOS, Record, records

LONGEST = 50
"""Lines of an output that a page shows."""


class Ratio(NamedTuple):
    """What a name of the last line of a program means, with the fields of performance.toml."""

    what: str
    against: str
    good: str
    unit: str = ""


class Subject(NamedTuple):
    """A program of bench, with the keys of performance.toml."""

    page: str
    title: str
    why: str
    ratios: dict[str, Ratio]


def _subject(ratios: dict[str, list[str]], **fields: Any) -> Subject:
    return Subject(**fields, ratios={name: Ratio(*each) for name, each in ratios.items()})


SUBJECTS = {
    program: _subject(**fields)
    for program, fields in tomllib.loads(Path(__file__).with_suffix(".toml").read_text()).items()
}
"""By the names of the programs, in the order of the pages."""

_BEGINNINGS = {
    "performance.md": """\
# Performance

For whoever compares or plans: how fast one gateway is, against other programs or a limit in the same run.

[Performance of several processes, and of Spark](performance-scaling.md) is a page of its own. [Sizing](sizing.md) says
how much memory and disk a gateway needs.
""",
    "performance-scaling.md": """\
# Performance of several processes, and of Spark

For operators of several processes or of the pipeline: how fast they are, against a limit in the same run.

[Performance](performance.md) is about one gateway. [Sizing of several processes](scaling-sizing.md) says what is
saturated first, and [operating the pipeline](spark-operating.md#how-long-a-batch-takes) how long a batch takes.
""",
}

_EXPLAINED = """
A ratio is what the first column says, divided by the same of what stands under *against*: both are measured in one run,
on one machine. 0.8 of a speed is a fifth slower, 0.8 of a time a fifth faster. Values with a unit have no peer, and are
of the machine that the section names.

| what | ratio | against | measured by | better |
|---|---|---|---|---|
"""

_REPEATED = """
Below is what each program printed, when and on which machine, and where the time goes. This page is made of records in
`bench/results`. In the checkout, after `make check`, this runs a program and writes its record, then this page:

```
.venv/bin/python -m bench.record PROGRAM ARGUMENTS
.venv/bin/python -m docs.generate
```

`python -m bench.PROGRAM --help` explains a program, its arguments and its figures.
"""


def page(name: str) -> str:
    """Return a page: a table of all ratios that were recorded, then what each program printed."""
    kept = records()
    found = [(subject, kept[program]) for program, subject in SUBJECTS.items() if program in kept]
    shown = [(subject, record) for subject, record in found if subject.page == name]
    rows = (row for each in shown for row in _rows(*each))
    sections = (_section(*each) for each in shown)
    return "".join((_BEGINNINGS[name], _EXPLAINED, *rows, _REPEATED, *sections))


def _rows(subject: Subject, record: Record) -> Iterator[str]:
    anchor = subject.title.lower().replace(" ", "-").replace(",", "")
    for name, (what, against, good, unit) in subject.ratios.items():
        if value := record.ratios.get(name):
            by = f"[`bench.{record.program}`](#{anchor})"
            yield f"| {what} | {f'{value} {unit}'.strip()} | {against} | {by} | {good} |\n"


def _section(subject: Subject, record: Record) -> str:
    command = shlex.join(["python", "-m", f"bench.{record.program}", *record.arguments])
    lines = [each for each in record.output if not each.startswith(RATIOS)]
    if len(lines) > LONGEST:
        lines[LONGEST:] = [f"… {len(lines) - LONGEST} more lines in bench/results/{record.program}.json"]
    output = "\n".join(lines)
    return f"\n## {subject.title}\n\n{subject.why}\n`{command}`\n{_ran(record)}:\n\n```\n{output}\n```\n"


_MACHINE = {
    "cores": "{} cores",
    "processor": "processor {}",
    "memory_gib": "{} GiB of memory",
    "system": "{}",
    "python": "Python {}",
}


def _ran(record: Record) -> str:
    """Return when a run was, of which commit, and on what machine, as far as a record has it."""
    where = ", ".join(text.format(record.machine[key]) for key, text in _MACHINE.items() if key in record.machine)
    took = f" in {record.seconds} s" if record.seconds else ""
    return f"printed this{took} on {record.date}, of commit {record.commit}, on a machine with\n{where}"


PAGES: dict[str, Callable[[], str]] = {name: partial(page, name) for name in _BEGINNINGS}
