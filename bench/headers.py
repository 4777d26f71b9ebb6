"""The headers of one source, read by one core and by two.

    python -m bench.headers                    120,000 headers
    python -m bench.headers --headers 600000   many more

pass      the limit of one task: `HeaderPass` over all of them in this process, one after the other, without Spark
1 core    Spark reads the journal for references, and then the headers among them, with one core
2 cores   the same with two

Each announces one attachment, and none of them is repeated. A process of its own for each number of cores has read all
of it once before the clock starts. Nothing is assembled or committed.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter

from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.model.message import PhysicalMessage
from app.observe import configure_logging
from app.pipeline.assemble.earlier_state import NOTHING_EARLIER
from app.pipeline.commit.commit_intent import IntendedBatch
from app.pipeline.job.job import Job, OpenRun, open_run
from app.pipeline.job.spark_session import SparkSettings, session
from app.pipeline.references.header_pass import HeaderPass, Remembered
from app.pipeline.run.spark_steps import SparkSteps
from app.service.threads import collect_seldom
from app.settings import Settings
from bench.pipeline_journals import MIB, RECEIVED_AT, write
from tests.support.sas_client import Program, binary_file, message

ROUNDS = 1


def headers(number: int) -> Iterator[PhysicalMessage]:
    program = Program(Random(1))
    for at in range(number):
        header, *_ = message(program, [binary_file(program, f"file {at}", b"x")])
        yield header._replace(source="one", received_at=RECEIVED_AT + at)


def passed(number: int) -> float:
    """Return the seconds of one pass over all headers."""
    header_pass = HeaderPass(Remembered(), lambda each: each, 10_000)
    coming = list(headers(number))
    started = perf_counter()
    for at, each in enumerate(coming):
        for _ in header_pass.read(at, each):
            pass
    return perf_counter() - started


def on_spark(journal: str, cores: str) -> float:
    """Return the seconds of a round with so many cores."""
    spark = session("bench", SparkSettings(f"local[{cores}]", "1g"))
    collect_seldom()
    steps = SparkSteps(spark)
    with TemporaryDirectory(prefix="bench-headers-") as folder:
        settings = Settings.model_validate({"data": folder})
        with closing(SqlCatalog(settings.catalog_url)) as catalog:
            taken = [
                _read(steps, open_run(Job.of(settings, journal, in_place=True), catalog, SystemClock()))
                for _ in range(ROUNDS + 1)
            ]
    spark.stop()
    return min(taken[1:])


def _read(steps: SparkSteps, run: OpenRun) -> float:
    started = perf_counter()
    whole = IntendedBatch("", run.archive.segments()[-1].number)
    with steps.read_references(run, whole, checked=False) as references:
        steps.read_headers(run, references, NOTHING_EARLIER).rows.write.format("noop").mode("overwrite").save()
    return perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--headers", type=int, default=120_000)
    parser.add_argument("--one", nargs=2, metavar=("JOURNAL", "CORES"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    configure_logging("warning", "console")
    if given.one:
        print(on_spark(*given.one))
        return
    with TemporaryDirectory(prefix="bench-headers-") as folder:
        write(Path(folder), headers(given.headers), 2 * MIB)
        command = [sys.executable, "-m", "bench.headers", "--one", folder]
        one, two = (
            float(subprocess.run([*command, cores], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])
            for cores in ("1", "2")
        )
    alone = passed(given.headers)
    for name, seconds in (("pass", alone), ("1 core", one), ("2 cores", two)):
        print(f"{name:<9} {seconds:6.2f} s, {seconds / given.headers * 1e6:4.0f} us a header")
    print(f"ratios: header_speedup={one / two:.2f} headers_over_pass={alone / two:.2f}")


if __name__ == "__main__":
    main()
