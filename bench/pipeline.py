"""The data pipeline over one journal: Spark's scan of it, a batch on Spark, and the gateway's one process.

    python -m bench.pipeline              about 1.4 GiB: 200 files of 4 MiB and 20,000 of 32 KiB, 1 % duplicates
    python -m bench.pipeline --scale 0.1  a tenth of it
    python -m bench.pipeline --small 5000 instead, only small attachments, of this number
    python -m bench.pipeline --large 3072 instead, one file of 3 GiB with a Java heap of 512 MiB: what memory it takes

scan       Spark reads every physical message, bodies included, and adds up their sizes
batch      the same journal assembled by `pipeline batch`: content measured in place, catalog and tables written
embedded   the same by the gateway's own assembler and finisher in one process, without any broker
stream     the same in micro-batches, with Spark's state
small      100,000 files of 1 to 32 KiB and 500 data sets among them: a batch that copies all content to the store,
           the processor time of the driver for each attachment, and the gateway's one process

Every figure is the best of the rounds, in MiB/s of the journal, with the page cache warm; Spark runs in a process of
its own for each number of cores, and is asked once before the clock runs. Shuffled bytes are Spark's own count, memory
is the most that was resident at once: of Java, and of all Python workers together. Both are of a run of their own.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep
from typing import Any

from adapters.arrow_journal import ArrowJournal
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.metrics import Metrics
from app.observe import configure_logging
from app.pipeline.job.job import Job, open_run
from app.pipeline.job.spark_session import BRIEF_JAVA, SparkSettings, session
from app.pipeline.run import batch, streaming
from app.pipeline.run.segment_sources import register
from app.pipeline.run.spark_steps import SparkSteps
from app.ports import AttachmentFilter
from app.service.context import ReceiverContext
from app.service.gateway import Gateway
from app.service.threads import collect_seldom
from app.settings import Settings
from bench.pipeline_journals import one_file, small, traffic, unfinished, write

MIB = 1 << 20
OPEN = 1000
SMALL_ATTACHMENTS, SMALL_DATA_SETS = 100_000, 500
SAMPLE_SECONDS = 0.1


# --- what is measured, in a process of its own ------------------------------------------------------------------------


class Peak(threading.Thread):
    """Peak resident memory in MiB of this process's Java, of all its Python workers together, and of one of them."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.java = self.python = self.worker = 0.0

    def run(self) -> None:
        while True:
            below = [(name, resident / 1024) for name, resident in _below(os.getpid())]
            java = [resident for name, resident in below if name == "java"]
            python = [resident for name, resident in below if name != "java"]
            self.java, self.python = max(self.java, sum(java)), max(self.python, sum(python))
            self.worker = max(self.worker, *python, 0.0)
            sleep(SAMPLE_SECONDS)


def _below(parent: int) -> Iterator[tuple[str, int]]:
    """Yield name and resident KiB of every descendant of a process."""
    found: dict[int, tuple[int, str, int]] = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        with suppress(FileNotFoundError, ProcessLookupError):
            status = dict(row.split(":\t", 1) for row in path.read_text().splitlines() if ":\t" in row)
            resident = int(status.get("VmRSS", "0 kB").split()[0])
            found[int(path.parent.name)] = int(status["PPid"]), status["Name"], resident
    above = {parent}
    while below := {number for number, (of, _, _) in found.items() if of in above}:
        yield from (found[number][1:] for number in below)
        above = below


def best(rounds: int, work: Callable[[], Any]) -> float:
    """Return the seconds of the fastest round, after one warm-up round that does not count."""
    work()
    times = []
    for _ in range(rounds):
        started = perf_counter()
        work()
        times.append(perf_counter() - started)
    return min(times)


def on_spark(journal: Path, cores: int, rounds: int) -> dict[str, Any]:
    """Measure the seconds of scan and batch on this number of cores."""
    with TemporaryDirectory() as folder:
        spark = session("bench", SparkSettings(f"local[{cores}]", "1g", java_options=BRIEF_JAVA))
        collect_seldom()  # as the command does
        register(spark)
        scanned = best(rounds, lambda: _scan(spark, journal))
        count = 0

        def whole() -> None:
            nonlocal count
            count += 1
            _batch(spark, journal, Path(folder) / f"out-{count}")

        batched = best(rounds, whole)
        spark.stop()
    return {"scan": scanned, "batch": batched}


def watched(journal: Path, cores: int) -> dict[str, Any]:
    """Measure the memory of scan and batch, and the bytes that a batch shuffles. No clock runs: watching takes time."""
    peak = Peak()
    peak.start()
    with TemporaryDirectory() as folder:
        events = Path(folder) / "events"
        events.mkdir()
        logged = {"enabled": "true", "dir": events.as_uri(), "compress": "false"}
        conf = {f"spark.eventLog.{name}": value for name, value in logged.items()}
        spark = session("bench", SparkSettings(f"local[{cores}]", "1g", conf=conf))
        register(spark)
        _scan(spark, journal)
        idle = peak.java, peak.python
        _batch(spark, journal, Path(folder) / "out")
        spark.stop()
        shuffled = _shuffled(events)
    return {
        "shuffled": shuffled,
        "scan_java": idle[0],
        "scan_python": idle[1],
        "java": peak.java,
        "python": peak.python,
    }


def _scan(spark: Any, journal: Path) -> None:
    messages = spark.read.format("attachment_journal").option("bodies", "true").load(str(journal))
    messages.selectExpr("sum(length(body))").collect()


def _batch(spark: Any, journal: Path, folder: Path, *, in_place: bool = True) -> int:
    """Run a batch and return the number of finished attachments."""
    settings = Settings.model_validate({"data": folder})
    with closing(SqlCatalog(settings.catalog_url)) as catalog:
        committed = batch.run(
            SparkSteps(spark), open_run(Job.of(settings, str(journal), in_place=in_place), catalog, SystemClock())
        )
        assert committed is not None
        assert committed.finished == catalog.counts()["attachments"]["finished"] > 0
    return committed.finished


def small_on_spark(journal: Path, cores: int, rounds: int) -> dict[str, Any]:
    """Measure the batch of small attachments: its seconds, and the seconds of this process's processor time."""
    with TemporaryDirectory() as folder:
        # as the command does
        spark = session("bench", SparkSettings(f"local[{cores}]", "1g", java_options=BRIEF_JAVA))
        collect_seldom()
        taken = []
        for number in range(rounds + 1):
            started, worked = perf_counter(), process_time()
            count = _batch(spark, journal, Path(folder) / f"out-{number}", in_place=False)
            taken.append((perf_counter() - started, process_time() - worked))
        spark.stop()
    seconds, driver = map(min, zip(*taken[1:], strict=True))
    return {"batch": seconds, "driver": driver, "attachments": count}


def _shuffled(events: Path) -> int:
    """Return the bytes that all tasks wrote to the shuffle."""
    total = 0
    for log in events.rglob("*"):
        if log.is_file():
            for line in log.read_text().splitlines():
                if '"SparkListenerTaskEnd"' in line:
                    metrics = json.loads(line).get("Task Metrics") or {}
                    total += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
    return total


def streamed(journal: Path, open_journal: Path) -> dict[str, Any]:
    """Measure the micro-batches of the journal, and the state of many open attachments."""
    with TemporaryDirectory() as folder:
        spark = session("bench", SparkSettings("local[2]", "1g", 2))
        whole = _stream(spark, journal, Path(folder) / "whole", 256 * MIB)
        open_ = _stream(spark, open_journal, Path(folder) / "open", 256 * MIB)
        spark.stop()
    return {"batches": whole["seconds"], "bytes": whole["bytes"], "state": open_["state"], "rocksdb": open_["rocksdb"]}


def _stream(spark: Any, journal: Path, folder: Path, bytes_per_trigger: int) -> dict[str, Any]:
    states: dict[str, int] = {}

    def watch(_number: int, found: Any, _committed: Any) -> None:
        for result in chain.from_iterable(found.results()):
            if result.record is not None:
                states[result.record.id] = result.state

    settings = Settings.model_validate({"data": folder})
    with closing(SqlCatalog(settings.catalog_url)) as catalog:
        query = streaming.start(
            spark,
            open_run(Job.of(settings, str(journal), in_place=True), catalog, SystemClock()),
            checkpoint=str(folder / "checkpoint"),
            bytes_per_trigger=bytes_per_trigger,
            every=None,
            watch=watch,
        )
        query.awaitTermination()
        receiving = [record.id for record in _receiving(catalog)]
    progress = [each for each in query.recentProgress if each.durationMs.get("addBatch")]
    return {
        "seconds": [each.durationMs["triggerExecution"] / 1000 for each in progress],
        "bytes": sum(path.stat().st_size for path in journal.glob("*.arrows")) / max(len(progress), 1),
        "state": sum(states[each] for each in receiving),
        "rocksdb": max((operator.memoryUsedBytes for each in progress for operator in each.stateOperators), default=0),
    }


def _receiving(catalog: SqlCatalog) -> Iterator[Any]:
    cursor: str | None = None
    while True:
        page = catalog.attachments(AttachmentFilter(), cursor, 200)
        yield from (record for record in page.items if record.state == "receiving")
        cursor = page.next
        if cursor is None:
            return


def large(mebibytes: int) -> None:
    """Assemble one file and measure the memory."""
    with TemporaryDirectory(prefix="bench-pipeline-") as folder:
        journal = Path(folder) / "journal"
        write(journal, one_file(mebibytes * MIB), 256 * MIB)
        peak = Peak()
        peak.start()
        spark = session("bench", SparkSettings("local[2]", "512m"))
        started = perf_counter()
        _batch(spark, journal, Path(folder) / "out", in_place=False)
        seconds = perf_counter() - started
        spark.stop()
    print(
        f"large     {mebibytes:,} MiB in {seconds:.1f} s, Java {peak.java:,.0f} MiB, one worker {peak.worker:,.0f} MiB"
    )


def embedded(journal: Path, rounds: int) -> float:
    """Return the seconds in which the gateway's own worker threads finish everything."""

    def whole() -> None:
        with TemporaryDirectory() as folder, closing(ArrowJournal(journal)) as opened:
            settings = Settings.model_validate({"data": Path(folder), "expiry": {"unfinished": "36500d"}})
            with closing(SqlCatalog(settings.catalog_url)) as catalog:
                context = ReceiverContext(
                    settings=settings,
                    journal=opened,
                    catalog=catalog,
                    store=ObjectStore(settings.content_url),
                    clock=SystemClock(),
                    metrics=Metrics(),
                )
                gateway = Gateway(context, {}, {})
                gateway.start()
                while catalog.counts()["attachments"]["complete"]:
                    sleep(SAMPLE_SECONDS)
                gateway.stop()

    return best(rounds, whole)


# --- all of it --------------------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[argparse.Namespace], Any]] = {
    "spark": lambda given: on_spark(given.journal, given.cores, given.rounds),
    "watched": lambda given: watched(given.journal, given.cores),
    "stream": lambda given: streamed(given.journal, given.open_journal),
    "embedded": lambda given: embedded(given.journal, given.rounds),
    "small": lambda given: small_on_spark(given.journal, given.cores, given.rounds),
}


@contextmanager
def journals(scale: float) -> Iterator[tuple[Path, Path]]:
    with TemporaryDirectory(prefix="bench-pipeline-") as folder:
        journal, open_journal = Path(folder) / "journal", Path(folder) / "open"
        write(journal, traffic(round(200 * scale), round(20_000 * scale)))
        write(open_journal, unfinished(OPEN), 4 * MIB)
        yield journal, open_journal


def measured(part: str, journal: Path, rounds: int, cores: int = 2, open_journal: Path | None = None) -> Any:
    """Return the results of a part, which runs in a separate process."""
    command = [sys.executable, "-m", "bench.pipeline", "--part", part, "--journal", str(journal)]
    command += ["--rounds", str(rounds), "--cores", str(cores)]
    command += ["--open-journal", str(open_journal)] if open_journal else []
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="size of the journal, as a factor")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", type=int, metavar="NUMBER", help="only small attachments, of this number")
    parser.add_argument("--large", type=int, metavar="MIB", help="one file of this size, and nothing else")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--journal", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--open-journal", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, default=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    configure_logging("warning", "console")
    if given.part:
        print(json.dumps(PARTS[given.part](given)))
        return
    if given.large:
        large(given.large)
        return
    ratios: dict[str, float] = {}
    if not given.small:
        with journals(given.scale) as (journal, open_journal):
            ratios |= report(journal, open_journal, given.rounds)
    ratios |= report_small(given.small or round(SMALL_ATTACHMENTS * given.scale), given.rounds)
    print("ratios: " + " ".join(f"{name}={value:.4g}" for name, value in ratios.items()))


def report_small(attachments: int, rounds: int) -> dict[str, float]:
    """Measure and print the case of small attachments. Return its ratios."""
    with TemporaryDirectory(prefix="bench-pipeline-") as folder:
        journal = Path(folder) / "journal"
        write(journal, small(attachments, min(SMALL_DATA_SETS, attachments // 10)))
        found = measured("small", journal, rounds)
        seconds = measured("embedded", journal, rounds)
    a_second = found["attachments"] / found["batch"]
    driver = found["driver"] / found["attachments"] * 1000
    print(
        f"small     {found['attachments']:,} attachments in {found['batch']:.1f} s, {a_second:,.0f} a second; ", end=""
    )
    print(f"driver {driver:.3f} ms each, embedded {found['attachments'] / seconds:,.0f} a second")
    return {"small_over_embedded": seconds / found["batch"], "small_per_second": a_second, "small_driver_ms": driver}


def report(journal: Path, open_journal: Path, rounds: int) -> dict[str, float]:
    """Measure and print everything but small attachments. Return the ratios."""
    size = sum(path.stat().st_size for path in journal.glob("*.arrows"))
    print(f"journal   {size / MIB:,.0f} MiB in {len(list(journal.glob('*.arrows')))} segments")
    by_cores = {}
    for cores in (1, 2):
        found = by_cores[cores] = measured("spark", journal, rounds, cores)
        scan, whole = size / MIB / found["scan"], size / MIB / found["batch"]
        print(f"{cores} core{'s' * (cores > 1)}    scan {scan:,.0f} MiB/s, batch {whole:,.0f} MiB/s")
    two, seen = by_cores[2], measured("watched", journal, rounds)
    print(f"shuffled  {seen['shuffled'] / MIB:,.2f} MiB a batch")
    print(f"memory    scan: Java {seen['scan_java']:,.0f} MiB, Python {seen['scan_python']:,.0f} MiB; ", end="")
    print(f"with batch: Java {seen['java']:,.0f} MiB, Python {seen['python']:,.0f} MiB")
    seconds = measured("embedded", journal, rounds)
    print(f"embedded  {size / MIB / seconds:,.0f} MiB/s")
    stream = measured("stream", journal, rounds, open_journal=open_journal)
    shown = ", ".join(f"{each:.1f}" for each in stream["batches"])
    print(f"stream    micro-batches of {stream['bytes'] / MIB:,.0f} MiB in {shown} s")
    print(
        f"state     {stream['state'] / 1024:,.0f} KiB in {OPEN:,} rows, {stream['rocksdb'] / 1024:,.0f} KiB of RocksDB"
    )
    return {
        "batch_over_scan": two["scan"] / two["batch"],
        "batch_over_embedded": seconds / two["batch"],
        "shuffled_share": seen["shuffled"] / size,
        "state_kib_per_1000_open": stream["state"] / 1024 * 1000 / OPEN,
    }


if __name__ == "__main__":
    main()
