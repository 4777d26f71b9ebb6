"""Peak memory of the driver of a batch: over few attachments and over many, and of a driver that only scans.

    python -m bench.driver                          10,000 attachments and 100,000, all of one source
    python -m bench.driver --attachments 1000000    many more

scan    Spark reads every message of the larger journal, bodies included, and adds up their sizes
few     `pipeline batch` over 10,000 files of 1 KiB: content measured in place, catalog and tables written
many    the same over --attachments

Each runs in a process of its own with Spark on two cores. Figures are peak resident memory (VmHWM) in MiB. `driver` is
the driver's Python process alone: it is the one that holds results. With `local[2]`, Java is the driver's and the
executors' in one, so that its peak, which is bounded by its heap of 1 GiB, says nothing of the driver. The Python
workers are processes of their own.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.model.message import PhysicalMessage
from app.observe import configure_logging
from app.pipeline.job.job import Job, open_run
from app.pipeline.job.spark_session import BRIEF_JAVA, SparkSettings, session
from app.pipeline.run import batch
from app.pipeline.run.segment_sources import register
from app.pipeline.run.spark_steps import SparkSteps
from app.service.threads import collect_seldom
from app.settings import Settings
from bench.pipeline_journals import files_of, write

FEW = 10_000
SIZE = 1 << 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attachments", type=int, default=100_000, help="attachments of the larger batch (100,000)")
    parser.add_argument("--one", nargs=2, metavar=("WHAT", "JOURNAL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    configure_logging("warning", "console")
    if given.one:
        run(*given.one)
        return
    with TemporaryDirectory(prefix="bench-driver-") as folder:
        few, many = Path(folder) / "few", Path(folder) / "many"
        for journal, number in ((few, FEW), (many, given.attachments)):
            write(journal, of_one_source(number))
        scanned = measured("scan", many)
        small, large = measured("batch", few), measured("batch", many)
    print(
        f"ratios: driver_growth={large / small:.2f} driver_mib_few={small:.0f} driver_mib_many={large:.0f} "
        f"driver_mib_scan={scanned:.0f}"
    )


def of_one_source(number: int) -> Iterator[PhysicalMessage]:
    return (each._replace(source="one") for each in files_of(number, SIZE))


def measured(what: str, journal: Path) -> float:
    """Run this program for one thing, print what it says, and return the driver's peak in MiB."""
    command = [sys.executable, "-m", "bench.driver", "--one", what, str(journal)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    print(said, flush=True)
    return float(said.split()[-2])


def run(what: str, journal: str) -> None:
    """Scan a journal or run a batch over it, and print the seconds and the peaks."""
    spark = session("bench", SparkSettings("local[2]", "1g", java_options=BRIEF_JAVA))  # as the command does
    collect_seldom()  # as the command does
    started = perf_counter()
    if what == "scan":
        register(spark)
        messages = spark.read.format("attachment_journal").option("bodies", "true").load(journal)
        messages.selectExpr("sum(length(body))").collect()
        done = "all messages"
    else:
        with TemporaryDirectory(prefix="bench-driver-") as folder:
            settings = Settings.model_validate({"data": folder})
            with closing(SqlCatalog(settings.catalog_url)) as catalog:
                opened = open_run(Job.of(settings, journal, in_place=True), catalog, SystemClock())
                committed = batch.run(SparkSteps(spark), opened)
                assert committed is not None
                assert committed.finished == catalog.counts()["attachments"]["finished"]
                done = f"{committed.finished:,} attachments"
    seconds = perf_counter() - started
    java = max(peak(int(path.name)) for path in Path("/proc").glob("[0-9]*") if is_java_of_this(path))
    print(f"{what:<6} {done} in {seconds:.1f} s: Java {java:.0f} MiB, driver {peak(os.getpid()):.0f} MiB")
    spark.stop()


def is_java_of_this(process: Path) -> bool:
    """Tell whether a process is a Java that this process has started."""
    try:
        status = (process / "status").read_text()
    except OSError:
        return False
    return status.startswith("Name:\tjava\n") and f"\nPPid:\t{os.getpid()}\n" in status


def peak(process: int) -> float:
    """Return the peak resident memory of a process in MiB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    main()
