"""Incremental batches over an archive that grows: what a run over new segments costs when the archive has become long.

    python -m bench.incremental                 200 batches, each over 100 new attachments
    python -m bench.incremental --batches 40    fewer

Each batch has a segment of its own, with files of 1 to 32 KiB, data sets of five tables, and a tenth of its attachments
whose last parts come with the next batch. All batches commit to the same catalog and tables, in one Spark session,
which has run a batch before the clock starts.

first      the median of the first ten batches, in seconds
last       the median of the last ten
scan       the limit: Spark reads the messages of the newest segment, bodies included, and nothing else
whole      one batch over the whole archive: what each run would cost if it read everything again
"""

import argparse
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import pyarrow as pa

from adapters.arrow_journal import ArrowJournal
from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.model.message import PhysicalMessage
from app.observe import configure_logging
from app.pipeline.commit.commit import CommittedBatch
from app.pipeline.job.job import Job, open_run
from app.pipeline.job.spark_session import SparkSettings, session
from app.pipeline.run import batch
from app.pipeline.run.segment_sources import register
from app.pipeline.run.spark_steps import SparkSteps
from app.service.threads import collect_seldom
from app.settings import Settings
from tests.support.sas_client import Attached, Program, binary_file, data_set, message

TABLES = 5
DATA_SETS_IN = 10
"""One attachment in so many is a data set, and one in so many is complete with the next batch only."""
MEDIAN_OF = 10


def day(number: int, attachments: int) -> tuple[list[PhysicalMessage], list[PhysicalMessage]]:
    """Return the messages of a batch, and those that come with the next one."""
    random = Random(number)
    program = Program(random)
    now: list[PhysicalMessage] = []
    later: list[PhysicalMessage] = []
    for at in range(attachments):
        sent = [*message(program, [_attached(program, at)])]
        split = len(sent) - 2 if at % DATA_SETS_IN == 1 else len(sent)
        now += sent[:split]
        later += sent[split:]
    return now, later


def _attached(program: Program, at: int) -> Attached:
    if at % DATA_SETS_IN == 0:
        values = [program.random.random() for _ in range(20)]
        return data_set(program, "WORK", f"SET{at // DATA_SETS_IN % TABLES}", pa.table({"X": values}))
    return binary_file(program, f"file {at}", program.random.randbytes(program.random.randint(1 << 10, 32 << 10)))


def growing(folder: Path, batches: int, attachments: int) -> Iterator[int]:
    """Write the archive segment by segment, and yield the number of each."""
    held: list[PhysicalMessage] = []
    for number in range(1, batches + 1):
        now, later = day(number, attachments)
        with closing(ArrowJournal(folder)) as journal:
            sent = [each._replace(source="s", received_at=1_750_000_000_000_000 + number) for each in [*held, *now]]
            for start in range(0, len(sent), 256):
                journal.append(sent[start : start + 256])
            journal.seal()
        held = later
        yield number


def run(spark: Any, journal: Path, out: Path) -> tuple[float, CommittedBatch]:
    """Run a batch; return its seconds and its outcome."""
    settings = Settings.model_validate({"data": out})
    started = perf_counter()
    with closing(SqlCatalog(settings.catalog_url)) as catalog:
        job = Job.of(settings, str(journal), in_place=False)
        committed = batch.run(SparkSteps(spark), open_run(job, catalog, SystemClock()))
    assert committed is not None
    return perf_counter() - started, committed


def scan(spark: Any, journal: Path, number: int) -> float:
    """Return the seconds in which Spark reads the messages of the segments from a number on."""
    started = perf_counter()
    read = spark.read.format("attachment_journal").option("bodies", "true")
    messages = read.option("starting_after_segment", str(number - 1)).load(str(journal))
    messages.selectExpr("sum(length(body))").collect()
    return perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--attachments", type=int, default=100, help="of each batch")
    given = parser.parse_args()
    configure_logging("warning", "console")
    with TemporaryDirectory(prefix="bench-incremental-") as name:
        folder = Path(name)
        journal = folder / "journal"
        spark = session("bench", SparkSettings("local[2]", "1g"))
        collect_seldom()
        register(spark)
        taken: list[float] = []
        finished = 0
        for number in growing(journal, given.batches + 1, given.attachments):
            seconds, committed = run(spark, journal, folder / "grown")
            finished += committed.finished
            if number > 1:  # the session is warm
                taken.append(seconds)
            if number % 20 == 1:
                print(f"batch {number:4}   {seconds:5.2f} s, scan {scan(spark, journal, number):5.2f} s", flush=True)
        scanned = median(scan(spark, journal, given.batches + 1) for _ in range(3))
        whole, committed = run(spark, journal, folder / "whole")
        assert (
            committed.finished
            == finished
            == (given.batches + 1) * given.attachments - given.attachments // DATA_SETS_IN
        )
        spark.stop()
    first, last = median(taken[:MEDIAN_OF]), median(taken[-MEDIAN_OF:])
    print(f"first {first:.2f} s, last {last:.2f} s, scan {scanned:.2f} s, whole {whole:.2f} s")
    ratios = {"last_over_first": last / first, "last_over_scan": last / scanned, "whole_over_last": whole / last}
    print("ratios:", *(f"{name}={ratio:.2f}" for name, ratio in ratios.items()))


if __name__ == "__main__":
    main()
