"""Receivers without a disk: what acknowledging by the archive costs, against bare puts into the same store.

    python -m bench.archive_ack
    python -m bench.archive_ack --delays 20 100 --seconds 10

The store is the tests' S3 server on this machine, which answers each request after a delay (20 and 100 ms). Messages
of 32,000 bytes are submitted as fast as they are acknowledged, as from a broker with a full queue, and then one at a
time, as from one that is idle.

puts     obstore puts objects of the size that our batches have, one after the other
at once  the limit: as many of these at once as our journal puts
acked    intake, journal of objects, acknowledgement: messages a second
latency  from the submission of a single message to its acknowledgement, median and 99th percentile
"""

import argparse
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event, Semaphore, Thread
from time import perf_counter
from typing import NamedTuple

import obstore

from adapters.arrow_journal import ObjectJournal
from adapters.arrow_journal.object_journal import MOST_APPENDS
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from adapters.storage_places import bucket
from app.main import SystemClock
from app.metrics import Metrics
from app.model.message import PhysicalMessage
from app.observe import configure_logging
from app.service.context import WriterContext
from app.service.receiving.backlog import BATCH_BYTES, Backlog
from app.service.receiving.intake import SharedIntake
from app.service.receiving.journal_writer import JournalWriter
from app.settings import Settings
from tests.support import object_server
from tests.support.mosquitto import free_port

SIZE = 32_000
AT_ONCE = 64
"""The number of messages in one submission, and the most submissions that wait."""
ALONE = 30
"""The number of messages that are submitted one at a time."""


class Measured(NamedTuple):
    """Messages a second, puts a message, and the latency of single messages (ms)."""

    rate: float
    puts: float
    latency: float
    p99: float


@contextmanager
def receiving(folder: Path, place: str) -> Iterator[tuple[SharedIntake, ObjectJournal]]:
    """Run the intake and the journal of a receiver without a disk."""
    journal = ObjectJournal(place, folder / "cache")
    context = WriterContext(
        settings=Settings(data=folder),
        journal=journal,
        catalog=SqlCatalog(f"sqlite:///{folder / 'catalog.sqlite'}"),
        store=ObjectStore(folder / "content"),
        clock=SystemClock(),
        metrics=Metrics(),
    )
    backlog = Backlog(context.settings.limits.backlog_bytes)
    intake, writer = SharedIntake(context, backlog), JournalWriter(context, backlog, lambda *_: None)
    threads = [Thread(target=writer.run) for _ in range(journal.most_appends + 1)]
    for each in threads:
        each.start()
    try:
        yield intake, journal
    finally:
        backlog.stop()
        for each in threads:
            each.join()
        context.catalog.close()


def message(body: bytes) -> PhysicalMessage:
    return PhysicalMessage("orders", "sas_queue", body=body, received_at=SystemClock().now())


def acknowledged(folder: Path, place: str, seconds: float) -> Measured:
    """Measure a receiver that acknowledges what the store has."""
    body = Random(1).randbytes(SIZE)
    with receiving(folder, place) as (intake, journal):
        times = []
        for _ in range(ALONE):
            done, begun = Event(), perf_counter()
            intake.submit([message(body)], done.set)
            done.wait()
            times.append(perf_counter() - begun)
        objects = len(journal.segments())
        room, sent = Semaphore(AT_ONCE), 0
        begun = perf_counter()
        while perf_counter() - begun < seconds:
            room.acquire()
            intake.submit([message(body)] * AT_ONCE, room.release)
            sent += AT_ONCE
        for _ in range(AT_ONCE):
            room.acquire()
        rate = sent / (perf_counter() - begun)
        puts = (len(journal.segments()) - objects) / sent
    return Measured(rate, puts, median(times) * 1e3, sorted(times)[-1 - len(times) // 100] * 1e3)


def bare_puts(place: str, size: int, seconds: float, at_once: int = 1) -> float:
    """Return how many messages a second obstore puts in objects of a size, so many of them at once."""
    store, data = bucket(place), Random(2).randbytes(size)
    numbers, begun = count(), perf_counter()

    def put(_: int) -> int:
        done = 0
        while perf_counter() - begun < seconds:
            obstore.put(store, f"bare/{at_once}/{next(numbers)}", data, mode="create", use_multipart=False)
            done += 1
        return done

    with ThreadPoolExecutor(at_once) as threads:
        done = sum(threads.map(put, range(at_once)))
    return done * (size // SIZE) / (perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delays", type=float, nargs="+", default=[20.0, 100.0], help="milliseconds (20 100)")
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds of each load (8)")
    given = parser.parse_args()
    configure_logging("error", "console")
    port = free_port()
    os.environ.update(object_server.environment(port))
    print(
        f"{'delay':>8} {'puts/s':>9} {'at once/s':>9} {'acked/s':>9} {'puts a message':>15} {'latency':>9} {'p99':>8}"
    )
    ratios: dict[str, float] = {}
    with object_server.serving(port), TemporaryDirectory(prefix="bench-archive-ack-") as name:
        for delay in given.delays:
            held, folder = object_server.Bucket(port, f"bench-{delay:g}"), Path(name) / f"{delay:g}"
            folder.mkdir()
            held.ask(f"{object_server.DELAY}{delay / 1e3}")
            found = acknowledged(folder, held.url, given.seconds)
            size = round(1 / found.puts) * SIZE
            bare = bare_puts(held.url, size, given.seconds)
            together = bare_puts(held.url, size, given.seconds, MOST_APPENDS)
            ratios[f"acked_over_puts_{delay:g}ms"] = found.rate / bare
            ratios[f"acked_over_puts_at_once_{delay:g}ms"] = found.rate / together
            print(
                f"{delay:5.0f} ms {bare:9.0f} {together:9.0f} {found.rate:9.0f} {found.puts:15.4f} "
                f"{found.latency:6.1f} ms {found.p99:5.1f} ms"
            )
            held.ask(f"{object_server.DELAY}0")
    print(f"batches are at most {BATCH_BYTES >> 20} MiB of bodies and what had been submitted before")
    ratios["acked_over_puts"] = min(ratios[f"acked_over_puts_{delay:g}ms"] for delay in given.delays)
    print("ratios: " + " ".join(f"{name}={ratio:.2f}" for name, ratio in ratios.items()))


if __name__ == "__main__":
    main()
